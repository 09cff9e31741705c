#include "gemm_core/device/gemm_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "gemm_core/base/error.hpp"
#include "gemm_core/epilogue/cpu_epilogue.hpp"

namespace gemm_core {
namespace {

using base::DType;
using Code = GemmStatus::Code;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("gemm: ", parts...)};
}

bool is_narrow_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }
bool computes_in_f32(DType t) { return is_narrow_float(t) || t == DType::tf32; }

struct Axis {
  std::int64_t count = 0, stride = 0;
};

// [rows, columns, batch]; one pointer a batch leaves two axes.
template <class Operand>
std::array<Axis, 3> axes_of(const Operand& o, std::int64_t rows, std::int64_t columns,
                            std::int64_t batch) {
  return {Axis{rows, o.row_stride}, Axis{columns, o.column_stride},
          o.pointers ? Axis{1, 0} : Axis{batch, o.batch_stride}};
}

// Bytes that an operand covers, relative to its pointer: [low, high).
struct Extent {
  std::int64_t low = 0, high = 0;
};

template <class Operand>
bool extent_of(const Operand& o, const std::array<Axis, 3>& axes, Extent& extent) {
  std::int64_t low = 0, high = 0;
  for (const Axis& axis : axes) {
    std::int64_t step = 0;
    if (__builtin_mul_overflow(axis.count - 1, axis.stride, &step)) return false;
    std::int64_t& side = step < 0 ? low : high;
    if (__builtin_add_overflow(side, step, &side)) return false;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 59;
  if (high > kMost || low < -kMost) return false;
  const std::int64_t size = base::bytes(o.dtype);
  extent = {low * size, (high + 1) * size};
  return true;
}

struct Shape {
  const char* name;
  std::int64_t rows, columns;
};

template <class Operand>
GemmStatus check_operand(const Operand& o, const Shape& s, std::int64_t batch) {
  if (s.rows == 0 || s.columns == 0 || batch == 0) return {};
  Extent extent;
  if (!extent_of(o, axes_of(o, s.rows, s.columns, batch), extent)) {
    return refuse(Code::invalid_extent, "operand ", s.name, " [", s.rows, ", ", s.columns,
                  "] with strides ", o.row_stride, ", ", o.column_stride,
                  " spans more than 2^59 elements");
  }
  for (std::int64_t l = 0; l < (o.pointers ? batch : 1); ++l) {
    const void* data = o.pointers ? o.pointers[l] : o.data;
    if (data == nullptr) {
      return refuse(Code::null_operand, "operand ", s.name, " [", s.rows, ", ", s.columns,
                    "] is null", o.pointers ? base::concat(" in batch ", l) : std::string());
    }
    if (reinterpret_cast<std::uintptr_t>(data) %
            static_cast<std::uintptr_t>(base::bytes(o.dtype)) !=
        0) {
      return refuse(Code::misaligned, "operand ", s.name, " is not aligned to its element of ",
                    base::bytes(o.dtype), " bytes",
                    o.pointers ? base::concat(" in batch ", l) : std::string());
    }
  }
  return {};
}

GemmStatus check_types(const GemmArguments& g) {
  const auto pair = [&] {
    return base::concat("A ", base::name(g.a.dtype), " x B ", base::name(g.b.dtype), " -> D ",
                        base::name(g.d.dtype), " computed as ", base::name(g.compute));
  };
  const bool has_c = g.beta != 0;
  if (computes_in_f32(g.compute)) {
    if (is_narrow_float(g.a.dtype) && is_narrow_float(g.b.dtype) && is_narrow_float(g.d.dtype) &&
        (!has_c || is_narrow_float(g.c.dtype)))
      return {};
  } else if (g.compute == DType::f64) {
    if (g.a.dtype == DType::f64 && g.b.dtype == DType::f64 && g.d.dtype == DType::f64 &&
        (!has_c || g.c.dtype == DType::f64)) {
      if (!g.epilogue.nodes.empty())
        return refuse(Code::unsupported, "epilogue nodes on float64 results are not supported");
      return {};
    }
  } else if (g.compute == DType::i8 && g.a.dtype == DType::i8 && g.b.dtype == DType::i8) {
    if (g.d.dtype == DType::i32 && (!has_c || g.c.dtype == DType::i32)) {
      if (g.alpha != 1 || (g.beta != 0 && g.beta != 1)) {
        return refuse(Code::unsupported, "int32 results take alpha 1 and beta 0 or 1, got ",
                      g.alpha, " and ", g.beta);
      }
      if (!g.epilogue.nodes.empty())
        return refuse(Code::unsupported, "epilogue nodes on int32 results are not supported");
      return {};
    }
    if (is_narrow_float(g.d.dtype) && (!has_c || is_narrow_float(g.c.dtype))) return {};
  }
  return refuse(Code::unsupported, pair(),
                has_c ? base::concat(" with C ", base::name(g.c.dtype)) : std::string(),
                " is not supported");
}

GemmStatus check_extents(const GemmArguments& g) {
  const std::int64_t extents[] = {g.m, g.n, g.k, g.batch};
  const char* names[] = {"m", "n", "k", "batch"};
  for (int i = 0; i < 4; ++i) {
    if (extents[i] < 0)
      return refuse(Code::invalid_extent, names[i], " ", extents[i], " is negative");
  }
  const auto too_large = [](std::int64_t x, std::int64_t y) {
    std::int64_t bytes = 0;
    return __builtin_mul_overflow(x, y, &bytes) || __builtin_mul_overflow(bytes, 8, &bytes);
  };
  if (too_large(g.m, g.n))
    return refuse(Code::invalid_extent, "m ", g.m, " x n ", g.n, " x 8 bytes exceeds 2^63");
  if (too_large(g.m, g.k))
    return refuse(Code::invalid_extent, "m ", g.m, " x k ", g.k, " x 8 bytes exceeds 2^63");
  if (too_large(g.k, g.n))
    return refuse(Code::invalid_extent, "k ", g.k, " x n ", g.n, " x 8 bytes exceeds 2^63");
  return {};
}

// Two elements of D must not share an address: from the smallest stride on, each steps over all
// that the smaller ones reach.
GemmStatus check_output_strides(const GemmArguments& g) {
  std::array<Axis, 3> axes = axes_of(g.d, g.m, g.n, g.batch);
  for (Axis& axis : axes) axis.stride = std::abs(axis.stride);
  std::sort(axes.begin(), axes.end(),
            [](const Axis& x, const Axis& y) { return x.stride < y.stride; });
  std::int64_t reach = 0;
  for (const Axis& axis : axes) {
    if (axis.count <= 1) continue;
    if (axis.stride <= reach) {
      return refuse(Code::unsupported, "D [", g.m, ", ", g.n, "] x ", g.batch, " with strides ",
                    g.d.row_stride, ", ", g.d.column_stride, " and batch stride ", g.d.batch_stride,
                    " overlaps itself");
    }
    reach += (axis.count - 1) * axis.stride;
  }
  return {};
}

// Whether the bytes of D and of another operand meet, from first to last over all batches; with an
// array of pointers, batch by batch.
template <class Operand>
bool meets_d(const GemmArguments& g, const Operand& o, std::int64_t rows, std::int64_t columns) {
  const auto address = [](const auto& operand, std::int64_t l) {
    return reinterpret_cast<std::intptr_t>(operand.pointers ? operand.pointers[l] : operand.data);
  };
  Extent d, e;
  extent_of(g.d, axes_of(g.d, g.m, g.n, g.batch), d);
  extent_of(o, axes_of(o, rows, columns, g.batch), e);
  const std::int64_t pairs = g.d.pointers || o.pointers ? g.batch : 1;
  for (std::int64_t l = 0; l < pairs; ++l) {
    const std::intptr_t x = address(g.d, l), y = address(o, l);
    if (x + d.low < y + e.high && y + e.low < x + d.high) return true;
  }
  return false;
}

bool is_updated_in_place(const GemmArguments& g) {
  if (g.c.dtype != g.d.dtype || g.c.row_stride != g.d.row_stride ||
      g.c.column_stride != g.d.column_stride) {
    return false;
  }
  if (g.c.pointers == nullptr && g.d.pointers == nullptr) {
    return g.c.data == g.d.data && (g.batch == 1 || g.c.batch_stride == g.d.batch_stride);
  }
  return g.c.pointers && g.d.pointers &&
         std::equal(g.c.pointers, g.c.pointers + g.batch, g.d.pointers);
}

GemmStatus check_overlap(const GemmArguments& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  if (g.k > 0 && meets_d(g, g.a, g.m, g.k)) {
    return refuse(Code::overlap, "operand D overlaps operand A");
  }
  if (g.k > 0 && meets_d(g, g.b, g.k, g.n)) {
    return refuse(Code::overlap, "operand D overlaps operand B");
  }
  if (g.beta != 0 && !is_updated_in_place(g) && meets_d(g, g.c, g.m, g.n)) {
    return refuse(Code::overlap, "operand D overlaps operand C without being the same matrix");
  }
  return {};
}

}  // namespace

GemmStatus check_gemm(const GemmArguments& g) {
  if (auto s = check_extents(g); !s.ok()) return s;
  if (auto s = check_types(g); !s.ok()) return s;
  const bool has_output = g.m > 0 && g.n > 0;
  if (has_output) {
    if (auto s = check_operand(g.a, {"A", g.m, g.k}, g.batch); !s.ok()) return s;
    if (auto s = check_operand(g.b, {"B", g.k, g.n}, g.batch); !s.ok()) return s;
  }
  if (auto s = check_operand(g.d, {"D", g.m, g.n}, g.batch); !s.ok()) return s;
  if (g.beta != 0) {
    if (auto s = check_operand(g.c, {"C", g.m, g.n}, g.batch); !s.ok()) {
      if (s.code == Code::null_operand) s.message += base::concat(", beta is ", g.beta);
      return s;
    }
  }
  if (auto s = check_output_strides(g); !s.ok()) return s;
  if (auto s = check_overlap(g); !s.ok()) return s;
  if (g.visitor && (!g.epilogue.nodes.empty() || !is_narrow_float(g.d.dtype))) {
    return refuse(
        Code::unsupported,
        "a visitor takes no further epilogue nodes and a D of float32, float16 or bfloat16, got ",
        g.epilogue.nodes.size(), " nodes and ", base::name(g.d.dtype));
  }
  try {
    check_epilogue(g.epilogue, g.m, g.n, "gemm");
    if (g.visitor) g.visitor->check(g.m, g.n, g.batch);
  } catch (const base::Error& error) {
    return {Code::unsupported, error.what()};
  }
  return {};
}

}  // namespace gemm_core

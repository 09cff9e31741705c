#include "gemm_core/device/gemm_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "gemm_core/base/error.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/epilogue/cpu_epilogue.hpp"

namespace gemm_core {
namespace {

using base::DType;
using Code = GemmStatus::Code;

template <class... Parts>
GemmStatus refuse(Code code, const Parts&... parts) {
  return {code, base::concat("gemm: ", parts...)};
}

bool computes_in_f32(DType t) { return is_narrow_float(t) || t == DType::tf32 || is_fp8(t); }
bool is_real_operand(DType t) { return is_narrow_float(t) || is_fp8(t) || is_small_integer(t); }
bool is_real_result(DType t) { return is_narrow_float(t) || is_fp8(t) || t == DType::i8; }
bool has_c(const GemmArguments& g) { return g.beta != 0 || g.beta_imag != 0; }

struct Axis {
  std::int64_t count = 0, stride = 0;
};

// [rows, columns, batch]; one pointer a batch leaves two axes.
template <class Operand>
std::array<Axis, 3> axes_of(const Operand& o, std::int64_t rows, std::int64_t columns,
                            std::int64_t batch) {
  return {Axis{o.rows.indices ? o.rows.limit : rows, o.row_stride},
          Axis{o.columns.indices ? o.columns.limit : columns, o.column_stride},
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
    if (axis.count == 0) continue;  // an empty buffer behind an index list
    std::int64_t step = 0;
    if (__builtin_mul_overflow(axis.count - 1, axis.stride, &step)) return false;
    std::int64_t& side = step < 0 ? low : high;
    if (__builtin_add_overflow(side, step, &side)) return false;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 59;
  if (high > kMost || low < -kMost) return false;
  const std::int64_t size = base::bits(o.dtype);
  if (size == 128 && (high > kMost / 2 || low < -kMost / 2)) return false;
  extent = size >= 8 ? Extent{low * (size / 8), (high + 1) * (size / 8)}
                     : Extent{(low * size - 7) / 8, ((high + 1) * size + 7) / 8};
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

GemmStatus refuse_types(const GemmArguments& g) {
  return refuse(Code::unsupported, "A ", base::name(g.a.dtype), " x B ", base::name(g.b.dtype),
                " -> D ", base::name(g.d.dtype), " computed as ", base::name(g.compute),
                has_c(g) ? base::concat(" with C ", base::name(g.c.dtype)) : std::string(),
                " is not supported");
}

// f64 and complex: one type for all, and no nodes.
GemmStatus check_single_type(const GemmArguments& g) {
  const DType t = g.compute;
  if (g.a.dtype != t || g.b.dtype != t || g.d.dtype != t || (has_c(g) && g.c.dtype != t))
    return refuse_types(g);
  if (!g.epilogue.nodes.empty() || g.visitor)
    return refuse(Code::unsupported, "epilogue nodes on ", base::name(t),
                  " results are not supported");
  return {};
}

GemmStatus check_integers(const GemmArguments& g) {
  if (!is_small_integer(g.a.dtype) || !is_small_integer(g.b.dtype)) return refuse_types(g);
  if (g.d.dtype != DType::i32) {
    const bool fits = is_real_result(g.d.dtype) && (!has_c(g) || is_real_result(g.c.dtype));
    return fits ? GemmStatus{} : refuse_types(g);
  }
  if (has_c(g) && g.c.dtype != DType::i32) return refuse_types(g);
  if (g.alpha != 1 || (g.beta != 0 && g.beta != 1)) {
    return refuse(Code::unsupported, "int32 results take alpha 1 and beta 0 or 1, got ", g.alpha,
                  " and ", g.beta);
  }
  if (!g.epilogue.nodes.empty())
    return refuse(Code::unsupported, "epilogue nodes on int32 results are not supported");
  return {};
}

GemmStatus check_types(const GemmArguments& g) {
  if (!is_complex(g.compute) &&
      (g.alpha_imag != 0 || g.beta_imag != 0 || g.a.conjugate || g.b.conjugate)) {
    return refuse(Code::unsupported,
                  "complex alpha, beta and conjugates need a complex compute type, got ",
                  base::name(g.compute));
  }
  if (g.compute == DType::f64 || is_complex(g.compute)) return check_single_type(g);
  if (g.compute == DType::i8) return check_integers(g);
  const bool fits = computes_in_f32(g.compute) && is_real_operand(g.a.dtype) &&
                    is_real_operand(g.b.dtype) && is_real_result(g.d.dtype) &&
                    (!has_c(g) || is_real_result(g.c.dtype));
  return fits ? GemmStatus{} : refuse_types(g);
}

// What a single operand says about its elements beyond type and strides.
GemmStatus check_access(const GemmArguments& g) {
  const struct {
    const char* name;
    const GemmOperand& operand;
  } operands[] = {{"A", g.a}, {"B", g.b}, {"C", g.c}};
  for (const auto& [name, o] : operands) {
    if (o.metadata && o.data != g.a.data)
      return refuse(Code::unsupported, "operand ", name,
                    " has metadata: only A may be structured sparse");
    if (!o.pointers && g.batch > 1 && o.batch_stride * base::bits(o.dtype) % 8 != 0) {
      return refuse(Code::misaligned, "operand ", name, ": batch stride ", o.batch_stride, " of ",
                    base::name(o.dtype), " is no whole number of bytes");
    }
  }
  if (g.c.scale.data || g.c.zero.data)
    return refuse(Code::unsupported, "operand C has scales or zero points: only A and B take them");
  if (g.a.metadata && (g.k % 4 != 0 || g.a.metadata_pitch * 8 < g.k || g.batch != 1)) {
    return refuse(Code::unsupported, "structured sparse A: k ", g.k,
                  " must be a multiple of 4, metadata pitch ", g.a.metadata_pitch, " at least ",
                  (g.k + 7) / 8, " and batch ", g.batch, " 1");
  }
  if (g.a.metadata && !computes_in_f32(g.compute))
    return refuse(Code::unsupported, "structured sparse A is not supported for ",
                  base::name(g.compute));
  return check_gemm_side_operands(g);
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
bool meets_d(const GemmArguments& g, const Operand& o, const Extent& e) {
  const auto address = [](const auto& operand, std::int64_t l) {
    return reinterpret_cast<std::intptr_t>(operand.pointers ? operand.pointers[l] : operand.data);
  };
  Extent d;
  extent_of(g.d, axes_of(g.d, g.m, g.n, g.batch), d);
  const std::int64_t pairs = g.d.pointers || o.pointers ? g.batch : 1;
  for (std::int64_t l = 0; l < pairs; ++l) {
    const std::intptr_t x = address(g.d, l), y = address(o, l);
    if (x + d.low < y + e.high && y + e.low < x + d.high) return true;
  }
  return false;
}

template <class Operand>
bool meets_d(const GemmArguments& g, const Operand& o, std::int64_t rows, std::int64_t columns) {
  Extent e;
  extent_of(o, axes_of(o, rows, columns, g.batch), e);
  return meets_d(g, o, e);
}

bool is_updated_in_place(const GemmArguments& g) {
  if (g.c.dtype != g.d.dtype || g.c.row_stride != g.d.row_stride ||
      g.c.column_stride != g.d.column_stride || g.c.rows.indices.data != g.d.rows.indices.data ||
      g.c.columns.indices.data != g.d.columns.indices.data) {
    return false;
  }
  if (g.c.pointers == nullptr && g.d.pointers == nullptr) {
    return g.c.data == g.d.data && (g.batch == 1 || g.c.batch_stride == g.d.batch_stride);
  }
  return g.c.pointers && g.d.pointers &&
         std::equal(g.c.pointers, g.c.pointers + g.batch, g.d.pointers);
}

std::int64_t columns_of_a(const GemmArguments& g) { return g.a.metadata ? g.k / 2 : g.k; }

GemmStatus check_overlap(const GemmArguments& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  if (g.k > 0 && meets_d(g, g.a, g.m, columns_of_a(g))) {
    return refuse(Code::overlap, "operand D overlaps operand A");
  }
  if (g.k > 0 && meets_d(g, g.b, g.k, g.n)) {
    return refuse(Code::overlap, "operand D overlaps operand B");
  }
  if (has_c(g) && !is_updated_in_place(g) && meets_d(g, g.c, g.m, g.n)) {
    return refuse(Code::overlap, "operand D overlaps operand C without being the same matrix");
  }
  return {};
}

// What D must not meet beside A, B and C, whose bytes are those of `axes` in `o`.
GemmStatus check_side(const GemmArguments& g, const GemmOperand& o, const std::array<Axis, 3>& axes,
                      const std::string& name) {
  if (o.data == nullptr) return {};
  if (std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.count <= 0; }))
    return {};
  Extent extent;
  if (!extent_of(o, axes, extent))
    return refuse(Code::invalid_extent, name, " with strides ", o.row_stride, ", ", o.column_stride,
                  " spans more than 2^59 elements");
  if (meets_d(g, o, extent)) return refuse(Code::overlap, "operand D overlaps ", name);
  return {};
}

GemmStatus check_side_of(const GemmArguments& g, const char* operand, const GemmOperand& o,
                         std::int64_t rows, std::int64_t columns) {
  const struct {
    const char* name;
    const GroupedValues& values;
  } groups[] = {{"scale", o.scale}, {"zero point", o.zero}};
  for (const auto& [name, v] : groups) {
    if (v.data == nullptr || rows == 0 || columns == 0) continue;
    const std::array<Axis, 3> axes{Axis{(rows - 1) / v.row_group + 1, v.row_stride},
                                   Axis{(columns - 1) / v.column_group + 1, v.column_stride},
                                   Axis{1, 0}};
    const GemmOperand matrix{v.data, v.dtype, v.row_stride, v.column_stride};
    if (auto s = check_side(g, matrix, axes, base::concat(name, "s of operand ", operand)); !s.ok())
      return s;
  }
  const struct {
    const char* name;
    const GatherList& list;
    std::int64_t count;
  } lists[] = {{"row", o.rows, rows}, {"column", o.columns, columns}};
  for (const auto& [name, list, count] : lists) {
    if (!list.indices) continue;
    const GemmOperand row{list.indices.data, list.indices.dtype};
    if (auto s = check_side(g, row, {Axis{1, 0}, Axis{count, 1}, Axis{1, 0}},
                            base::concat(name, " indices of operand ", operand));
        !s.ok())
      return s;
  }
  return {};
}

// A residual may be D itself, element by element, where one batch reads and writes it.
bool is_added_in_place(const GemmArguments& g, const base::ConstTensorView& aux) {
  return g.batch == 1 && !g.d.pointers && !g.d.rows.indices && !g.d.columns.indices &&
         aux.data == g.d.data && aux.dtype == g.d.dtype && aux.stride[0] == g.d.row_stride &&
         aux.stride[1] == g.d.column_stride;
}

// D against lists, scales, zero points, metadata and what nodes read; check_epilogue() has passed.
GemmStatus check_side_overlap(const GemmArguments& g) {
  if (g.m == 0 || g.n == 0 || g.batch == 0) return {};
  if (auto s = check_side_of(g, "A", g.a, g.m, g.k); !s.ok()) return s;
  if (auto s = check_side_of(g, "B", g.b, g.k, g.n); !s.ok()) return s;
  if (has_c(g)) {
    if (auto s = check_side_of(g, "C", g.c, g.m, g.n); !s.ok()) return s;
  }
  GemmOperand lists;
  lists.rows = g.d.rows;
  lists.columns = g.d.columns;
  if (auto s = check_side_of(g, "D", lists, g.m, g.n); !s.ok()) return s;
  const GemmOperand metadata{g.a.metadata, DType::u8, g.a.metadata_pitch};
  if (auto s = check_side(g, metadata,
                          {Axis{g.m, g.a.metadata_pitch}, Axis{(g.k + 7) / 8, 1}, Axis{1, 0}},
                          "metadata of operand A");
      !s.ok())
    return s;
  for (std::size_t i = 0; i < g.epilogue.nodes.size(); ++i) {
    const EpilogueNode& node = g.epilogue.nodes[i];
    const std::string name = base::concat("epilogue node ", i);
    if (node.kind == EpilogueNode::Kind::scale_shift) {
      for (const float* vector : {node.scale, node.shift}) {
        const std::array<Axis, 3> axes{Axis{1, 0}, Axis{g.n, 1}, Axis{1, 0}};
        if (auto s = check_side(g, {vector, DType::f32}, axes, name + " (scale_shift)"); !s.ok())
          return s;
      }
    } else if (node.kind == EpilogueNode::Kind::add && !is_added_in_place(g, node.aux)) {
      const std::int64_t pitch = node.aux.stride[0];
      const std::array<Axis, 3> axes{Axis{g.m, pitch}, Axis{g.n, 1}, Axis{1, 0}};
      if (auto s = check_side(g, {node.aux.data, node.aux.dtype, pitch}, axes, name + " (add)");
          !s.ok())
        return s;
    }
  }
  return {};
}

}  // namespace

GemmStatus check_gemm_types(const GemmArguments& g) {
  if (auto s = check_types(g); !s.ok()) return s;
  return check_gemm_schedule(g);
}

GemmStatus check_gemm(const GemmArguments& g) {
  if (auto s = check_extents(g); !s.ok()) return s;
  if (auto s = check_gemm_types(g); !s.ok()) return s;
  if (auto s = check_access(g); !s.ok()) return s;
  const bool has_output = g.m > 0 && g.n > 0;
  if (has_output) {
    if (auto s = check_operand(g.a, {"A", g.m, columns_of_a(g)}, g.batch); !s.ok()) return s;
    if (auto s = check_operand(g.b, {"B", g.k, g.n}, g.batch); !s.ok()) return s;
  }
  if (auto s = check_operand(g.d, {"D", g.m, g.n}, g.batch); !s.ok()) return s;
  if (has_c(g)) {
    if (auto s = check_operand(g.c, {"C", g.m, g.n}, g.batch); !s.ok()) {
      if (s.code == Code::null_operand) s.message += base::concat(", beta is ", g.beta);
      return s;
    }
  }
  if (auto s = check_output_strides(g); !s.ok()) return s;
  if (auto s = check_overlap(g); !s.ok()) return s;
  if (g.visitor && (!g.epilogue.nodes.empty() || !is_real_result(g.d.dtype))) {
    return refuse(
        Code::unsupported,
        "a visitor takes no further epilogue nodes and a D of at most 32 bits, no int32, got ",
        g.epilogue.nodes.size(), " nodes and ", base::name(g.d.dtype));
  }
  try {
    check_epilogue(g.epilogue, g.m, g.n, "gemm");
    if (g.visitor) g.visitor->check(g.m, g.n, g.batch);
  } catch (const base::Error& error) {
    return {Code::unsupported, error.what()};
  }
  if (auto s = check_gemm_nodes(g); !s.ok()) return s;
  return check_side_overlap(g);
}

}  // namespace gemm_core

#include "gemm_core/device/gemm_checks.hpp"

#include <cstdint>
#include <string>

#include "gemm_core/base/error.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/dense_operation.hpp"
#include "gemm_core/device/operand_extent.hpp"
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
    if (o.metadata && &o != &g.a)
      return refuse(Code::unsupported, "operand ", name,
                    " has metadata: only A may be structured sparse");
    if (!o.pointers && g.batch > 1 && o.batch_stride % 8 * base::bits(o.dtype) % 8 != 0) {
      return refuse(Code::misaligned, "operand ", name, ": batch stride ", o.batch_stride, " of ",
                    base::name(o.dtype), " is no whole number of bytes");
    }
  }
  if (g.c.scale.data || g.c.zero.data)
    return refuse(Code::unsupported, "operand C has scales or zero points: only A and B take them");
  if (g.a.metadata && (g.k % 4 != 0 || g.a.metadata_pitch < (g.k + 7) / 8 || g.batch != 1)) {
    return refuse(Code::unsupported, "structured sparse A: k ", g.k,
                  " must be a multiple of 4, metadata pitch ", g.a.metadata_pitch, " at least ",
                  (g.k + 7) / 8, " and batch ", g.batch, " 1");
  }
  if (g.a.metadata && (g.a.rows.indices || g.a.columns.indices))
    return refuse(Code::unsupported, "structured sparse A takes no row or column indices");
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
  if (!packs_within_limit(g.n, g.k, 1))
    return refuse(Code::invalid_extent, "k ", g.k, " x n ", g.n, " packed exceeds 2^62 bytes");
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
  if (auto s = check_gemm_overlap(g); !s.ok()) return s;
  if (g.visitor && (!g.epilogue.nodes.empty() || !is_real_result(g.d.dtype))) {
    return refuse(
        Code::unsupported,
        "a visitor takes no further epilogue nodes and a D of at most 32 bits, no int32, got ",
        g.epilogue.nodes.size(), " nodes and ", base::name(g.d.dtype));
  }
  if (g.visitor) {
    if (auto s = check_gemm_visitor(g); !s.ok()) return s;
  }
  try {
    check_epilogue(g.epilogue, g.m, g.n, "gemm");
    if (g.visitor) g.visitor->check(g.m, g.n, g.batch);
  } catch (const base::Error& error) {
    return {Code::unsupported, error.what()};
  }
  if (auto s = check_gemm_nodes(g); !s.ok()) return s;
  return check_gemm_side_overlap(g);
}

}  // namespace gemm_core

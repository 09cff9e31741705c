// The types of a product chosen at compile time: a combination that no mainloop has is refused by
// the compiler, with a message that says so, never at run time.
//
//   using Product = TypedGemm<half_t, int4_t, half_t, half_t>;    // A, B, D, what operands are
//   rounded to GemmArguments args = Product::arguments({.m = m, .n = n, .k = k}, a, lda, b, ldb, d,
//   ldd);
#pragma once
#include "gemm_core/base/numeric.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/gemm.hpp"

namespace gemm_core {

// What device/gemm.hpp's table says, for the compiler.
constexpr bool has_mainloop(base::DType a, base::DType b, base::DType d, base::DType compute) {
  using base::DType;
  const auto operand = [](DType t) {
    return is_narrow_float(t) || is_fp8(t) || is_small_integer(t);
  };
  const auto result = [](DType t) { return is_narrow_float(t) || is_fp8(t) || t == DType::i8; };
  if (compute == DType::f64 || is_complex(compute))
    return a == compute && b == compute && d == compute;
  if (compute == DType::i8)
    return is_small_integer(a) && is_small_integer(b) && (d == DType::i32 || result(d));
  const bool floats = is_narrow_float(compute) || is_fp8(compute) || compute == DType::tf32;
  return floats && operand(a) && operand(b) && result(d);
}

struct GemmExtents {
  std::int64_t m = 0, n = 0, k = 0;
};

template <class A, class B, class D, class Compute>
struct TypedGemm {
  static_assert(has_mainloop(base::dtype_v<A>, base::dtype_v<B>, base::dtype_v<D>,
                             base::dtype_v<Compute>),
                "typed gemm: no mainloop multiplies these types");

  // Row-major operands with `ld` elements from row to row. Packed types are given by their bytes.
  template <class T>
  using Pointer = std::conditional_t<base::is_sub_byte_v<T>, std::uint8_t, T>;
  static GemmArguments arguments(const GemmExtents& e, const Pointer<A>* a, std::int64_t lda,
                                 const Pointer<B>* b, std::int64_t ldb, D* d, std::int64_t ldd) {
    GemmArguments g{.m = e.m, .n = e.n, .k = e.k, .compute = base::dtype_v<Compute>};
    g.a = {a, base::dtype_v<A>, lda, 1};
    g.b = {b, base::dtype_v<B>, ldb, 1};
    g.d = {d, base::dtype_v<D>, ldd, 1};
    return g;
  }
};

}  // namespace gemm_core

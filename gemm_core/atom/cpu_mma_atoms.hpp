// The CPU's instructions as MMA and copy atoms. One thread holds all values; is_available() says
// whether this machine runs the instruction (all are compiled in). A vector of B is consecutive
// along n, the k of a dot product fastest, which is how the mainloops pack it.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "gemm_core/atom/mma_atom.hpp"
#include "gemm_core/base/numeric.hpp"

namespace gemm_core {

// (1, values) in the given order.
template <layout::Index... N>
struct OneThread {
  template <layout::Index... D>
  using Strides = layout::Layout<layout::Tuple<layout::Int<1>, Ints<N...>>,
                                 layout::Tuple<layout::Int<0>, Ints<D...>>>;
};

// Any number type, one product.
template <class T>
struct ScalarMma {
  using A = T;
  using B = T;
  using C = T;
  static constexpr int kM = 1, kN = 1, kK = 1, kThreads = 1;
  using ALayout = OneThread<1>::Strides<0>;
  using BLayout = OneThread<1>::Strides<0>;
  using CLayout = OneThread<1>::Strides<0>;
  static bool is_available() { return true; }
  static void call(C* c, const A* a, const B* b) { *c = *c + *a * *b; }
};

namespace detail {

// One row of A (k values) times kN columns.
template <class AType, class BType, class CType, int kColumns, int kDepth>
struct RowTraits {
  using A = AType;
  using B = BType;
  using C = CType;
  static constexpr int kM = 1, kN = kColumns, kK = kDepth, kThreads = 1;
  using ALayout = typename OneThread<kDepth>::template Strides<1>;  // m x k
  using BLayout =
      typename OneThread<kDepth, kColumns>::template Strides<kColumns, 1>;  // k fastest, then n
  using CLayout = typename OneThread<kColumns>::template Strides<1>;
};

// Sixteen rows of A, each k consecutive; B in quads or pairs of k.
template <class AType, class BType, class CType, int kDepth, int kPerWord>
struct TileTraits {
  using A = AType;
  using B = BType;
  using C = CType;
  static constexpr int kM = 16, kN = 16, kK = kDepth, kThreads = 1;
  using ALayout = typename OneThread<kDepth, 16>::template Strides<16, 1>;
  using BLayout =
      typename OneThread<kPerWord, 16, kDepth / kPerWord>::template Strides<16, 1, 16 * kPerWord>;
  using CLayout = typename OneThread<16, 16>::template Strides<16, 1>;  // rows of C, n fastest
};

}  // namespace detail

struct Avx2FmaF32 : detail::RowTraits<float, float, float, 8, 1> {
  static bool is_available();
  static void call(C* c, const A* a, const B* b);
};
struct Avx512FmaF32 : detail::RowTraits<float, float, float, 16, 1> {
  static bool is_available();
  static void call(C* c, const A* a, const B* b);
};
struct Avx512FmaF64 : detail::RowTraits<double, double, double, 8, 1> {
  static bool is_available();
  static void call(C* c, const A* a, const B* b);
};
struct Avx512Bf16Dot : detail::RowTraits<base::bf16_t, base::bf16_t, float, 16, 2> {
  static bool is_available();
  static void call(C* c, const A* a, const B* b);
};
struct Avx512VnniDot : detail::RowTraits<std::uint8_t, std::int8_t, std::int32_t, 16, 4> {
  static bool is_available();
  static void call(C* c, const A* a, const B* b);
};
struct AmxBf16Tile : detail::TileTraits<base::bf16_t, base::bf16_t, float, 32, 2> {
  static bool is_available();
  static void call(C* c, const A* a, const B* b);
};
struct AmxInt8Tile : detail::TileTraits<std::uint8_t, std::int8_t, std::int32_t, 64, 4> {
  static bool is_available();
  static void call(C* c, const A* a, const B* b);
};

// A vector load and store of up to kMost elements by one thread.
template <class T, int kMost>
struct CpuVectorCopy {
  using Element = T;
  static constexpr int kThreads = 1, kElements = kMost;
  using SourceLayout = typename OneThread<kMost>::template Strides<1>;
  using TargetLayout = typename OneThread<kMost>::template Strides<1>;
  template <int kWidth>
  static void call(T* to, const T* from) {
    std::memcpy(to, from, sizeof(T) * static_cast<std::size_t>(kWidth));
  }
};

}  // namespace gemm_core

// Dot-product instructions on 16 lanes of 32 bits. The micro-tile is six rows by four vectors, as
// that of fp32.
#include "gemm_core/atom/x86_dot_products.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#if defined(__clang__)
#pragma clang attribute push(                                                            \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16")
#endif

// Loops over the micro-tile must be gone before the compiler places its arrays: they are registers.
#if defined(__clang__)
#define UNROLL_TILE _Pragma("unroll")
#else
#define UNROLL_TILE _Pragma("GCC unroll 8")
#endif

namespace gemm_core::x86 {
namespace {

constexpr int kLanes = 16, kPanelVectors = 4, kTileRows = 6;

struct Quads {
  using Word = std::int32_t;
  using Sum = std::int32_t;
  using Vector = __m512i;
  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector dot(Vector sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, a, b); }
  static Vector load(const Sum* from) { return _mm512_loadu_si512(from); }
  static void store(Sum* to, Vector v) { _mm512_storeu_si512(to, v); }
  static Vector add(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
};

struct Bf16Pairs {
  using Word = std::uint32_t;
  using Sum = float;
  using Vector = __m512;
  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector dot(Vector sum, __m512i a, __m512i b) {
    __m512bh x, y;
    std::memcpy(&x, &a, sizeof(x));
    std::memcpy(&y, &b, sizeof(y));
    return _mm512_dpbf16_ps(sum, x, y);
  }
  static Vector load(const Sum* from) { return _mm512_loadu_ps(from); }
  static void store(Sum* to, Vector v) { _mm512_storeu_ps(to, v); }
  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
};

template <class Kind>
using Product = PanelProduct<typename Kind::Word, typename Kind::Sum>;

template <class Kind, int kRows, int kVectors>
inline void multiply_tile(const typename Kind::Word* const (&a)[kRows], std::int64_t k,
                          const typename Kind::Word* b, typename Kind::Sum* const (&c)[kRows],
                          bool accumulate) {
  typename Kind::Vector sum[kRows][kVectors];
  UNROLL_TILE
  for (int r = 0; r < kRows; ++r) {
    UNROLL_TILE
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Kind::zero();
  }
  for (std::int64_t i = 0; i < k; ++i, b += kVectors * kLanes) {
    __m512i row[kVectors];
    UNROLL_TILE
    for (int v = 0; v < kVectors; ++v) row[v] = _mm512_loadu_si512(b + v * kLanes);
    UNROLL_TILE
    for (int r = 0; r < kRows; ++r) {
      const __m512i value = _mm512_set1_epi32(static_cast<int>(a[r][i]));
      UNROLL_TILE
      for (int v = 0; v < kVectors; ++v) sum[r][v] = Kind::dot(sum[r][v], value, row[v]);
    }
  }
  UNROLL_TILE
  for (int r = 0; r < kRows; ++r) {
    UNROLL_TILE
    for (int v = 0; v < kVectors; ++v) {
      auto* to = c[r] + v * kLanes;
      Kind::store(to, accumulate ? Kind::add(Kind::load(to), sum[r][v]) : sum[r][v]);
    }
  }
}

template <class Kind, int kRows>
void multiply_group(const Product<Kind>& p, std::int64_t first) {
  constexpr std::int64_t kWidth = kPanelVectors * kLanes;
  const typename Kind::Word* a[kRows];
  typename Kind::Sum* c[kRows];
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t i = first + r;
    a[r] = p.base + (p.source ? p.source[i] : i) * p.pitch;
    c[r] = p.c + (p.target ? p.target[i] : i) * p.ldc;
  }
  const auto* b = p.b;
  std::int64_t rest = p.columns;
  for (; rest >= kWidth; rest -= kWidth) {
    multiply_tile<Kind, kRows, kPanelVectors>(a, p.k, b, c, p.accumulate);
    b += kWidth * p.k;
    for (int r = 0; r < kRows; ++r) c[r] += kWidth;
  }
  switch (rest / kLanes) {
    case 1:
      return multiply_tile<Kind, kRows, 1>(a, p.k, b, c, p.accumulate);
    case 2:
      return multiply_tile<Kind, kRows, 2>(a, p.k, b, c, p.accumulate);
    case 3:
      return multiply_tile<Kind, kRows, 3>(a, p.k, b, c, p.accumulate);
    default:
      return;
  }
}

// One panel of B at a time over all rows, so that it stays in the nearest cache that holds it.
template <class Kind>
void multiply(const Product<Kind>& all) {
  constexpr std::int64_t kWidth = kPanelVectors * kLanes;
  for (std::int64_t n = 0; n < all.columns; n += kWidth) {
    Product<Kind> p = all;
    p.columns = std::min(kWidth, all.columns - n);
    p.b = all.b + n * all.k;
    p.c = all.c + n;
    std::int64_t i = 0;
    for (; i + kTileRows <= p.rows; i += kTileRows) multiply_group<Kind, kTileRows>(p, i);
    switch (p.rows - i) {
      case 5:
        multiply_group<Kind, 5>(p, i);
        break;
      case 4:
        multiply_group<Kind, 4>(p, i);
        break;
      case 3:
        multiply_group<Kind, 3>(p, i);
        break;
      case 2:
        multiply_group<Kind, 2>(p, i);
        break;
      case 1:
        multiply_group<Kind, 1>(p, i);
        break;
      default:
        break;
    }
  }
}

}  // namespace

QuadProduct vnni_product() { return &multiply<Quads>; }
Bf16Product avx512_bf16_product() { return &multiply<Bf16Pairs>; }

}  // namespace gemm_core::x86

#undef UNROLL_TILE
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

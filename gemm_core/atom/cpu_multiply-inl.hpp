// Register-tiled products over vectors of the target being compiled (included once per target).
#if defined(GEMM_CORE_CPU_MULTIPLY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef GEMM_CORE_CPU_MULTIPLY_INL
#undef GEMM_CORE_CPU_MULTIPLY_INL
#else
#define GEMM_CORE_CPU_MULTIPLY_INL
#endif

#include <algorithm>

#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/atom/cpu_micro_tile-inl.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE V multiply_add(D /*d*/, V a, V b, V sum) {
  return hn::MulAdd(a, b, sum);
}

using WordTag = hn::ScalableTag<std::int32_t>;
HWY_INLINE hn::Vec<WordTag> multiply_add([[maybe_unused]] WordTag d, hn::Vec<WordTag> a,
                                         hn::Vec<WordTag> b, hn::Vec<WordTag> sum) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  // On x86 both products of a word stay in its lane; other targets may split them over two sums.
  const hn::Repartition<std::int16_t, WordTag> half;
  auto unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, hn::BitCast(half, a), hn::BitCast(half, b), sum, unused);
#else
  const auto low =
      hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(a)), hn::ShiftRight<16>(hn::ShiftLeft<16>(b)));
  const auto high = hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b));
  return hn::Add(sum, hn::Add(low, high));
#endif
}

template <int kRows, int kVectors, class T>
HWY_INLINE void multiply_tile(const T* const (&a)[kRows], std::int64_t k, const T* HWY_RESTRICT b,
                              T* const (&c)[kRows], bool accumulate) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  const auto step = [&](std::int64_t i) HWY_ATTR {
    V row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = hn::Load(d, b + v * lanes);
    b += kVectors * lanes;
    for (int r = 0; r < kRows; ++r) {
      const V value = hn::Set(d, a[r][i]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = multiply_add(d, value, row[v], sum[r][v]);
    }
  };
  // Unrolled, so that the branch predictor sees few enough turns to foretell the last.
  std::int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    step(i);
    step(i + 1);
    step(i + 2);
    step(i + 3);
  }
  for (; i < k; ++i) step(i);
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      T* const to = c[r] + v * lanes;
      hn::Store(accumulate ? hn::Add(hn::Load(d, to), sum[r][v]) : sum[r][v], d, to);
    }
  }
}

// Share of an L1 of 32 KiB that one pass's panels of B may take; the rows of A and C pass through
// the rest.
constexpr std::int64_t kPassBytes = 16 * 1024;

template <class T>
HWY_INLINE const T* row_of_a(const PanelProduct<T>& p, std::int64_t i) {
  return p.base + (p.source ? p.source[i] : i) * p.pitch;
}

// Asks for the start of a row that the next group reads; the processor follows it from there.
template <class T>
HWY_INLINE void prefetch_row(const PanelProduct<T>& p, std::int64_t i) {
  constexpr std::int64_t kLine = 64 / sizeof(T), kLines = 4;
  const T* row = row_of_a(p, std::min(i, p.rows - 1));
  const std::int64_t end = std::min(p.k, kLines * kLine);
  for (std::int64_t j = 0; j < end; j += kLine) hwy::Prefetch(row + j);
}

template <int kRows, class T>
HWY_INLINE void multiply_group(const PanelProduct<T>& p, std::int64_t first, std::int64_t column,
                               std::int64_t columns) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const std::int64_t width = kPanelVectors * lanes;
  const T* a[kRows];
  T* c[kRows];
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t i = first + r;
    a[r] = row_of_a(p, i);
    c[r] = p.c + (p.target ? p.target[i] : i) * p.ldc + column;
  }
  for (int r = 0; r < kRows; ++r) prefetch_row(p, first + kRows + r);
  const T* b = p.b + column * p.k;
  std::int64_t rest = columns;
  for (; rest >= width; rest -= width) {
    multiply_tile<kRows, kPanelVectors>(a, p.k, b, c, p.accumulate);
    b += width * p.k;
    for (int r = 0; r < kRows; ++r) c[r] += width;
  }
  switch (rest / lanes) {
    case 1:
      return multiply_tile<kRows, 1>(a, p.k, b, c, p.accumulate);
    case 2:
      return multiply_tile<kRows, std::min(2, kPanelVectors)>(a, p.k, b, c, p.accumulate);
    case 3:
      return multiply_tile<kRows, std::min(3, kPanelVectors)>(a, p.k, b, c, p.accumulate);
    default:
      return;
  }
}

template <class T>
HWY_NOINLINE void multiply_pass(const PanelProduct<T>& p, std::int64_t column,
                                std::int64_t columns) {
  std::int64_t i = 0;
  for (; i + kTileRows <= p.rows; i += kTileRows) multiply_group<kTileRows>(p, i, column, columns);
  switch (p.rows - i) {
    case 5:
      return multiply_group<5>(p, i, column, columns);
    case 4:
      return multiply_group<4>(p, i, column, columns);
    case 3:
      return multiply_group<3>(p, i, column, columns);
    case 2:
      return multiply_group<2>(p, i, column, columns);
    case 1:
      return multiply_group<1>(p, i, column, columns);
    default:
      return;
  }
}

template <class T>
void multiply(const PanelProduct<T>& p) {
  const std::int64_t width =
      kPanelVectors * static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const std::int64_t panel_bytes =
      std::max<std::int64_t>(1, p.k) * width * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t pass = std::max<std::int64_t>(1, kPassBytes / panel_bytes) * width;
  for (std::int64_t n = 0; n < p.columns; n += pass)
    multiply_pass(p, n, std::min(pass, p.columns - n));
}

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core::detail
HWY_AFTER_NAMESPACE();
#endif

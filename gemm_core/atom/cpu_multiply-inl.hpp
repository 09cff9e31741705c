// Register-tiled products over vectors of the target being compiled (included once per target).
#if defined(GEMM_CORE_CPU_MULTIPLY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef GEMM_CORE_CPU_MULTIPLY_INL
#undef GEMM_CORE_CPU_MULTIPLY_INL
#else
#define GEMM_CORE_CPU_MULTIPLY_INL
#endif

#include <algorithm>
#include <type_traits>

#include "gemm_core/atom/cpu_ahead.hpp"
#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/atom/cpu_micro_tile-inl.hpp"
#include "gemm_core/atom/x86_avx2_micro_tile-inl.hpp"
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

// Panels of two vectors are asked for into L1 some steps ahead of their turn: the rows of A and C
// push part of them out. Where a panel is larger than L1 the processor's own prefetching is as
// good.
constexpr bool kPrefetchesB = kPanelVectors == 2;
constexpr int kStepsAhead = 8;

template <int kRows, int kVectors, class T, class V>
HWY_INLINE void multiply_step(const T* const (&a)[kRows], std::int64_t i, const T* b,
                              V (&sum)[kRows][kVectors]) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V row[kVectors];
  for (int v = 0; v < kVectors; ++v) row[v] = hn::Load(d, b + v * lanes);
  if constexpr (kPrefetchesB) hwy::Prefetch(b + kStepsAhead * kVectors * lanes);
  for (int r = 0; r < kRows; ++r) {
    const V value = hn::Set(d, a[r][i]);
    for (int v = 0; v < kVectors; ++v) sum[r][v] = multiply_add(d, value, row[v], sum[r][v]);
  }
}

// Sums of 4 * fours steps, in their order.
template <int kRows, int kVectors, class T, class V>
HWY_INLINE void multiply_fours(const T* const (&a)[kRows], std::int64_t fours, const T* b,
                               V (&sum)[kRows][kVectors], Meanwhile& meanwhile) {
  const hn::ScalableTag<T> d;
  const std::int64_t width = kVectors * static_cast<std::int64_t>(hn::Lanes(d));
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  // Unrolled, so that the branch predictor sees few enough turns to foretell the last.
  for (std::int64_t i = 0; i < 4 * fours; i += 4, b += 4 * width) {
    multiply_step(a, i, b, sum);
    multiply_step(a, i + 1, b + width, sum);
    multiply_step(a, i + 2, b + 2 * width, sum);
    multiply_step(a, i + 3, b + 3 * width, sum);
    if (kAheadSteps<T> == 4 || i % kAheadSteps<T> != 0) meanwhile.step();
  }
}

// Rows of a group: at a pitch, or, where they may be listed, at those of a list that is not null.
template <bool kListed, class T>
struct GroupRows {
  T* base;
  std::int64_t pitch;
  const std::int32_t* list;
  GroupRows(T* all, std::int64_t row_pitch, const std::int32_t* rows, std::int64_t first)
      : base(all + (rows ? 0 : first * row_pitch)),
        pitch(row_pitch),
        list(rows ? rows + first : nullptr) {}
  HWY_INLINE T* operator[](std::int64_t r) const {
    if constexpr (kListed) return base + (list ? list[r] : r) * pitch;
    return base + r * pitch;
  }
};

// Where a group of rows reads A, and what it adds to and writes from column `column` on.
template <int kRows, bool kListed, class T>
struct Group {
  GroupRows<kListed, const T> a;
  GroupRows<kListed, T> c;
  GroupRows<kListed, const T> addend;
  Group(const PanelProduct<T>& p, std::int64_t first, std::int64_t column)
      : a(p.base, p.pitch, p.source, first),
        c(p.c + column, p.ldc, p.target, first),
        addend(p.addend ? p.addend + column : p.c + column, p.addend ? p.ld_addend : p.ldc,
               p.addend ? nullptr : p.target, first) {}
};

template <int kVectors, int kRows, bool kListed, class T>
HWY_INLINE void multiply_tile(const PanelProduct<T>& p, const Group<kRows, kListed, T>& group,
                              const T* HWY_RESTRICT b, std::int64_t column, Meanwhile& meanwhile) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kRows][kVectors];
  const T* a[kRows];
  for (int r = 0; r < kRows; ++r) a[r] = group.a[r];
  // A row of C that is one line is asked for in time; more of them delay what is read sooner.
  if constexpr (kVectors * hn::MaxLanes(d) * sizeof(T) <= kLineBytes) {
    for (int r = 0; r < kRows; ++r) {
      hwy::Prefetch(group.c[r] + column);
      if (p.addend) hwy::Prefetch(group.addend[r] + column);
    }
  }
  multiply_fours(a, p.k / 4, b, sum, meanwhile);
  for (std::int64_t i = p.k / 4 * 4; i < p.k; ++i) {
    multiply_step(a, i, b + i * kVectors * lanes, sum);
  }
  T* c[kRows];
  const T* addend[kRows];
  for (int r = 0; r < kRows; ++r) {
    c[r] = group.c[r] + column;
    addend[r] = group.addend[r] + column;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto value =
          p.accumulate ? hn::Add(hn::LoadU(d, addend[r] + v * lanes), sum[r][v]) : sum[r][v];
      hn::StoreU(value, d, c[r] + v * lanes);
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

// Asks for the starts of the rows that the next group reads; the processor follows them from there.
template <int kRows, class T>
HWY_INLINE void prefetch_rows(const PanelProduct<T>& p, std::int64_t first) {
  constexpr std::int64_t kLine = 64 / sizeof(T), kLines = 4;
  std::int64_t at[kLines];
  for (std::int64_t j = 0; j < kLines; ++j) at[j] = std::min(j * kLine, p.k);
  for (int r = 0; r < kRows; ++r) {
    const T* row = row_of_a(p, std::min(first + r, p.rows - 1));
    for (const std::int64_t j : at) hwy::Prefetch(row + j);
  }
}

// A pass over all rows with the panels in [column, column + columns), and what is asked for
// meanwhile.
template <class T>
struct Pass {
  const PanelProduct<T>& p;
  AheadCursor& ahead;
  std::int64_t column, columns;
  const T* next_b = nullptr;    // the next pass's panels, shared out over this one's micro-tiles
  std::int64_t next_share = 0;  // bytes a micro-tile

  // Before a micro-tile.
  Meanwhile& next() {
    Meanwhile& m = ahead.next(p.k / kAheadSteps<T>);
    m.panel = reinterpret_cast<std::uintptr_t>(next_b);
    next_b += next_share / static_cast<std::int64_t>(sizeof(T));
    return m;
  }
};

template <int kRows, bool kListed, class T>
HWY_INLINE void multiply_group(Pass<T>& pass, std::int64_t first) {
  const PanelProduct<T>& p = pass.p;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const std::int64_t width = kPanelVectors * lanes;
  const Group<kRows, kListed, T> group(p, first, pass.column);
  // The processor follows rows at a pitch by itself.
  if constexpr (kListed || !kLoopsByHand<T>) prefetch_rows<kRows>(p, first + kRows);
  const T* b = p.b + pass.column * p.k;
  std::int64_t column = 0;
  const auto tile = [&]<int kVectors>(std::integral_constant<int, kVectors>)
                        HWY_ATTR { multiply_tile<kVectors>(p, group, b, column, pass.next()); };
  for (; column + width <= pass.columns; column += width) {
    tile(std::integral_constant<int, kPanelVectors>());
    b += width * p.k;
  }
  const std::int64_t rest = (pass.columns - column) / lanes;
  if (rest == 1) return tile(std::integral_constant<int, 1>());
  if constexpr (kPanelVectors > 2) {
    if (rest == 2) return tile(std::integral_constant<int, 2>());
    if (rest == 3) return tile(std::integral_constant<int, 3>());
  }
}

template <class T>
HWY_NOINLINE void multiply_pass(Pass<T>& pass) {
  const std::int64_t rows = pass.p.rows;
  std::int64_t i = 0;
  if (pass.p.source == nullptr && pass.p.target == nullptr) {
    for (; i + kTileRows <= rows; i += kTileRows) multiply_group<kTileRows, false>(pass, i);
  } else {
    for (; i + kTileRows <= rows; i += kTileRows) multiply_group<kTileRows, true>(pass, i);
  }
  switch (rows - i) {
    case 5:
      return multiply_group<5, true>(pass, i);
    case 4:
      return multiply_group<4, true>(pass, i);
    case 3:
      return multiply_group<3, true>(pass, i);
    case 2:
      return multiply_group<2, true>(pass, i);
    case 1:
      return multiply_group<1, true>(pass, i);
    default:
      return;
  }
}

template <class T>
void multiply(const PanelProduct<T>& p) {
  const std::int64_t width =
      kPanelVectors * static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const std::int64_t k = std::max<std::int64_t>(1, p.k),
                     panel_bytes = k * width * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t panels = std::max<std::int64_t>(1, kPassBytes / panel_bytes);
  const std::int64_t groups = (p.rows + kTileRows - 1) / kTileRows, steps = p.k / kAheadSteps<T>;
  AheadCursor ahead(p.ahead, groups * ((p.columns + width - 1) / width) * steps, p.b);
  for (std::int64_t n = 0; n < p.columns; n += panels * width) {
    Pass<T> pass{p, ahead, n, std::min(panels * width, p.columns - n), p.b};
    const std::int64_t after = p.columns - n - pass.columns;
    const T* next = after > 0 ? p.b + (n + pass.columns) * p.k : p.next_b;
    std::int64_t step = 0;
    if (next != nullptr && steps > 0) {
      const std::int64_t tiles = groups * ((pass.columns + width - 1) / width);
      const std::int64_t next_panels =
          after > 0 ? std::min(panels, (after + width - 1) / width) : 1;
      pass.next_b = next;
      pass.next_share = next_panels * panel_bytes / tiles;
      step = std::min(kLineBytes, (pass.next_share + steps - 1) / steps);
    }
    ahead.share_panel(step);
    multiply_pass(pass);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core::detail
HWY_AFTER_NAMESPACE();
#endif

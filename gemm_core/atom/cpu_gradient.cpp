// Sums over pairs of rows: the products of weight gradients.
#include <algorithm>

#include "gemm_core/atom/cpu_atoms.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm_core/atom/cpu_gradient.cpp"
#include "gemm_core/atom/cpu_targets.hpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
// After foreach_target.
#include "gemm_core/atom/cpu_micro_tile-inl.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The pairs [first, last) of a product.
struct PairRange {
  std::int64_t first = 0, last = 0;
};

template <int kRows, int kVectors>
HWY_INLINE void add_products(const RowPairProduct& p, const PairRange& pairs, std::int64_t row,
                             std::int64_t column) {
  const FloatTag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  FloatVec sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (std::int64_t i = pairs.first; i < pairs.last; ++i) {
    const float* a = p.a + (p.source ? p.source[i] : i) * p.pitch_a + row;
    const float* b = p.b + (p.target ? p.target[i] : i) * p.pitch_b + column;
    FloatVec values[kVectors];
    for (int v = 0; v < kVectors; ++v) values[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const FloatVec value = hn::Set(d, a[r]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(value, values[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* const to = p.c + (row + r) * p.ldc + column + v * lanes;
      hn::StoreU(hn::Add(hn::LoadU(d, to), sum[r][v]), d, to);
    }
  }
}

// The first `count` lanes, zeros behind them; reads nothing else.
HWY_INLINE FloatVec load_first(const float* from, std::size_t count) {
  const FloatTag d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
  HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)] = {};
  for (std::size_t i = 0; i < count; ++i) values[i] = from[i];
  return hn::Load(d, values);
#endif
}

// The last columns, fewer than a vector.
template <int kRows>
HWY_INLINE void add_last_products(const RowPairProduct& p, const PairRange& pairs, std::int64_t row,
                                  std::int64_t column) {
  const FloatTag d;
  const auto count = static_cast<std::size_t>(p.columns - column);
  FloatVec sum[kRows];
  for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
  for (std::int64_t i = pairs.first; i < pairs.last; ++i) {
    const float* a = p.a + (p.source ? p.source[i] : i) * p.pitch_a + row;
    const float* b = p.b + (p.target ? p.target[i] : i) * p.pitch_b + column;
    const FloatVec values = load_first(b, count);
    for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::Set(d, a[r]), values, sum[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    float* const to = p.c + (row + r) * p.ldc + column;
    hn::StoreU(hn::Add(hn::LoadU(d, to), sum[r]), d, to);
  }
}

template <int kRows>
HWY_NOINLINE void add_columns(const RowPairProduct& p, const PairRange& pairs, std::int64_t row,
                              std::int64_t column, std::int64_t end) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  switch (std::min<std::int64_t>((end - column) / lanes, kPanelVectors)) {
    case 4:
      add_products<kRows, kPanelVectors>(p, pairs, row, column);
      return;
    case 3:
      add_products<kRows, std::min(3, kPanelVectors)>(p, pairs, row, column);
      column += 3 * lanes;
      break;
    case 2:
      add_products<kRows, std::min(2, kPanelVectors)>(p, pairs, row, column);
      column += 2 * lanes;
      break;
    case 1:
      add_products<kRows, 1>(p, pairs, row, column);
      column += lanes;
      break;
    default:
      break;
  }
  if (column < end) add_last_products<kRows>(p, pairs, row, column);
}

// Asks for the rows of a block before their turn: gathered rows lie where no processor foresees.
HWY_INLINE void prefetch_rows(const float* base, std::int64_t pitch, const std::int32_t* list,
                              std::int64_t columns, const PairRange& pairs) {
  constexpr std::int64_t kLine = 64 / sizeof(float);
  if (list == nullptr) return;
  for (std::int64_t i = pairs.first; i < pairs.last; ++i) {
    const float* row = base + list[i] * pitch;
    for (std::int64_t j = 0; j < columns; j += kLine) hwy::Prefetch(row + j);
  }
}

// Rows of A and B of one block of pairs stay close while all of C takes their products. Packing
// them first was slower on an AVX-512 machine (docs/performance.md).
inline void multiply_row_pairs(const RowPairProduct& p) {
  const std::int64_t width = kPanelVectors * static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  for (std::int64_t i = 0; i < p.pairs; i += p.block) {
    const PairRange pairs{i, std::min(p.pairs, i + p.block)};
    const PairRange next{pairs.last, std::min(p.pairs, pairs.last + p.block)};
    prefetch_rows(p.a, p.pitch_a, p.source, p.rows, next);
    prefetch_rows(p.b, p.pitch_b, p.target, p.columns, next);
    for (std::int64_t column = 0; column < p.columns; column += width) {
      const std::int64_t end = std::min(p.columns, column + width);
      std::int64_t row = 0;
      for (; row + kTileRows <= p.rows; row += kTileRows)
        add_columns<kTileRows>(p, pairs, row, column, end);
      if (row + 4 <= p.rows) {
        add_columns<4>(p, pairs, row, column, end);
        row += 4;
      }
      if (row + 2 <= p.rows) {
        add_columns<2>(p, pairs, row, column, end);
        row += 2;
      }
      if (row < p.rows) add_columns<1>(p, pairs, row, column, end);
    }
  }
}

// One row of C: c[j] += sum over pairs of a[j] * b[j].
inline void multiply_row_pairs_depthwise(const RowPairProduct& p) {
  const FloatTag d;
  const hn::CappedTag<float, 1> one;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < p.pairs; ++i) {
    const float* a = p.a + (p.source ? p.source[i] : i) * p.pitch_a;
    const float* b = p.b + (p.target ? p.target[i] : i) * p.pitch_b;
    std::int64_t j = 0;
    for (; j + lanes <= p.columns; j += lanes) {
      hn::StoreU(hn::MulAdd(hn::LoadU(d, a + j), hn::LoadU(d, b + j), hn::LoadU(d, p.c + j)), d,
                 p.c + j);
    }
    for (; j < p.columns; ++j) {
      hn::StoreU(hn::MulAdd(hn::LoadU(one, a + j), hn::LoadU(one, b + j), hn::LoadU(one, p.c + j)),
                 one, p.c + j);
    }
  }
}

void fill_gradient_of_target(CpuAtoms& atoms) {
  atoms.multiply_row_pairs = multiply_row_pairs;
  atoms.multiply_row_pairs_depthwise = multiply_row_pairs_depthwise;
}

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gemm_core::detail {
HWY_EXPORT(fill_gradient_of_target);
void fill_gradient(CpuAtoms& atoms) { HWY_DYNAMIC_DISPATCH(fill_gradient_of_target)(atoms); }
}  // namespace gemm_core::detail
#endif

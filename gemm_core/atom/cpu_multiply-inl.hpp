// Register-tiled products over vectors of the target being compiled (included once per target).
#if defined(GEMM_CORE_CPU_MULTIPLY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef GEMM_CORE_CPU_MULTIPLY_INL
#undef GEMM_CORE_CPU_MULTIPLY_INL
#else
#define GEMM_CORE_CPU_MULTIPLY_INL
#endif

#include <algorithm>

#include "gemm_core/atom/cpu_atoms.hpp"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// Micro-tile: rows x vectors accumulators must leave registers for one row of B and one broadcast.
// Six rows of two vectors fill the 16 registers of AVX2; 32 registers take six rows of four, which
// also halves the loads per product.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
constexpr int kPanelVectors = 4;
#elif HWY_ARCH_ARM_A64
constexpr int kPanelVectors = 4;
#else
constexpr int kPanelVectors = 2;
#endif
constexpr int kTileRows = 6;

template <int kRows, int kVectors>
HWY_INLINE void multiply_tile(const float* const (&a)[kRows], std::int64_t k,
                              const float* HWY_RESTRICT b, float* const (&c)[kRows],
                              bool accumulate) {
  const FloatTag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  FloatVec sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  const auto step = [&](std::int64_t i) HWY_ATTR {
    FloatVec row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = hn::Load(d, b + v * lanes);
    b += kVectors * lanes;
    for (int r = 0; r < kRows; ++r) {
      const FloatVec value = hn::Set(d, a[r][i]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(value, row[v], sum[r][v]);
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
      float* const to = c[r] + v * lanes;
      hn::Store(accumulate ? hn::Add(hn::Load(d, to), sum[r][v]) : sum[r][v], d, to);
    }
  }
}

// Share of an L1 of 32 KiB that one pass's panels of B may take; the rows of A and C pass through
// the rest.
constexpr std::int64_t kPassBytes = 16 * 1024;

HWY_INLINE const float* row_of_a(const PanelProduct& p, std::int64_t i) {
  return p.base + (p.source ? p.source[i] : i) * p.pitch;
}

// Asks for the row that the group after this one reads.
HWY_INLINE void prefetch_row(const PanelProduct& p, std::int64_t i) {
  constexpr std::int64_t kLineFloats = 16;
  const float* row = row_of_a(p, std::min(i, p.rows - 1));
  for (std::int64_t j = 0; j < p.k; j += kLineFloats) hwy::Prefetch(row + j);
}

template <int kRows>
HWY_INLINE void multiply_group(const PanelProduct& p, std::int64_t first, std::int64_t column,
                               std::int64_t columns) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  const std::int64_t width = kPanelVectors * lanes;
  const float* a[kRows];
  float* c[kRows];
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t i = first + r;
    a[r] = row_of_a(p, i);
    c[r] = p.c + (p.target ? p.target[i] : i) * p.ldc + column;
  }
  if (column == 0) {
    for (int r = 0; r < kRows; ++r) prefetch_row(p, first + kRows + r);
  }
  const float* b = p.b + column * p.k;
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

HWY_NOINLINE void multiply_pass(const PanelProduct& p, std::int64_t column, std::int64_t columns) {
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

inline void multiply(const PanelProduct& p) {
  const std::int64_t width = kPanelVectors * static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  const std::int64_t panels = kPassBytes / (std::max<std::int64_t>(1, p.k) * width * 4);
  const std::int64_t pass = std::max<std::int64_t>(1, panels) * width;
  for (std::int64_t n = 0; n < p.columns; n += pass)
    multiply_pass(p, n, std::min(pass, p.columns - n));
}

inline void multiply_depthwise(const DepthwiseProduct& p) {
  const FloatTag d;
  const hn::CappedTag<float, 1> one;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const float* a = p.base + (p.source ? p.source[i] : i) * p.pitch;
    float* c = p.c + (p.target ? p.target[i] : i) * p.ldc;
    std::int64_t j = 0;
    for (; j + lanes <= p.channels; j += lanes) {
      hn::StoreU(hn::MulAdd(hn::LoadU(d, a + j), hn::LoadU(d, p.weight + j), hn::LoadU(d, c + j)),
                 d, c + j);
    }
    for (; j < p.channels; ++j) {
      hn::StoreU(
          hn::MulAdd(hn::LoadU(one, a + j), hn::LoadU(one, p.weight + j), hn::LoadU(one, c + j)),
          one, c + j);
    }
  }
}

// Independent chains, enough to fill the pipelines (latency 4 or 5, two a cycle).
inline double fma_burst(std::int64_t iterations) {
  const FloatTag d;
  constexpr int kChains = 12;
  FloatVec sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(d, 1.0f + static_cast<float>(i));
  const FloatVec scale = hn::Set(d, 0.999f), shift = hn::Set(d, 0.001f);
  for (std::int64_t n = 0; n < iterations; ++n) {
    for (int i = 0; i < kChains; ++i) sum[i] = hn::MulAdd(sum[i], scale, shift);
  }
  FloatVec total = sum[0];
  for (int i = 1; i < kChains; ++i) total = hn::Add(total, sum[i]);
  volatile float kept = hn::GetLane(total);
  (void)kept;
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(iterations);
}

// Positions of the set bits of a byte, lowest first.
struct SetBits {
  std::uint8_t position[256][8] = {};
  std::uint8_t count[256] = {};
  constexpr SetBits() {
    for (int byte = 0; byte < 256; ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        if (byte >> bit & 1) position[byte][count[byte]++] = static_cast<std::uint8_t>(bit);
      }
    }
  }
};
inline constexpr SetBits kSetBits;

inline std::int64_t list_present(const std::int32_t* neighbours, std::int64_t rows,
                                 std::int32_t* source, std::int32_t* target) {
  std::int64_t count = 0, i = 0;
#if HWY_TARGET == HWY_AVX2
  // Compressing by table; hn::Compress is not used, since GCC copies its table to the stack at
  // every call.
  const hn::ScalableTag<std::int32_t> d;
  const hn::Rebind<std::uint8_t, decltype(d)> narrow;
  for (; i + 8 <= rows; i += 8) {
    const auto index = hn::LoadU(d, neighbours + i);
    std::uint8_t mask[8] = {};
    hn::StoreMaskBits(d, hn::Gt(index, hn::Set(d, -1)), mask);
    const auto order = hn::PromoteTo(d, hn::LoadU(narrow, kSetBits.position[mask[0]]));
    hn::StoreU(hn::TableLookupLanes(index, hn::IndicesFromVec(d, order)), d, source + count);
    hn::StoreU(hn::Add(order, hn::Set(d, static_cast<std::int32_t>(i))), d, target + count);
    count += kSetBits.count[mask[0]];
  }
#endif
  for (; i < rows; ++i) {
    source[count] = neighbours[i];
    target[count] = static_cast<std::int32_t>(i);
    count += neighbours[i] >= 0;
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core
HWY_AFTER_NAMESPACE();
#endif

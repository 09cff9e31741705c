// The products of fp32, the convolution's own loops, and what identifies a target.
#include <algorithm>
#include <cstring>

#include "gemm_core/atom/cpu_atoms.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm_core/atom/cpu_multiply.cpp"
#include "gemm_core/atom/cpu_targets.hpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
// After foreach_target.
#include "gemm_core/atom/cpu_multiply-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core::detail {
namespace HWY_NAMESPACE {

template <int kVectors>
HWY_INLINE void multiply_row_of_pairs(const PairProduct& p, std::int64_t row, std::int64_t column) {
  const FloatTag d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  FloatVec even[kVectors], odd[kVectors];
  for (int v = 0; v < kVectors; ++v) even[v] = odd[v] = hn::Zero(d);
  const PairProduct::Pair* pair = p.pairs + row * p.pairs_pitch;
  for (const PairProduct::Pair* end = pair + p.counts[row]; pair != end; ++pair) {
    const float* a = p.base + pair->source * p.pitch;
    const float* b = p.b + pair->tap * p.k * p.columns + column;
    std::int64_t i = 0;
    for (; i + 2 <= p.k; i += 2, b += 2 * p.columns) {
      const FloatVec first = hn::Set(d, a[i]), second = hn::Set(d, a[i + 1]);
      for (int v = 0; v < kVectors; ++v) {
        even[v] = hn::MulAdd(first, hn::Load(d, b + v * lanes), even[v]);
        odd[v] = hn::MulAdd(second, hn::Load(d, b + p.columns + v * lanes), odd[v]);
      }
    }
    if (i < p.k) {
      const FloatVec last = hn::Set(d, a[i]);
      for (int v = 0; v < kVectors; ++v)
        even[v] = hn::MulAdd(last, hn::Load(d, b + v * lanes), even[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    hn::Store(hn::Add(even[v], odd[v]), d, p.c + row * p.ldc + column + v * lanes);
  }
}

inline void multiply_pairs(const PairProduct& p) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  std::int64_t n = 0;
  for (; n + 4 * lanes <= p.columns; n += 4 * lanes) {
    for (std::int64_t row = 0; row < p.rows; ++row) multiply_row_of_pairs<4>(p, row, n);
  }
  for (; n + 2 * lanes <= p.columns; n += 2 * lanes) {
    for (std::int64_t row = 0; row < p.rows; ++row) multiply_row_of_pairs<2>(p, row, n);
  }
  for (; n < p.columns; n += lanes) {
    for (std::int64_t row = 0; row < p.rows; ++row) multiply_row_of_pairs<1>(p, row, n);
  }
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
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  // Compressed in a register: stores that compress are slow on some processors.
  const hn::ScalableTag<std::int32_t> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= rows; i += lanes) {
    const auto index = hn::LoadU(d, neighbours + i);
    const auto present = hn::Gt(index, hn::Set(d, -1));
    const auto position = hn::Iota(d, static_cast<std::int32_t>(i));
    hn::StoreU(hn::Compress(index, present), d, source + count);
    hn::StoreU(hn::Compress(position, present), d, target + count);
    count += static_cast<std::int64_t>(hn::CountTrue(d, present));
  }
#elif HWY_TARGET == HWY_AVX2
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

void fill_multiply_of_target(CpuAtoms& atoms) {
  atoms.name = hwy::TargetName(HWY_TARGET);
  atoms.lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag()));
  atoms.lanes_f64 = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<double>()));
  atoms.panel_vectors = kPanelVectors;
  atoms.multiply = multiply<float>;
  atoms.multiply_pairs = multiply_pairs;
  atoms.multiply_depthwise = multiply_depthwise;
  atoms.list_present = list_present;
  atoms.fma_burst = fma_burst;
}

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gemm_core::detail {
HWY_EXPORT(fill_multiply_of_target);
void fill_multiply(CpuAtoms& atoms) { HWY_DYNAMIC_DISPATCH(fill_multiply_of_target)(atoms); }
}  // namespace gemm_core::detail
#endif

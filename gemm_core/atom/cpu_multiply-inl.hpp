// Register-tiled products over vectors of the target being compiled (included once per target).
#if defined(GEMM_CORE_CPU_MULTIPLY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef GEMM_CORE_CPU_MULTIPLY_INL
#undef GEMM_CORE_CPU_MULTIPLY_INL
#else
#define GEMM_CORE_CPU_MULTIPLY_INL
#endif

#include "gemm_core/atom/cpu_atoms.hpp"
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
  for (std::int64_t i = 0; i < k; ++i) {
    FloatVec row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = hn::Load(d, b + v * lanes);
    b += kVectors * lanes;
    for (int r = 0; r < kRows; ++r) {
      const FloatVec value = hn::Set(d, a[r][i]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(value, row[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c[r] + v * lanes;
      hn::Store(accumulate ? hn::Add(hn::Load(d, to), sum[r][v]) : sum[r][v], d, to);
    }
  }
}

template <int kRows, int kVectors>
HWY_INLINE void multiply_rows(const PanelProduct& p, std::int64_t first) {
  const float* a[kRows];
  float* c[kRows];
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t i = first + r;
    a[r] = p.base + (p.source ? p.source[i] : i) * p.pitch;
    c[r] = p.c + (p.target ? p.target[i] : i) * p.ldc;
  }
  multiply_tile<kRows, kVectors>(a, p.k, p.b, c, p.accumulate);
}

template <int kVectors>
HWY_NOINLINE void multiply_panel(const PanelProduct& p) {
  std::int64_t i = 0;
  for (; i + kTileRows <= p.rows; i += kTileRows) multiply_rows<kTileRows, kVectors>(p, i);
  switch (p.rows - i) {
    case 5:
      return multiply_rows<5, kVectors>(p, i);
    case 4:
      return multiply_rows<4, kVectors>(p, i);
    case 3:
      return multiply_rows<3, kVectors>(p, i);
    case 2:
      return multiply_rows<2, kVectors>(p, i);
    case 1:
      return multiply_rows<1, kVectors>(p, i);
    default:
      return;
  }
}

inline void multiply(const PanelProduct& p) {
  switch (p.vectors) {
    case 1:
      return multiply_panel<1>(p);
    case 2:
      return multiply_panel<2>(p);
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86 || HWY_ARCH_ARM_A64
    case 3:
      return multiply_panel<3>(p);
    case 4:
      return multiply_panel<4>(p);
#endif
    default:
      return;
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

inline std::int64_t list_present(const std::int32_t* neighbours, std::int64_t rows,
                                 std::int32_t* source, std::int32_t* target) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
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

// The vectors and the micro-tile of the target being compiled (included once per target).
#if defined(GEMM_CORE_CPU_MICRO_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef GEMM_CORE_CPU_MICRO_TILE_INL
#undef GEMM_CORE_CPU_MICRO_TILE_INL
#else
#define GEMM_CORE_CPU_MICRO_TILE_INL
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// Micro-tile: rows x vectors accumulators must leave registers for one row of B and one broadcast.
// Six rows of two vectors fill the 16 registers of AVX2; 32 registers take six rows of four, which
// also halves the loads per product.
#if (HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86) || HWY_ARCH_ARM_A64
constexpr int kPanelVectors = 4;
#else
constexpr int kPanelVectors = 2;
#endif
constexpr int kTileRows = 6;

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core::detail
HWY_AFTER_NAMESPACE();
#endif

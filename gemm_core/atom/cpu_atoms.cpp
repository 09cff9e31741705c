#include "gemm_core/atom/cpu_atoms.hpp"

#include <mutex>

// Each target costs compile time; these add no speed to fp32 over the ones kept.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm_core/atom/cpu_atoms.cpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
// After foreach_target.
#include "gemm_core/atom/cpu_elementwise-inl.hpp"
#include "gemm_core/atom/cpu_multiply-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core {
namespace HWY_NAMESPACE {

const CpuAtoms* atoms_of_target() {
  static const CpuAtoms atoms{
      .name = hwy::TargetName(HWY_TARGET),
      .lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag())),
      .panel_vectors = kPanelVectors,
      .rows = kTileRows,
      .multiply = multiply,
      .multiply_depthwise = multiply_depthwise,
      .convert_rows = convert_rows,
      .list_present = list_present,
      .scale_shift = scale_shift,
      .add = add,
      .activate = activate,
      .store = store,
      .fma_burst = fma_burst,
  };
  return &atoms;
}

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gemm_core {
HWY_EXPORT(atoms_of_target);

const CpuAtoms& cpu_atoms() {
  static const CpuAtoms& best = *HWY_DYNAMIC_DISPATCH(atoms_of_target)();
  return best;
}

std::vector<const CpuAtoms*> supported_cpu_atoms() {
  static std::mutex mutex;  // the choice of target is global state of the SIMD library
  const std::scoped_lock lock(mutex);
  cpu_atoms();  // fixed before the choice is narrowed below
  std::vector<const CpuAtoms*> all;
  for (std::int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    all.push_back(HWY_DYNAMIC_DISPATCH(atoms_of_target)());
  }
  hwy::SetSupportedTargetsForTest(0);
  return all;
}

}  // namespace gemm_core
#endif

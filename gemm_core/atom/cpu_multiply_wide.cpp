// The products of fp64 and of pairs of int16: their own unit, for the compiler's sake.
#include "gemm_core/atom/cpu_atoms.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm_core/atom/cpu_multiply_wide.cpp"
#include "gemm_core/atom/cpu_targets.hpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
// After foreach_target.
#include "gemm_core/atom/cpu_multiply-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core::detail {
namespace HWY_NAMESPACE {

void fill_multiply_wide_of_target(CpuAtoms& atoms) {
  atoms.multiply_f64 = multiply<double>;
  atoms.multiply_i16 = multiply<std::int32_t>;
}

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gemm_core::detail {
HWY_EXPORT(fill_multiply_wide_of_target);
void fill_multiply_wide(CpuAtoms& atoms) {
  HWY_DYNAMIC_DISPATCH(fill_multiply_wide_of_target)(atoms);
}
}  // namespace gemm_core::detail
#endif

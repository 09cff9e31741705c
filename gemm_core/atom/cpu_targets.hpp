// Instruction sets that the CPU atoms are compiled for: include before foreach_target.h.
#pragma once

// Each target costs compile time; these add no speed to fp32 over the ones kept.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)

namespace gemm_core {
struct CpuAtoms;
}
namespace gemm_core::detail {
// Each fills its part for the target that is chosen now.
void fill_multiply(CpuAtoms& atoms);
void fill_multiply_wide(CpuAtoms& atoms);
void fill_gradient(CpuAtoms& atoms);
void fill_elementwise(CpuAtoms& atoms);
void fill_finish(CpuAtoms& atoms);
}  // namespace gemm_core::detail

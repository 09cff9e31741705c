// fp64 products on sm_90: parameters and launch.
#pragma once
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"

namespace gemm_core::cuda {

// Empty where the kernel cannot take the product: lines along k, or along rows, that do not start
// at multiples of 16 bytes.
std::optional<LoweredGemm> lower_to_f64(const DenseProduct& product, std::uint32_t group,
                                        int multiprocessors);
void launch_f64_gemm(const LoweredGemm& lowered, cudaStream_t stream);

}  // namespace gemm_core::cuda

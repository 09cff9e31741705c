// Complex products on CUDA: parameters and launch.
#pragma once
#include "gemm_core/device/cuda/gemm/complex_launch.hpp"
#include "gemm_core/device/cuda/gemm/gemm_lowering.hpp"

namespace gemm_core::cuda {

// Takes every product whose compute type is c64 or c128.
LoweredGemm lower_complex(const GemmArguments& arguments, std::uint32_t group);

}  // namespace gemm_core::cuda

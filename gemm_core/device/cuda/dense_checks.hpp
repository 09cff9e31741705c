// What a product on CUDA refuses, and how it says so.
#pragma once
#include "gemm_core/device/gemm.hpp"

namespace gemm_core::cuda {

// Launches nothing. The current device is the one that would run it.
GemmStatus check_dense(const GemmArguments& arguments);

}  // namespace gemm_core::cuda

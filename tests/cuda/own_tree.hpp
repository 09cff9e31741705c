// A tree that own_tree.cu compiles itself.
#pragma once
#include <cuda_runtime_api.h>

#include "gemm_core/device/gemm.hpp"

namespace cuda_tests {

// bounded = max(A B, bound[m]), stored to `copy` [m][n]; D = bounded * row[n] - 3. f16, K-major.
// False where tree kernels cannot take the product.
bool run_own_tree(const gemm_core::GemmArguments& arguments, const float* bound, const float* row,
                  float* copy, cudaStream_t stream);

}  // namespace cuda_tests

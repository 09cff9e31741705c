// Launches the kernel of complex products, which any GPU runs.
#pragma once
#include <cuda_runtime_api.h>

namespace gemm_core {
struct ComplexGemmParams;
}

namespace gemm_core::cuda {

void launch_complex_gemm(const ComplexGemmParams& params, int blocks, cudaStream_t stream);

}  // namespace gemm_core::cuda

#include "gemm_core/device/cuda/gemm/complex_launch.hpp"

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/kernel/simt_complex_gemm.cuh"

namespace gemm_core::cuda {

void launch_complex_gemm(const ComplexGemmParams& params, int blocks, cudaStream_t stream) {
  const base::cuda::LaunchShape shape{.grid = dim3(static_cast<unsigned>(blocks)),
                                      .block = dim3(ComplexGemmTile::kThreads)};
  if (params.type == base::DType::c64)
    base::cuda::launch(simt_complex_gemm<float>, shape, stream, params);
  else
    base::cuda::launch(simt_complex_gemm<double>, shape, stream, params);
}

}  // namespace gemm_core::cuda

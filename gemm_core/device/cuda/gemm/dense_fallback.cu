// The kernels that take any legal product.
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/gemm/dense_instances.hpp"
#include "gemm_core/kernel/simt_gemm.cuh"
#include "gemm_core/kernel/sm80_gemm.cuh"

namespace gemm_core::cuda {

using base::DType;

void launch_sm80_gemm(DType element, const Sm80GemmParams& params, int blocks,
                      cudaStream_t stream) {
  base::visit_dtype<double, base::half_t, base::bf16_t, base::tf32_t, std::int8_t>(
      element, "sm80 gemm", [&]<class T>() {
        using Config = Sm80GemmConfig<T>;
        base::cuda::allow_shared_memory(sm80_gemm<T>, Config::kSharedBytes);
        base::cuda::launch(sm80_gemm<T>,
                           {.grid = dim3(static_cast<unsigned>(blocks)),
                            .block = dim3(Config::kThreads),
                            .shared_bytes = Config::kSharedBytes},
                           stream, params);
      });
}

void launch_simt_gemm(DType sums, const SimtGemmParams& params, int blocks, cudaStream_t stream) {
  base::visit_dtype<float, std::int32_t>(sums, "simt gemm", [&]<class T>() {
    base::cuda::launch(
        simt_gemm<T>,
        {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(SimtGemmTile::kThreads)},
        stream, params);
  });
}

const void* any_dense_kernel() { return reinterpret_cast<const void*>(simt_gemm<float>); }

}  // namespace gemm_core::cuda

// The kernels by mma.sync for operands found by tables.
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/tables/table_products.hpp"

namespace gemm_core::cuda {

void launch_table_mma(base::DType element, const TableGemmParams& params, int blocks,
                      cudaStream_t stream) {
  base::visit_dtype<double, base::half_t, base::bf16_t, base::tf32_t, std::int8_t>(
      element, "table products by mma.sync", [&]<class T>() {
        using Config = Sm80GemmConfig<T>;
        base::cuda::allow_shared_memory(sm80_table_gemm<T>, Config::kSharedBytes);
        base::cuda::launch(sm80_table_gemm<T>,
                           {.grid = dim3(static_cast<unsigned>(blocks)),
                            .block = dim3(Config::kThreads),
                            .shared_bytes = Config::kSharedBytes},
                           stream, params);
      });
}

}  // namespace gemm_core::cuda

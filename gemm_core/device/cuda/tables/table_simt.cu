// The kernels without tensor cores for operands found by tables.
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/tables/table_products.hpp"

namespace gemm_core::cuda {

void launch_table_simt(base::DType sums, const TableGemmParams& params, int blocks,
                       cudaStream_t stream) {
  base::visit_dtype<float, std::int32_t, base::complex<float>, base::complex<double>>(
      sums, "table products", [&]<class T>() {
        base::cuda::launch(
            simt_table_gemm<T>,
            {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(SimtTableTile::kThreads)},
            stream, params);
      });
}

}  // namespace gemm_core::cuda

#include "gemm_core/device/cuda/gather/gather_instance.cuh"

namespace gemm_core::cuda {

template void launch_row_gather_gemm<base::bf16_t>(const Sm90RowGatherParams&, int, int,
                                                   cudaStream_t);

}  // namespace gemm_core::cuda

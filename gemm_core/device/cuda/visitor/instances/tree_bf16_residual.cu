#include "gemm_core/device/cuda/visitor/tree_instance.cuh"

namespace gemm_core::cuda {

template void launch_tree_gemm<base::bf16_t, ResidualTree<base::bf16_t, AnyActivation>>(
    const Sm90TreeGemmParams<ResidualTree<base::bf16_t, AnyActivation>>&, int, cudaStream_t);

}  // namespace gemm_core::cuda

#include "gemm_core/device/cuda/visitor/tree_instance.cuh"

namespace gemm_core::cuda {

template void launch_tree_gemm<base::half_t, ResidualTree<base::half_t, AnyActivation>>(
    const Sm90TreeGemmParams<ResidualTree<base::half_t, AnyActivation>>&, int, cudaStream_t);

}  // namespace gemm_core::cuda

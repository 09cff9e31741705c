#include "gemm_core/device/cuda/visitor/tree_instance.cuh"

namespace gemm_core::cuda {

template void launch_tree_gemm<base::half_t, AmaxTree<AnyActivation>>(
    const Sm90TreeGemmParams<AmaxTree<AnyActivation>>&, int, cudaStream_t);

}  // namespace gemm_core::cuda

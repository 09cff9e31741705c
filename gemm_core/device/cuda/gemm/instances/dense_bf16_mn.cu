#include "gemm_core/device/cuda/gemm/dense_instance.cuh"

namespace gemm_core::cuda {

extern const DenseInstance kDenseBF16MN[2];
const DenseInstance kDenseBF16MN[2] = {
    // Large products: the least shared memory and L2 for what it multiplies.
    dense_instance<base::bf16_t, false, false,
                   Sm90DenseTile{.m = 128, .n = 256, .stages = 4, .cluster = 2}>(
        "bf16_mn_128x256_c2"),
    // Short sums, few columns, many nodes: one tile is stored while the next is multiplied.
    dense_instance<base::bf16_t, false, false,
                   Sm90DenseTile{.m = 128, .n = 128, .stages = 6, .alternates = true}>(
        "bf16_mn_128x128")};

}  // namespace gemm_core::cuda

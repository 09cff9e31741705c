#include "gemm_core/device/cuda/gemm/dense_instance.cuh"

namespace gemm_core::cuda {

extern const DenseInstance kDenseF16KN[4];
const DenseInstance kDenseF16KN[4] = {
    // Large products: the least shared memory and L2 for what it multiplies.
    dense_instance<base::half_t, true, false,
                   Sm90DenseTile{.m = 128, .n = 256, .stages = 4, .cluster = 2}>(
        "f16_kn_128x256_c2"),
    // Short sums, few columns, many nodes: one tile is stored while the next is multiplied.
    dense_instance<base::half_t, true, false,
                   Sm90DenseTile{.m = 128, .n = 128, .stages = 6, .alternates = true}>(
        "f16_kn_128x128"),
    dense_instance<base::half_t, true, false,
                   Sm90DenseTile{
                       .m = 128, .n = 128, .stages = 6, .cluster = 2, .alternates = true}>(
        "f16_kn_128x128_c2"),
    dense_instance<base::half_t, true, false,
                   Sm90DenseTile{.m = 128, .n = 64, .stages = 8, .alternates = true}>(
        "f16_kn_128x64")};

}  // namespace gemm_core::cuda

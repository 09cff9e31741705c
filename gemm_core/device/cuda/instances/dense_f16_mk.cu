#include "gemm_core/device/cuda/dense_instance.cuh"

namespace gemm_core::cuda {

// Large products, which multiply as fast as the tensor cores do; narrower ones, which wait for
// memory.
extern const DenseInstance kDenseF16MK[3];
const DenseInstance kDenseF16MK[3] = {
    dense_instance<base::half_t, false, true,
                   Sm90DenseTile{.m = 128, .n = 256, .stages = 4, .cluster = 2}>(
        "f16_mk_128x256_c2"),
    dense_instance<base::half_t, false, true,
                   Sm90DenseTile{.m = 128, .n = 128, .stages = 6, .cluster = 1}>("f16_mk_128x128"),
    dense_instance<base::half_t, false, true,
                   Sm90DenseTile{.m = 128, .n = 64, .stages = 8, .cluster = 1}>("f16_mk_128x64")};

}  // namespace gemm_core::cuda

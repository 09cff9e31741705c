#include "gemm_core/device/cuda/gemm/dense_instance.cuh"

namespace gemm_core::cuda {

// The instruction reads the upper 19 bits of fp32 operands: rounding towards zero.
extern const DenseInstance kDenseTF32[3];
const DenseInstance kDenseTF32[3] = {
    dense_instance<base::tf32_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 256, .stages = 4, .cluster = 2}>(
        "tf32_kk_128x256_c2"),
    dense_instance<base::tf32_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 128, .stages = 6, .alternates = true}>(
        "tf32_kk_128x128"),
    dense_instance<base::tf32_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 64, .stages = 8, .alternates = true}>(
        "tf32_kk_128x64")};

}  // namespace gemm_core::cuda

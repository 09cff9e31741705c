#include "gemm_core/collective/sm90_promoted_mma.cuh"
#include "gemm_core/device/cuda/gemm/dense_instance.cuh"

namespace gemm_core::cuda {

// The tensor cores keep about 14 bits of a sum of fp8 products; promoted instances move it to fp32
// after each 128 products, into as many registers again: hence their narrower tile.
extern const DenseInstance kDenseFP8[6];
const DenseInstance kDenseFP8[6] = {
    dense_instance<base::e4m3_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 256, .stages = 4, .cluster = 2}>(
        "e4m3_kk_128x256_c2"),
    dense_instance<base::e4m3_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 128, .stages = 6, .alternates = true}>(
        "e4m3_kk_128x128"),
    dense_instance<base::e4m3_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 128, .stages = 6, .cluster = 2, .promotes = true}>(
        "e4m3_kk_128x128_c2_promoted"),
    dense_instance<base::e5m2_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 256, .stages = 4, .cluster = 2}>(
        "e5m2_kk_128x256_c2"),
    dense_instance<base::e5m2_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 128, .stages = 6, .alternates = true}>(
        "e5m2_kk_128x128"),
    dense_instance<base::e5m2_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 128, .stages = 6, .cluster = 2, .promotes = true}>(
        "e5m2_kk_128x128_c2_promoted")};

}  // namespace gemm_core::cuda

#include "gemm_core/device/cuda/gemm/dense_instance.cuh"

namespace gemm_core::cuda {

extern const DenseInstance kDenseI8[2];
const DenseInstance kDenseI8[2] = {
    dense_instance<std::int8_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 256, .stages = 4, .cluster = 2}>(
        "i8_kk_128x256_c2"),
    dense_instance<std::int8_t, true, true,
                   Sm90DenseTile{.m = 128, .n = 128, .stages = 6, .alternates = true}>(
        "i8_kk_128x128")};

}  // namespace gemm_core::cuda

#include "gemm_core/device/cuda/mixed/mixed_instance.cuh"

namespace gemm_core::cuda {

extern const MixedInstance kMixedF16FP8[3];
const MixedInstance kMixedF16FP8[3] = {
    mixed_instance<base::half_t, NarrowFormat::fp8,
                   Sm90MixedTile{.consumers = 4, .n = 16, .stage_k = 128, .stages = 5}>(
        "f16_fp8_256x16"),
    mixed_instance<base::half_t, NarrowFormat::fp8,
                   Sm90MixedTile{.consumers = 4, .n = 32, .stage_k = 128, .stages = 5}>(
        "f16_fp8_256x32"),
    mixed_instance<base::half_t, NarrowFormat::fp8,
                   Sm90MixedTile{.consumers = 2, .n = 256, .stage_k = 64, .stages = 5}>(
        "f16_fp8_128x256")};

}  // namespace gemm_core::cuda

#include "gemm_core/device/cuda/mixed/mixed_instance.cuh"

namespace gemm_core::cuda {

extern const MixedInstance kMixedF16W2[3];
const MixedInstance kMixedF16W2[3] = {
    mixed_instance<base::half_t, NarrowFormat::bits_2,
                   Sm90MixedTile{.consumers = 4, .n = 16, .stage_k = 512, .stages = 4}>(
        "f16_w2_256x16"),
    mixed_instance<base::half_t, NarrowFormat::bits_2,
                   Sm90MixedTile{.consumers = 4, .n = 32, .stage_k = 256, .stages = 6}>(
        "f16_w2_256x32"),
    mixed_instance<base::half_t, NarrowFormat::bits_2,
                   Sm90MixedTile{.consumers = 2, .n = 256, .stage_k = 64, .stages = 6}>(
        "f16_w2_128x256")};

}  // namespace gemm_core::cuda

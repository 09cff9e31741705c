#include "gemm_core/device/cuda/mixed/mixed_instance.cuh"

namespace gemm_core::cuda {

extern const MixedInstance kMixedBF16W4[4];
const MixedInstance kMixedBF16W4[4] = {
    mixed_instance<base::bf16_t, NarrowFormat::bits_4,
                   Sm90MixedTile{.consumers = 4, .n = 16, .stage_k = 256, .stages = 5}>(
        "bf16_w4_256x16"),
    mixed_instance<base::bf16_t, NarrowFormat::bits_4,
                   Sm90MixedTile{.consumers = 4, .n = 32, .stage_k = 256, .stages = 4}>(
        "bf16_w4_256x32"),
    mixed_instance<base::bf16_t, NarrowFormat::bits_4,
                   Sm90MixedTile{.consumers = 3, .n = 64, .stage_k = 256, .stages = 3}>(
        "bf16_w4_192x64"),
    mixed_instance<base::bf16_t, NarrowFormat::bits_4,
                   Sm90MixedTile{.consumers = 2, .n = 256, .stage_k = 64, .stages = 6}>(
        "bf16_w4_128x256")};

}  // namespace gemm_core::cuda

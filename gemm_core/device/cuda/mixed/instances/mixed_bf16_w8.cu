#include "gemm_core/device/cuda/mixed/mixed_instance.cuh"

namespace gemm_core::cuda {

extern const MixedInstance kMixedBF16W8[3];
const MixedInstance kMixedBF16W8[3] = {
    mixed_instance<base::bf16_t, NarrowFormat::bits_8,
                   Sm90MixedTile{.consumers = 4, .n = 16, .stage_k = 128, .stages = 5}>(
        "bf16_w8_256x16"),
    mixed_instance<base::bf16_t, NarrowFormat::bits_8,
                   Sm90MixedTile{.consumers = 4, .n = 32, .stage_k = 128, .stages = 5}>(
        "bf16_w8_256x32"),
    mixed_instance<base::bf16_t, NarrowFormat::bits_8,
                   Sm90MixedTile{.consumers = 2, .n = 256, .stage_k = 64, .stages = 5}>(
        "bf16_w8_128x256")};

}  // namespace gemm_core::cuda

// 128 to 96 channels: stages of 128 channels, and so much to gather that eight warps do it faster
// than four.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kF16_128x96_k128;
const Sm90Instance kF16_128x96_k128 =
    sm90_instance<Sm90GatherConfig<base::half_t, Sm90Tile{.m = 128,
                                                          .n = 96,
                                                          .span_k = 64,
                                                          .spans = 2,
                                                          .stages = 3,
                                                          .gather_warps = 8,
                                                          .teams = 2,
                                                          .blocks_per_sm = 1,
                                                          .settles_indices = true,
                                                          .releases_early = true,
                                                          .takes_own_rows = true}>>(
        "f16_128x96_k128");

}  // namespace gemm_core::cuda

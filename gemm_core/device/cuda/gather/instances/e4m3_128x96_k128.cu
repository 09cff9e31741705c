// 128 to 96 channels.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kE4M3_128x96_k128;
const Sm90Instance kE4M3_128x96_k128 =
    sm90_instance<Sm90GatherConfig<base::e4m3_t, Sm90Tile{.m = 128,
                                                          .n = 96,
                                                          .span_k = 128,
                                                          .spans = 1,
                                                          .stages = 6,
                                                          .gather_warps = 8,
                                                          .teams = 2,
                                                          .blocks_per_sm = 1,
                                                          .releases_early = true,
                                                          .takes_own_rows = true}>>(
        "e4m3_128x96_k128");

}  // namespace gemm_core::cuda

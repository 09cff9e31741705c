// 96 channels a tile without padding; stages of 32 channels.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kTF32_128x96;
const Sm90Instance kTF32_128x96 =
    sm90_instance<Sm90GatherConfig<base::tf32_t, Sm90Tile{.m = 128,
                                                          .n = 96,
                                                          .span_k = 32,
                                                          .spans = 1,
                                                          .stages = 7,
                                                          .gather_warps = 4,
                                                          .teams = 2,
                                                          .blocks_per_sm = 1,
                                                          .releases_early = true,
                                                          .takes_own_rows = true}>>("tf32_128x96");

}  // namespace gemm_core::cuda

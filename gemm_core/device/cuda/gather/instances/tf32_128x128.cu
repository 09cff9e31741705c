// 64 channels a stage, gathered by eight warps.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kTF32_128x128;
const Sm90Instance kTF32_128x128 =
    sm90_instance<Sm90GatherConfig<base::tf32_t, Sm90Tile{.m = 128,
                                                          .n = 128,
                                                          .span_k = 32,
                                                          .spans = 2,
                                                          .stages = 3,
                                                          .gather_warps = 8,
                                                          .teams = 2,
                                                          .blocks_per_sm = 1,
                                                          .releases_early = true,
                                                          .takes_own_rows = true}>>("tf32_128x128");

}  // namespace gemm_core::cuda

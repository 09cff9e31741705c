// Stages of 128 channels: half the barriers of 64.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kF16_128x128;
const Sm90Instance kF16_128x128 =
    sm90_instance<Sm90GatherConfig<base::half_t, Sm90Tile{.m = 128,
                                                          .n = 128,
                                                          .span_k = 64,
                                                          .spans = 2,
                                                          .stages = 3,
                                                          .gather_warps = 4,
                                                          .teams = 2,
                                                          .blocks_per_sm = 1,
                                                          .settles_indices = true,
                                                          .releases_early = true,
                                                          .takes_own_rows = true}>>("f16_128x128");

}  // namespace gemm_core::cuda

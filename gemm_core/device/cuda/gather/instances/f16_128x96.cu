// 96 channels as three spans of 32: no padding.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kF16_128x96;
const Sm90Instance kF16_128x96 =
    sm90_instance<Sm90GatherConfig<base::half_t, Sm90Tile{.m = 128,
                                                          .n = 96,
                                                          .span_k = 32,
                                                          .spans = 3,
                                                          .pairs_spans = true,
                                                          .stages = 5,
                                                          .gather_warps = 4,
                                                          .teams = 2,
                                                          .blocks_per_sm = 1,
                                                          .settles_indices = true,
                                                          .releases_early = true,
                                                          .reads_addend_last = true,
                                                          .takes_own_rows = true}>>("f16_128x96");

}  // namespace gemm_core::cuda

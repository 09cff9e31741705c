// 96 channels in spans of 128, of which the last quarter is neither gathered nor multiplied.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kI8_128x96;
const Sm90Instance kI8_128x96 =
    sm90_instance<Sm90GatherConfig<std::int8_t, Sm90Tile{.m = 128,
                                                         .n = 96,
                                                         .span_k = 128,
                                                         .used_k = 96,
                                                         .spans = 1,
                                                         .stages = 6,
                                                         .gather_warps = 4,
                                                         .teams = 2,
                                                         .blocks_per_sm = 1,
                                                         .releases_early = true,
                                                         .reads_addend_last = true,
                                                         .takes_own_rows = true}>>("i8_128x96");

}  // namespace gemm_core::cuda

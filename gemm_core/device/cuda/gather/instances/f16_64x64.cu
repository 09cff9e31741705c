// Blocks of one SM hide the gathers of one another.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kF16_64x64;
const Sm90Instance kF16_64x64 =
    sm90_instance<Sm90GatherConfig<base::half_t, Sm90Tile{.m = 64,
                                                          .n = 64,
                                                          .span_k = 64,
                                                          .spans = 1,
                                                          .stages = 4,
                                                          .gather_warps = 2,
                                                          .teams = 2,
                                                          .blocks_per_sm = 3,
                                                          .settles_indices = true,
                                                          .releases_early = true,
                                                          .reads_addend_early = true,
                                                          .takes_own_rows = true}>>("f16_64x64");

}  // namespace gemm_core::cuda

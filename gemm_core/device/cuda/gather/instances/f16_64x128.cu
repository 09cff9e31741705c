// Levels with too few tiles of 128 rows: eight stages keep the gathers in flight.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kF16_64x128;
const Sm90Instance kF16_64x128 =
    sm90_instance<Sm90GatherConfig<base::half_t, Sm90Tile{.m = 64,
                                                          .n = 128,
                                                          .span_k = 64,
                                                          .spans = 1,
                                                          .stages = 8,
                                                          .gather_warps = 4,
                                                          .teams = 4,
                                                          .blocks_per_sm = 1,
                                                          .settles_indices = true,
                                                          .takes_turns = true,
                                                          .takes_own_rows = true}>>("f16_64x128");

}  // namespace gemm_core::cuda

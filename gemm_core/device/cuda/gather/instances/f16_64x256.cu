// Deep levels.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kF16_64x256;
const Sm90Instance kF16_64x256 =
    sm90_instance<Sm90GatherConfig<base::half_t, Sm90Tile{.m = 64,
                                                          .n = 256,
                                                          .span_k = 64,
                                                          .spans = 1,
                                                          .stages = 5,
                                                          .gather_warps = 4,
                                                          .teams = 1,
                                                          .blocks_per_sm = 1,
                                                          .settles_indices = true,
                                                          .takes_own_rows = true}>>("f16_64x256");

}  // namespace gemm_core::cuda

// 128 and more output channels.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kTF32_64x128;
const Sm90Instance kTF32_64x128 =
    sm90_instance<Sm90GatherConfig<base::tf32_t, Sm90Tile{.m = 64,
                                                          .n = 128,
                                                          .span_k = 32,
                                                          .spans = 2,
                                                          .stages = 4,
                                                          .gather_warps = 4,
                                                          .teams = 2,
                                                          .blocks_per_sm = 1,
                                                          .takes_turns = true,
                                                          .takes_own_rows = true}>>("tf32_64x128");

}  // namespace gemm_core::cuda

// 64 channels a stage.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kTF32_64x64;
const Sm90Instance kTF32_64x64 =
    sm90_instance<Sm90GatherConfig<base::tf32_t, Sm90Tile{.m = 64,
                                                          .n = 64,
                                                          .span_k = 32,
                                                          .spans = 2,
                                                          .stages = 3,
                                                          .gather_warps = 2,
                                                          .teams = 2,
                                                          .blocks_per_sm = 2,
                                                          .takes_own_rows = true}>>("tf32_64x64");

}  // namespace gemm_core::cuda

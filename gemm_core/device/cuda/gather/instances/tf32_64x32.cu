// A span of 128 bytes is 32 channels.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kTF32_64x32;
const Sm90Instance kTF32_64x32 =
    sm90_instance<Sm90GatherConfig<base::tf32_t, Sm90Tile{.m = 64,
                                                          .n = 32,
                                                          .span_k = 32,
                                                          .spans = 1,
                                                          .stages = 4,
                                                          .gather_warps = 2,
                                                          .teams = 2,
                                                          .blocks_per_sm = 4}>>("tf32_64x32");

}  // namespace gemm_core::cuda

// 96 channels as four warps of 24: sums of 8 x 6 a thread.
#include "gemm_core/device/cuda/gather/fma_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kF32_64x96;
const Sm90Instance kF32_64x96 = fma_instance<FmaGatherConfig<Sm90Tile{.m = 64,
                                                                      .n = 96,
                                                                      .span_k = 32,
                                                                      .spans = 1,
                                                                      .stages = 5,
                                                                      .gather_warps = 2,
                                                                      .teams = 2,
                                                                      .blocks_per_sm = 2},
                                                             6>>("f32_64x96");

}  // namespace gemm_core::cuda

// Sums of 8 x 4 a thread; two warps share the channels.
#include "gemm_core/device/cuda/gather/fma_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kF32_64x32;
const Sm90Instance kF32_64x32 = fma_instance<FmaGatherConfig<Sm90Tile{.m = 64,
                                                                      .n = 32,
                                                                      .span_k = 32,
                                                                      .spans = 1,
                                                                      .stages = 4,
                                                                      .gather_warps = 1,
                                                                      .teams = 1,
                                                                      .blocks_per_sm = 3},
                                                             4>>("f32_64x32");

}  // namespace gemm_core::cuda

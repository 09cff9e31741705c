// Sums of 8 x 8 a thread; two warps share the channels. Three blocks an SM leave too few registers.
#include "gemm_core/device/cuda/gather/fma_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kF32_64x64;
const Sm90Instance kF32_64x64 = fma_instance<FmaGatherConfig<Sm90Tile{.m = 64,
                                                                      .n = 64,
                                                                      .span_k = 32,
                                                                      .spans = 1,
                                                                      .stages = 5,
                                                                      .gather_warps = 2,
                                                                      .teams = 2,
                                                                      .blocks_per_sm = 2},
                                                             8>>("f32_64x64");

}  // namespace gemm_core::cuda

// Narrow layers are bound by latency: six blocks an SM.
#include "gemm_core/device/cuda/gather/sm90_instance.cuh"

namespace gemm_core::cuda {

extern const Sm90Instance kBF16_64x32;
const Sm90Instance kBF16_64x32 =
    sm90_instance<Sm90GatherConfig<base::bf16_t, Sm90Tile{.m = 64,
                                                          .n = 32,
                                                          .span_k = 32,
                                                          .spans = 1,
                                                          .stages = 5,
                                                          .gather_warps = 2,
                                                          .teams = 2,
                                                          .blocks_per_sm = 6,
                                                          .releases_early = true}>>("bf16_64x32");

}  // namespace gemm_core::cuda

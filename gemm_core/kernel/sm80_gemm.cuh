// Products by mma.sync, for GPUs from sm_80 on and for whatever the faster kernels of an
// architecture do not take: 128 x 128 tiles, eight warps of 64 x 32, three stages.
#pragma once
#include "gemm_core/collective/sm80_warp_tile.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

struct Sm80GemmParams {
  DenseOperand a, b;
  std::int64_t k = 0;
  kernel::TileOrder order;
  DenseEpilogue epilogue;
};

template <class Element>
__global__ void __launch_bounds__(256, sizeof(Element) == 8 ? 1 : 2)
    sm80_gemm(const __grid_constant__ Sm80GemmParams params) {
  using Config = Sm80GemmConfig<Element>;
  using Stage = Sm80Stage<Config>;
  using Sum = typename Config::Sum;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t stages = ptx::shared_address(shared);
  const auto warp_tile = Sm80WarpTile<Config>::own();

  for (std::uint32_t index = blockIdx.x; index < params.order.count(); index += gridDim.x) {
    const kernel::TileCoord tile = params.order.tile(index);
    const std::int64_t m = std::int64_t{tile.m} * Config::kTileM;
    const std::int64_t n = std::int64_t{tile.n} * Config::kTileN;
    const void* const a = params.a.data_of(tile.batch);
    const void* const b = params.b.data_of(tile.batch);
    const std::int64_t slices = (params.k + Config::kStageK - 1) / Config::kStageK;

    Sum sums[4][4][4] = {};
    sm80_multiply<Config>(
        stages, slices, warp_tile, sums, [&](std::int64_t slice, std::uint32_t to) {
          Stage::fill(params.a, a, m, slice * Config::kStageK, params.k, tile.batch, to);
          Stage::fill(params.b, b, n, slice * Config::kStageK, params.k, tile.batch,
                      to + Config::kOperandBytes);
        });

    // Results: the rows of one half of the warps at a time.
    Sum* const out = reinterpret_cast<Sum*>(shared);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      __syncthreads();
      warp_tile.store_half(half, sums, out);
      __syncthreads();
      constexpr int kRuns = Config::kTileN / kDenseRun;
      for (int i = static_cast<int>(threadIdx.x); i < 64 * kRuns; i += Config::kThreads) {
        const int r = params.epilogue.rows_first ? i % 64 : i / kRuns;
        const int run = params.epilogue.rows_first ? i / 64 : i % kRuns;
        Sum values[kDenseRun];
#pragma unroll
        for (int v = 0; v < kDenseRun; ++v)
          values[v] = out[r * Config::kSumPitch + run * kDenseRun + v];
        finish_run(params.epilogue, m + half * 64 + r, n + run * kDenseRun, tile.batch, values);
      }
    }
    __syncthreads();
  }
}

}  // namespace gemm_core

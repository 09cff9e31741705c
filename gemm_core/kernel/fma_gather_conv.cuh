// The sparse convolution in exact fp32: the table, schedule and gather warps of
// sm90_gather_conv.cuh, products by FMA. grid = (lists of the schedule, blocks of kTileN output
// channels).
#pragma once
#include "gemm_core/collective/fma_gather_mma.cuh"
#include "gemm_core/epilogue/cuda/fma_store.cuh"
#include "gemm_core/kernel/sm90_gather_conv.cuh"

namespace gemm_core {

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, Config::kBlocksPerSm)
    fma_gather_conv(const __grid_constant__ Sm90GatherConvParams params) {
  using Mma = FmaGatherMma<Config>;
  using Pipeline = typename Mma::Pipeline;
  constexpr int kRows = Config::kStoredRows, kColumns = Config::kThreadColumns;
  extern __shared__ char memory[];
  const std::uint32_t begin = ptx::shared_address(memory);
  const Pipeline pipeline(begin);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Blocks of different columns and one list may share an SM: each column block goes through the
  // lists, which are of unlike lengths, from another one on.
  const int shift = blockIdx.y * (gridDim.x / gridDim.y + 1);
  const int list = (blockIdx.x + shift) % gridDim.x, first_column = blockIdx.y * Config::kTileN;
  const TileList tiles{params.schedule.records +
                       list * static_cast<std::int64_t>(params.schedule.pitch)};
  constexpr int kFirstGatherWarp = 4;

  if (warp == kFirstGatherWarp && lane == 0) {
    ptx::tma_prefetch_descriptor(&params.weights);
    pipeline.init_barriers();
  }
  __syncthreads();

  if (warp >= kFirstGatherWarp) {
    pipeline.gather(tiles, params.operand, &params.weights, nullptr, first_column,
                    warp - kFirstGatherWarp, lane);
    return;
  }
  const Mma mma{pipeline, memory + (pipeline.stages - begin), warp, lane};
  const FmaStore<kRows, kColumns> store{params.store, first_column + mma.warp_column(),
                                        mma.column_lane()};
  typename Pipeline::Position position;
  // Residuals are read and buffers overwritten below.
  if (!params.operand.input_is_older) ptx::wait_for_predecessor();

  TileRecord tile = tiles[0];
  for (int i = 1; tile.slot >= 0; ++i) {
    typename Mma::Accumulators acc;
    mma.multiply_tile(tile, params.operand, position, acc);
    mma.join_splits(acc);
    int entries[kRows];
    const std::int32_t* const rows = params.operand.slot_rows + tile.slot + mma.row_lane() +
                                     8 * kRows * (Config::kSplits == 2 ? mma.split() : 0);
#pragma unroll
    for (int r = 0; r < kRows; ++r) entries[r] = __ldg(rows + 8 * r);

    if (tile.flags & (kTileBelow | kTileAbove)) {
      store.leave_partials(acc, entries, tile.flags & kTileBelow ? 0 : 1);
    } else {
      if (tile.flags & kTileAddsPartials) {
        ptx::wait_for_predecessor();  // the launch that left them
        store.add_partials(acc, entries);
      }
      store.apply_epilogue(acc, entries);
      store.store(acc, entries);
    }
    tile = tiles[i];
  }
  ptx::wait_for_predecessor();  // whoever waits for this launch relies on the one before it too
}

}  // namespace gemm_core

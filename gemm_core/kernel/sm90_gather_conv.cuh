// The sparse convolution on Hopper: persistent thread blocks, consumer warpgroups of 64 rows each
// and a few gather warps. grid = (lists of the schedule, blocks of kTileN output channels).
#pragma once
#include "gemm_core/collective/sm90_gather_mma.cuh"
#include "gemm_core/epilogue/cuda/wgmma_store.cuh"

namespace gemm_core {

struct Sm90GatherConvParams {
  CUtensorMap weights;      // [cout][taps][cin], box kTileN x 1 x kSpanK, swizzled as a span
  CUtensorMap own_weights;  // the same of the operand's own rows, which have one tap
  GatherOperand operand;
  TileSchedule schedule;
  StoreParams store;
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, Config::kBlocksPerSm)
    sm90_gather_conv(const __grid_constant__ Sm90GatherConvParams params) {
  using Mma = Sm90GatherMma<Config>;
  extern __shared__ std::uint8_t shared[];
  const Mma mma(ptx::shared_address(shared));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_column = blockIdx.y * Config::kTileN;
  const TileList tiles{
      params.schedule.records + blockIdx.x * static_cast<std::int64_t>(params.schedule.pitch),
      Config::kTakesOwnRows ? params.operand.own_tap : 0};
  constexpr int kFirstGatherWarp = Config::kConsumers * 4;

  if (warp == kFirstGatherWarp && lane == 0) {
    ptx::tma_prefetch_descriptor(&params.weights);
    mma.init_barriers();
  }
  __syncthreads();

  if (warp >= kFirstGatherWarp) {
    if constexpr (Config::kMovesRegisters) ptx::release_registers_to<Config::kGatherRegisters>();
    mma.gather(tiles, params.operand, &params.weights, &params.own_weights, first_column,
               warp - kFirstGatherWarp, lane);
  } else {
    if constexpr (Config::kMovesRegisters) ptx::claim_registers_to<Config::kConsumerRegisters>();
    const int group = warp / 4;
    const int fragment_row = group * kSlotGroup + warp % 4 * 16 + lane / 4;
    using Store = WgmmaStore<typename Config::Wide, Config::kTileN, Config::kMixesNarrow>;
    const Store store{params.store, first_column, lane};
    typename Store::Addend addend;
    const auto read_entries = [&](const TileRecord& tile, int(&entries)[2]) {
      const std::int32_t* from = params.operand.slot_rows + tile.slot + fragment_row;
      entries[0] = tile.slot >= 0 ? __ldg(from) : -1;
      entries[1] = tile.slot >= 0 ? __ldg(from + 8) : -1;
    };
    typename Mma::Position position;
    float acc[Config::Mma::kAccumulators];
    // Residuals are read and buffers overwritten below.
    if (!params.operand.input_is_older) ptx::wait_for_predecessor();

    TileRecord tile = tiles[0];
    int entries[2];
    read_entries(tile, entries);
    for (int i = 1; tile.slot >= 0; ++i) {
      const TileRecord next = tiles[i];
      const bool is_outer = tile.flags & (kTileBelow | kTileAbove);
      if constexpr (Config::kReadsAddendEarly) {
        if (!is_outer) store.read_addend(entries, addend);
      }
      mma.multiply_tile(tile, params.operand, group, lane, position, acc);
      int next_entries[2];
      read_entries(next, next_entries);

      if (is_outer) {
        store.leave_partials(acc, entries, tile.flags & kTileBelow ? 0 : 1);
      } else {
        if (tile.flags & kTileAddsPartials) {
          ptx::wait_for_predecessor();  // the launch that left them
          store.add_partials(acc, entries);
        }
        if constexpr (Config::kReadsAddendEarly)
          store.apply_epilogue(acc, entries, &addend);
        else
          store.apply_epilogue(acc, entries);
        store.store(acc, entries);
      }
      tile = next;
      entries[0] = next_entries[0];
      entries[1] = next_entries[1];
    }
    ptx::wait_for_predecessor();  // whoever waits for this launch relies on the one before it too
  }
}

}  // namespace gemm_core

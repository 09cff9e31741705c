// The sparse convolution on Hopper: persistent thread blocks, consumer warpgroups of 64 rows each,
// of one tile or of tiles in turn, and a few gather warps. grid = (lists of the schedule, blocks of
// kTileN output channels).
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

// Sums as the epilogue takes them: those of int8 products rounded once, into `room`.
template <int kCount>
__device__ __forceinline__ float (&as_floats(float (&sums)[kCount], float (&)[kCount]))[kCount] {
  return sums;
}
template <int kCount>
__device__ __forceinline__ float (&as_floats(std::int32_t (&sums)[kCount],
                                             float (&room)[kCount]))[kCount] {
#pragma unroll
  for (int i = 0; i < kCount; ++i) room[i] = static_cast<float>(sums[i]);
  return room;
}

// Which 8-bit types results and additions may have.
template <class Config>
constexpr Narrow narrow_of() {
  if constexpr (!Config::kMixesNarrow) return Narrow::none;
  if constexpr (sizeof(typename Config::Element) > 1) return Narrow::either;
  return std::is_same_v<typename Config::Element, std::int8_t> ? Narrow::i8 : Narrow::e4m3;
}

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
    // Barrier kTurn + c opens the next tile of consumer c. Who waited for a stage while the other
    // still walks through earlier ones could take an older phase of its barrier for its own.
    constexpr int kTurn = 1, kTurnThreads = 256, kTurns = Config::kTakesTurns ? 2 : 1;
    const int consumer = warp / 4, group = Config::kTakesTurns ? 0 : consumer;
    const int fragment_row = group * kSlotGroup + warp % 4 * 16 + lane / 4;
    using Store = WgmmaStore<typename Config::Wide, Config::kTileN, narrow_of<Config>()>;
    const Store store{params.store, first_column, lane};
    typename Store::Addend addend;
    const auto read_entries = [&](const TileRecord& tile, int(&entries)[2]) {
      const std::int32_t* from = params.operand.slot_rows + tile.slot + fragment_row;
      entries[0] = tile.slot >= 0 ? __ldg(from) : -1;
      entries[1] = tile.slot >= 0 ? __ldg(from + 8) : -1;
    };
    typename Mma::Position position;
    typename Config::Mma::Sum products[Config::Mma::kAccumulators];
    // Residuals are read and buffers overwritten below.
    if (!params.operand.input_is_older) ptx::wait_for_predecessor();

    TileRecord tile = tiles[0];
    int i = 1;
    if (Config::kTakesTurns && consumer == 1 && tile.slot >= 0) {
      ptx::named_barrier_arrive(kTurn, kTurnThreads);
      position.skip(mma.steps_of(tile, params.operand));
      tile = tiles[i++];
    }
    int entries[2];
    read_entries(tile, entries);
    for (; tile.slot >= 0; i += kTurns) {
      const TileRecord next = tiles[i + kTurns - 1], others = Config::kTakesTurns ? tiles[i] : next;
      const bool is_outer = tile.flags & (kTileBelow | kTileAbove);
      if constexpr (Config::kReadsAddendEarly) {
        if (!is_outer) store.read_addend(entries, addend);
      }
      // Else the sums of the last tile would stay alive beside their floats.
      if constexpr (std::is_integral_v<typename Config::Mma::Sum>) {
#pragma unroll
        for (auto& sum : products) sum = 0;
      }
      if constexpr (Config::kTakesTurns) ptx::named_barrier_sync(kTurn + consumer, kTurnThreads);
      mma.multiply_tile(tile, params.operand, group, lane, position, products, [&] {
        if constexpr (Config::kTakesTurns) {
          if (others.slot >= 0) ptx::named_barrier_arrive(kTurn + 1 - consumer, kTurnThreads);
        }
        if constexpr (Config::kReadsAddendLast) {
          if (!is_outer) store.read_addend(entries, addend);
        }
      });
      if constexpr (Config::kTakesTurns) position.skip(mma.steps_of(others, params.operand));
      float room[Config::Mma::kAccumulators];
      auto& acc = as_floats(products, room);
      int next_entries[2];
      read_entries(next, next_entries);

      if (is_outer) {
        store.leave_partials(acc, entries, tile.flags & kTileBelow ? 0 : 1);
      } else {
        if (tile.flags & kTileAddsPartials) {
          ptx::wait_for_predecessor();  // the launch that left them
          store.add_partials(acc, entries);
        }
        if constexpr (Config::kReadsAddendEarly || Config::kReadsAddendLast)
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

// Weight gradients on Hopper: rows of both operands gathered by cp.async into swizzled shared
// memory, pairs as K, WGMMA over operands whose rows are K. Persistent thread blocks, each with an
// equal share of all taps' pairs. grid = (workers, blocks of kTileM x kTileN channels).
#pragma once
#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/atom/sm90_descriptor.hpp"
#include "gemm_core/atom/sm90_wgmma.cuh"
#include "gemm_core/collective/weight_gradient_pieces.cuh"

namespace gemm_core {

// What distinguishes one compiled instance from another: output and input channels of a tile,
// stages, teams of four gather warps (which take the steps in turn), thread blocks an SM.
template <class Element_, int kTileM_, int kTileN_, int kStages_, int kTeams_, int kBlocksPerSm_>
struct Sm90PairConfig {
  using Element = Element_;
  using Mma = Sm90Wgmma<Element, kTileN_, true>;
  static constexpr int kTileM = kTileM_, kTileN = kTileN_, kStages = kStages_;
  static constexpr int kTeams = kTeams_, kBlocksPerSm = kBlocksPerSm_;
  static constexpr int kTeamWarps = 4, kConsumers = kTileM / 64;  // warpgroups
  static constexpr int kThreads = kConsumers * 128 + kTeams * kTeamWarps * 32;
  // A span is 64 channels of kPairBlock rows, swizzled.
  static constexpr int kSpanBytes = kPairBlock * 128;
  static constexpr int kSpansM = kTileM / 64, kSpansN = kTileN / 64;
  static constexpr int kStageBytes = (kSpansM + kSpansN) * kSpanBytes;
  static constexpr int kSharedBytes = 1024 + kStages * (kStageBytes + 16);
  static_assert(sizeof(Element) == 2 && kTileM % 64 == 0 && kTileN % 64 == 0);
  static_assert(kTeams <= kStages && kSharedBytes * kBlocksPerSm <= 227 * 1024);
};

template <class Config>
struct Sm90PairMma {
  using Mma = typename Config::Mma;
  static constexpr int kStages = Config::kStages, kSpanBytes = Config::kSpanBytes;
  std::uint32_t stages, barriers;

  __device__ __forceinline__ explicit Sm90PairMma(std::uint32_t shared)
      : stages((shared + 1023) & ~1023u), barriers(stages + kStages * Config::kStageBytes) {}
  __device__ __forceinline__ std::uint32_t full(int stage) const { return barriers + 8 * stage; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const {
    return barriers + 8 * (kStages + stage);
  }
  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(full(i), Config::kTeamWarps * 32);
      ptx::barrier_init(empty(i), Config::kConsumers * 4);
    }
    ptx::barrier_init_fence();
  }

  struct Position {
    int stage = 0;
    std::uint32_t parity = 0;
    __device__ __forceinline__ void advance(int steps) {
      for (stage += steps; stage >= kStages; stage -= kStages) parity ^= 1;
    }
  };

  // --- gather warps ------------------------------------------------------------------------------
  // A warp takes 16 of a block's pairs, eight lanes a row of 128 bytes, four consecutive rows a
  // lane.
  template <int kSpans>
  __device__ __forceinline__ void copy_rows(const PairRows& rows, const int4& four,
                                            int first_channel, int channels, int chunk,
                                            std::uint32_t to, int first_row) const {
    const int index[4] = {four.x, four.y, four.z, four.w};
    const auto* data = static_cast<const std::uint16_t*>(rows.data);
#pragma unroll
    for (int span = 0; span < kSpans; ++span) {
      const int channel = first_channel + span * 64 + chunk * 8;
      const bool exists = channel < channels;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint64_t row = static_cast<std::uint32_t>(max(index[i], 0));
        ptx::copy_16_or_zero(
            to + span * kSpanBytes + swizzled_offset<128>(first_row + i, chunk),
            data + row * static_cast<std::uint64_t>(rows.pitch) + (exists ? channel : 0),
            exists ? index[i] : -1);
      }
    }
  }

  __device__ __forceinline__ void gather(const WeightGradientParams& p, const PairWalk& walk,
                                         int first_row, int first_column, int warp,
                                         int lane) const {
    const int team = warp / Config::kTeamWarps;
    const int row = warp % Config::kTeamWarps * 16 + lane / 8 * 4, chunk = lane % 8;
    const auto fetch = [&](const std::int32_t* from, int block) {
      return __ldg(reinterpret_cast<const int4*>(
          from + static_cast<std::int64_t>(block) * kPairBlock + row));
    };
    Position at;
    at.parity = 1;
    at.advance(team);
    int block = walk.first() + team;
    int4 outputs{}, inputs{};
    if (block < walk.last()) {
      outputs = fetch(p.pairs.outputs, block);
      inputs = fetch(p.pairs.inputs, block);
    }
    for (; block < walk.last(); block += Config::kTeams) {
      int4 next_outputs{}, next_inputs{};
      if (block + Config::kTeams < walk.last()) {
        next_outputs = fetch(p.pairs.outputs, block + Config::kTeams);
        next_inputs = fetch(p.pairs.inputs, block + Config::kTeams);
      }
      ptx::barrier_wait(empty(at.stage), at.parity);
      const std::uint32_t to = stages + at.stage * Config::kStageBytes;
      copy_rows<Config::kSpansM>(p.gradient, outputs, first_row, p.cout, chunk, to, row);
      copy_rows<Config::kSpansN>(p.input, inputs, first_column, p.cin, chunk,
                                 to + Config::kSpansM * kSpanBytes, row);
      ptx::barrier_arrive_after_copies(full(at.stage));
      at.advance(Config::kTeams);
      outputs = next_outputs;
      inputs = next_inputs;
    }
    ptx::wait_all_copies();
  }

  // --- consumer warpgroups -----------------------------------------------------------------------
  __device__ __forceinline__ void release(int stage, int lane) const {
    if (lane == 0) ptx::barrier_arrive(empty(stage));
  }

  // acc = the sum over `blocks` blocks for the 64 output channels of `group`.
  __device__ __forceinline__ void multiply(int blocks, int group, int lane, Position& at,
                                           float (&acc)[Mma::kAccumulators]) const {
    const std::uint64_t a = wgmma_mn_descriptor(stages + group * kSpanBytes, kSpanBytes);
    const std::uint64_t b = wgmma_mn_descriptor(stages + Config::kSpansM * kSpanBytes, kSpanBytes);
    int accumulate = 0, in_flight = -1;
#pragma unroll 1
    for (; blocks > 0; --blocks) {
      ptx::barrier_wait(full(at.stage), at.parity);
      ptx::fence_proxy_async();
      ptx::wgmma_fence();
      const std::uint32_t offset = at.stage * (Config::kStageBytes >> 4);
#pragma unroll
      for (int k = 0; k < kPairBlock / Mma::kK; ++k) {
        const std::uint32_t by = offset + k * (Mma::kK * 128 >> 4);
        Mma::issue(acc, moved_descriptor(a, by), moved_descriptor(b, by), accumulate);
        accumulate = 1;
      }
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      if (in_flight >= 0) release(in_flight, lane);
      in_flight = at.stage;
      at.advance(1);
    }
    ptx::wgmma_wait<0>();
    if (in_flight >= 0) release(in_flight, lane);
  }
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, Config::kBlocksPerSm)
    sm90_weight_gradient(const __grid_constant__ WeightGradientParams p) {
  using Mma = Sm90PairMma<Config>;
  constexpr int kM = Config::kTileM, kN = Config::kTileN;
  extern __shared__ std::uint8_t shared[];
  const Mma mma(ptx::shared_address(shared));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  constexpr int kFirstGatherWarp = Config::kConsumers * 4;
  if (threadIdx.x == 0) mma.init_barriers();
  __syncthreads();
  ptx::wait_for_predecessor();
  ptx::allow_successor();

  const WeightTile shape(p.cout, p.cin, 1, kM, kN);
  const int first_row = blockIdx.y / shape.column_blocks * kM;
  const int first_column = blockIdx.y % shape.column_blocks * kN;
  PairWalk walk(p.pairs, static_cast<int>(blockIdx.x), p.workers);
  if (warp >= kFirstGatherWarp) {
    mma.gather(p, walk, first_row, first_column, warp - kFirstGatherWarp, lane);
    return;
  }
  const int group = warp / 4, row = group * 64 + warp % 4 * 16 + lane / 4, column = lane % 4 * 2;
  typename Mma::Position at;
  float acc[Config::Mma::kAccumulators];
  for (int begin, end; walk.next(begin, end);) {
    mma.multiply(end - begin, group, lane, at, acc);
    float* const to =
        piece_of(p, static_cast<int>(blockIdx.x), walk.tap(), kM * kN) + row * kN + column;
#pragma unroll
    for (int v = 0; v < Config::Mma::kAccumulators; v += 2) {
      *reinterpret_cast<float2*>(to + v / 2 % 2 * 8 * kN + v / 4 * 8) =
          make_float2(acc[v], acc[v + 1]);
    }
  }
}

}  // namespace gemm_core

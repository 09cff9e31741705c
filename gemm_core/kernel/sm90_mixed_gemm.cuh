// Products of narrow weights with f16 or bf16 activations on Hopper: persistent thread blocks walk
// the pieces of a plan (whole tiles, where nothing is cut).
#pragma once
#include "gemm_core/collective/sm90_mixed_mma.cuh"
#include "gemm_core/kernel/cut_plan.hpp"
#include "gemm_core/kernel/sm90_partial_sums.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

struct Sm90MixedParams {
  MixedOperands operands;
  kernel::TileOrder order;  // m: tiles of weights, n: of activations
  kernel::CutPlan plan;
  PartialSums partials;
  DenseEpilogue epilogue;
  bool weights_are_rows = false;  // of D; else its columns
};

// The 64 rows of weights from `m` on by all columns of a tile, 16 columns at a time through the
// warpgroup's own shared memory. Overwrites the sums, which move to the front in turn.
template <class Config>
__device__ __forceinline__ void store_mixed(const Sm90MixedParams& params, std::uint32_t room,
                                            int thread, int barrier, std::int64_t m, std::int64_t n,
                                            int batch, float (&sums)[Config::Mma::kAccumulators]) {
  constexpr int kSums = Config::Mma::kAccumulators, kNow = Config::kStoreColumns / 2;
  const int lane = thread % 32;
#pragma unroll 1
  for (int column = 0; column < Config::kTileN; column += Config::kStoreColumns) {
    ptx::named_barrier(barrier, 128);
#pragma unroll
    for (int v = 0; v < kNow; ++v) {
      const int r = thread / 32 * 16 + lane / 4 + 8 * (v / 2 % 2);
      const int c = v / 4 * 8 + lane % 4 * 2 + v % 2;
      asm volatile("st.shared.f32 [%0], %1;" ::"r"(room + (c * Config::kStorePitch + r) * 4),
                   "f"(sums[v])
                   : "memory");
    }
    ptx::named_barrier(barrier, 128);
    const int r = params.weights_are_rows ? thread % 64 : thread % 8 * kDenseRun;
    const int c = params.weights_are_rows ? thread / 64 * kDenseRun : thread / 8;
    float values[kDenseRun];
#pragma unroll
    for (int i = 0; i < kDenseRun; ++i) {
      const int at = params.weights_are_rows ? (c + i) * Config::kStorePitch + r
                                             : c * Config::kStorePitch + r + i;
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(values[i]) : "r"(room + at * 4) : "memory");
    }
    if (params.weights_are_rows)
      finish_run(params.epilogue, m + r, n + column + c, batch, values);
    else
      finish_run(params.epilogue, n + column + c, m + r, batch, values);
#pragma unroll
    for (int i = 0; i + kNow < kSums; ++i) sums[i] = sums[i + kNow];
  }
}

template <class Config, class F>
__device__ __forceinline__ void for_each_piece(const Sm90MixedParams& params, const F& f) {
  for (std::uint32_t unit = blockIdx.x; unit < params.plan.units(); unit += gridDim.x) {
    params.plan.for_each_piece(unit, [&](const kernel::CutPiece& piece) {
      const kernel::TileCoord tile = params.order.tile(piece.tile);
      f(MixedWork{static_cast<int>(tile.m) * Config::kTileM,
                  static_cast<int>(tile.n) * Config::kTileN, static_cast<int>(tile.batch),
                  static_cast<int>(piece.k_begin), static_cast<int>(piece.k_end - piece.k_begin)},
        unit, piece);
    });
  }
}

// sums = ((first + second) + ...) + sums, of what units `first` .. `unit` - 1 left in their slots.
template <int kSums>
__device__ __forceinline__ void add_units(const PartialSlots<float, kSums>& slots,
                                          std::uint32_t first, std::uint32_t unit,
                                          float (&sums)[kSums]) {
  constexpr int kNow = 8;
  for (std::uint32_t u = first + slots.thread; u < unit; u += 128) {
    std::uint32_t* const from = slots.flag(u);
    std::uint32_t ready = 0;
    while (ready == 0)
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(ready) : "l"(from) : "memory");
    *from = 0;
  }
  ptx::named_barrier(slots.barrier, 128);
  // A few sums at a time, which move to the end: one copy of the code.
#pragma unroll 1
  for (int at = 0; at < kSums; at += kNow) {
    float total[kNow] = {};
#pragma unroll 4
    for (std::uint32_t u = first; u < unit; ++u) {
      const float* const from = slots.slot(u) + at * 128;
#pragma unroll
      for (int i = 0; i < kNow; ++i) total[i] += __ldcg(from + i * 128);
    }
#pragma unroll
    for (int i = 0; i < kNow; ++i) total[i] += sums[i];
#pragma unroll
    for (int i = 0; i + kNow < kSums; ++i) sums[i] = sums[i + kNow];
#pragma unroll
    for (int i = 0; i < kNow; ++i) sums[kSums - kNow + i] = total[i];
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_mixed_gemm(const __grid_constant__ Sm90MixedParams params) {
  using Mma = Sm90MixedMma<Config>;
  extern __shared__ std::uint8_t shared[];
  const Mma mma(ptx::shared_address(shared));
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  if (threadIdx.x == 0) mma.init_barriers();
  __syncthreads();

  typename Mma::Position position;
  if (group == Config::kConsumers) {
    if constexpr (Config::kMovesRegisters) ptx::release_registers_to<Config::kProducerRegisters>();
    position.parity = 1;
    for_each_piece<Config>(params, [&](const MixedWork& work, std::uint32_t, const auto&) {
      mma.produce(params.operands, work, thread, position);
    });
  } else {
    if constexpr (Config::kMovesRegisters) ptx::claim_registers_to<Config::kConsumerRegisters>();
    constexpr int kSums = Config::Mma::kAccumulators;
    typename Mma::Sums sums;
    for_each_piece<Config>(
        params, [&](const MixedWork& work, std::uint32_t unit, const kernel::CutPiece& piece) {
          mma.multiply(params.operands, work, group, thread, position, sums);
          const PartialSlots<float, kSums> slots{params.partials, group, Config::kConsumers, thread,
                                                 1 + group};
          if (!piece.finishes_tile) {
            slots.leave(unit, sums);
            return;
          }
          if (!piece.starts_tile)
            add_units(slots, params.plan.first_unit(unit, piece.tile), unit, sums);
          store_mixed<Config>(params, mma.store_room(group), thread, 1 + group, work.m + group * 64,
                              work.n, work.batch, sums);
        });
  }
}

}  // namespace gemm_core

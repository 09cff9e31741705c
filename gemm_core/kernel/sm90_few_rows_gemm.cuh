// Products of narrow weights with few rows of f16 or bf16 activations on Hopper: persistent thread
// blocks walk the pieces of a plan, as sm90_mixed_gemm.cuh does.
#pragma once
#include "gemm_core/collective/sm90_few_rows_mma.cuh"
#include "gemm_core/kernel/sm90_mixed_gemm.cuh"

namespace gemm_core {

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_few_rows_gemm(const __grid_constant__ Sm90MixedParams params) {
  using Mma = Sm90FewRowsMma<Config>;
  extern __shared__ std::uint8_t shared[];
  const Mma mma(ptx::shared_address(shared));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) mma.init_barriers();
  __syncthreads();

  typename Mma::Position position;
  if (warp == Config::kWarps) {
    position.parity = 1;
    for_each_piece<Config>(params, [&](const MixedWork& work, std::uint32_t, const auto&) {
      mma.produce(params.operands, work, lane, position);
    });
  } else {
    constexpr int kSums = Config::kRowBlocks * Config::Mma::kAccumulators;
    const int group = warp / 4, thread = threadIdx.x % 128;
    typename Mma::Sums sums;
    for_each_piece<Config>(
        params, [&](const MixedWork& work, std::uint32_t unit, const kernel::CutPiece& piece) {
          mma.multiply(params.operands, work, warp, lane, position, sums);
          const PartialSlots<float, kSums> slots{params.partials, group, Config::kGroups, thread,
                                                 1 + group};
          auto& all = reinterpret_cast<float(&)[kSums]>(sums);
          if (!piece.finishes_tile) {
            slots.leave(unit, all);
            return;
          }
          if (!piece.starts_tile)
            add_units(slots, params.plan.first_unit(unit, piece.tile), unit, all);
#pragma unroll
          for (int block = 0; block < Config::kRowBlocks; ++block)
            store_mixed<Config>(params, mma.store_room(group), thread, 1 + group,
                                work.m + (group * Config::kRowBlocks + block) * 64, work.n,
                                work.batch, sums[block]);
        });
  }
}

}  // namespace gemm_core

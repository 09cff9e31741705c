// Contractions on Hopper: the persistent kernel of dense products (sm90_gemm.cuh) with a producer
// that walks nested modes. Consumers take whole tiles in turn.
#pragma once
#include "gemm_core/collective/sm90_nested_load.cuh"
#include "gemm_core/kernel/sm90_gemm.cuh"

namespace gemm_core {

struct Sm90ContractionParams {
  Sm90GemmParams gemm;  // maps, tiles and epilogue as in a product
  NestedModes modes;
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_contraction(const __grid_constant__ Sm90ContractionParams params) {
  static_assert(Config::kAlternates && Config::kCluster == 1);
  using Mma = Sm90TmaMma<Config>;
  using Sum = typename Config::Sum;
  extern __shared__ std::uint8_t shared[];
  const Mma mma(ptx::shared_address(shared));
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  const Sm90GemmProblem& problem = params.gemm.problem;

  if (threadIdx.x == 0) mma.init_barriers();
  __syncthreads();

  typename Mma::Position position;
  if (group == Config::kConsumers) {
    ptx::release_registers_to<Config::kProducerRegisters>();
    if (thread != 0) return;
    position.parity = 1;
    const Sm90NestedLoad<Config> load{mma, params.modes};
    for_each_work<Config, DenseWalk::tiles>(params.gemm, 0, [&](const DenseWork& work) {
      load.load(&problem.a, &problem.b, work, position);
    });
    return;
  }
  ptx::claim_registers_to<Config::kConsumerRegisters>();
  constexpr int kSums = Config::Mma::kAccumulators, kAtoms = Config::kAtoms;
  const std::uint32_t room = mma.store_room(group);
  typename Mma::Sums sums;
  std::uint32_t tiles = 0;
  for_each_work<Config, DenseWalk::tiles>(params.gemm, 0, [&](const DenseWork& work) {
    const std::uint32_t tile = tiles++;
    if (tile % 2 != static_cast<std::uint32_t>(group)) {
      position.advance(work.k_count);
      return;
    }
    mma.wait_for_turn(group, tile / 2);
    mma.multiply(work.k_count, group, thread % 32, position, sums);
#pragma unroll 1
    for (int atom = 0; atom < kAtoms; ++atom) {
      const Sm90DenseStore<Sum, kSums> store{problem.epilogue, &problem.d, problem.mode, room,
                                             thread,           1 + group};
      store.store(sums[0], work.m + atom * 64, work.n, work.batch);
      // One copy of the code serves all atoms.
      if constexpr (kAtoms == 2) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[0][i] = sums[1][i];
      }
    }
  });
  if (thread == 0) ptx::bulk_wait_all();
}

}  // namespace gemm_core

// Dense convolution on Hopper: the persistent kernel of dense products (sm90_gemm.cuh) with a
// producer that reads one operand through im2col tensor maps.
#pragma once
#include "gemm_core/collective/sm90_conv_load.cuh"
#include "gemm_core/kernel/sm90_gemm.cuh"

namespace gemm_core {

enum class ConvKernel : std::uint8_t {
  forward,   // A is the view: forward, and the gradient of the activation
  scatters,  // the same, D by rows: sm90_strided_gradient.cuh
  filter,    // B is the view
};

// Of a filter gradient the batches of tiles are parts of the positions, and taps within a part.
__device__ __forceinline__ DenseWork part_of(DenseWork work, int stages, const ConvAddress& a) {
  const int part = work.batch / a.tap_batches;
  work.batch -= part * a.tap_batches;
  work.k_begin = part * stages;
  return work;
}

struct Sm90ConvParams {
  Sm90GemmParams gemm;  // maps, tiles, plan and epilogue as in a product
  ConvAddress address;
};

template <class Config, ConvKernel kKernel, DenseWalk kWalk>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_conv(const __grid_constant__ Sm90ConvParams params) {
  using Mma = Sm90TmaMma<Config>;
  using Sum = typename Config::Sum;
  extern __shared__ std::uint8_t shared[];
  const Mma mma(ptx::shared_address(shared));
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  const std::uint32_t rank = Config::kCluster == 1 ? 0 : ptx::cluster_rank();
  const Sm90GemmProblem& problem = params.gemm.problem;

  if (threadIdx.x == 0) mma.init_barriers();
  if constexpr (Config::kCluster == 1)
    __syncthreads();
  else
    ptx::cluster_sync();

  typename Mma::Position position;
  if (group == Config::kConsumers) {
    ptx::release_registers_to<Config::kProducerRegisters>();
    if (thread == 0) {
      position.parity = 1;
      ptx::tma_prefetch_descriptor(&problem.a);
      ptx::tma_prefetch_descriptor(&problem.b);
      const Sm90ConvLoad<Config> load{mma, params.address};
      for_each_work<Config, kWalk>(params.gemm, rank, [&](const DenseWork& work) {
        if constexpr (kKernel == ConvKernel::filter)
          load.load_filter(&problem.a, &problem.b, part_of(work, problem.k_stages, params.address),
                           position);
        else
          load.load_forward(&problem.a, &problem.b, work, rank, position);
      });
    }
  } else {
    ptx::claim_registers_to<Config::kConsumerRegisters>();
    constexpr int kSums = Config::Mma::kAccumulators, kAtoms = Config::kAtoms;
    const std::uint32_t room = mma.store_room(group);
    const int first_row = Config::kAlternates ? 0 : group * Config::kRows;
    typename Mma::Sums sums;
    [[maybe_unused]] std::uint32_t tiles = 0;
    for_each_work<Config, kWalk>(params.gemm, rank, [&](const DenseWork& work) {
      if constexpr (Config::kAlternates) {
        const std::uint32_t tile = tiles++;
        if (tile % 2 != static_cast<std::uint32_t>(group)) {
          position.advance(work.k_count);
          return;
        }
        mma.wait_for_turn(group, tile / 2);
      }
      mma.multiply(work.k_count, group, thread % 32, position, sums);
#pragma unroll 1
      for (int atom = 0; atom < kAtoms; ++atom) {
        const int block = first_row / 64 + atom;  // of 64 rows
        bool is_whole = true;
        if constexpr (kWalk == DenseWalk::splits) {
          constexpr int kBlocks = Config::kTileM / 64;
          const PartialSlots<Sum, kSums> slots{params.gemm.partials,
                                               static_cast<int>(rank) * kBlocks + block,
                                               Config::kCluster * kBlocks, thread, 1 + group};
          if (!work.finishes_tile) {
            slots.leave(work.unit, sums[0]);
            is_whole = false;
          } else if (!work.starts_tile) {
            slots.add_earlier(params.gemm.plan, work.unit, sums[0]);
          }
        }
        if (is_whole) {
          const Sm90DenseStore<Sum, kSums> store{problem.epilogue, &problem.d, problem.mode, room,
                                                 thread,           1 + group};
          store.store(sums[0], work.m + block * 64, work.n, work.batch);
        }
        // One copy of the code serves all atoms.
        if constexpr (kAtoms == 2) {
#pragma unroll
          for (int i = 0; i < kSums; ++i) sums[0][i] = sums[1][i];
        }
      }
    });
    if (thread == 0) ptx::bulk_wait_all();
  }
  // No block leaves while others may still copy into it or arrive at its barriers.
  if constexpr (Config::kCluster > 1) ptx::cluster_sync();
}

}  // namespace gemm_core

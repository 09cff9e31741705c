// D[rows[m]] = alpha * A B on Hopper, A's rows gathered (collective/sm90_row_gather_mma.cuh), D's
// scattered. Persistent clusters of two blocks that share B.
#pragma once
#include "gemm_core/collective/sm90_row_gather_mma.cuh"
#include "gemm_core/epilogue/cuda/wgmma_store.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

struct Sm90RowGatherParams {
  CUtensorMap b;
  RowGather a;
  kernel::TileOrder order;  // of clusters
  int k_stages = 0, n = 0;
  void* d = nullptr;
  std::int64_t d_pitch = 0, d_limit = 0;  // elements; rows
  SlotList d_rows;                        // negative or not below the limit: not stored
  float alpha = 1;
};

// Results of 16 bits are stored 16 bytes a lane, those of 32 bits 8; columns are a multiple of 8.
template <class Element, int kSums>
struct RowScatter {
  const Sm90RowGatherParams& params;
  int thread;

  // The 64 rows from `row` on.
  __device__ __forceinline__ void store(const float (&sums)[kSums], int row, int column) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = row + thread / 32 * 16 + thread % 32 / 4 + 8 * half;
      const std::int64_t to = m < params.a.m ? params.d_rows[m] : -1;
      const bool exists = to >= 0 && to < params.d_limit;
#pragma unroll
      for (int group = 0; group < kSums / 16; ++group) {  // 32 columns
        if constexpr (sizeof(Element) == 2) {
          std::uint32_t words[4];
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            const int at = (group * 4 + q) * 4 + half * 2;
            words[q] =
                DeviceElement<Element>::pack(sums[at] * params.alpha, sums[at + 1] * params.alpha);
          }
          transpose_quad(words, thread);
          const int first = column + group * 32 + thread % 4 * 8;
          if (exists && first < params.n)
            *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(params.d) + to * params.d_pitch +
                                      first) = make_uint4(words[0], words[1], words[2], words[3]);
        } else {
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            const int at = (group * 4 + q) * 4 + half * 2;
            const int first = column + group * 32 + q * 8 + thread % 4 * 2;
            if (exists && first < params.n)
              *reinterpret_cast<float2*>(static_cast<float*>(params.d) + to * params.d_pitch +
                                         first) =
                  make_float2(sums[at] * params.alpha, sums[at + 1] * params.alpha);
          }
        }
      }
    }
  }
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_row_gather_gemm(const __grid_constant__ Sm90RowGatherParams params) {
  using Mma = Sm90RowGatherMma<Config>;
  constexpr int kProducerRegisters = 80, kConsumerRegisters = 208;
  extern __shared__ std::uint8_t shared[];
  const Mma mma(ptx::shared_address(shared));
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  const std::uint32_t rank = Config::kCluster == 1 ? 0 : ptx::cluster_rank();
  if (threadIdx.x == 0) mma.init_barriers();
  if constexpr (Config::kCluster == 1)
    __syncthreads();
  else
    ptx::cluster_sync();

  const std::uint32_t cluster = blockIdx.x / Config::kCluster;
  const std::uint32_t clusters = gridDim.x / Config::kCluster;
  DenseWork work;
  work.k_count = params.k_stages;
  const auto place = [&](std::uint32_t index) {
    const kernel::TileCoord tile = params.order.tile(index);
    work.m =
        (static_cast<int>(tile.m) * Config::kCluster + static_cast<int>(rank)) * Config::kTileM;
    work.n = static_cast<int>(tile.n) * Config::kTileN;
  };
  typename Mma::Position position;
  if (group == Config::kConsumers) {
    ptx::release_registers_to<kProducerRegisters>();
    position.parity = 1;
    for (std::uint32_t i = cluster; i < params.order.count(); i += clusters) {
      place(i);
      mma.gather(params.a, &params.b, work, rank, thread, position);
    }
    ptx::wait_all_copies();
  } else {
    ptx::claim_registers_to<kConsumerRegisters>();
    constexpr int kSums = Config::Mma::kAccumulators, kAtoms = Config::kAtoms;
    const int first_row = Config::kAlternates ? 0 : group * Config::kRows;
    typename Mma::Sums sums;
    [[maybe_unused]] std::uint32_t tiles = 0;
    for (std::uint32_t i = cluster; i < params.order.count(); i += clusters) {
      if constexpr (Config::kAlternates) {
        const std::uint32_t tile = tiles++;
        if (tile % 2 != static_cast<std::uint32_t>(group)) {
          position.advance(params.k_stages);
          continue;
        }
        mma.wait_for_turn(group, tile / 2);
      }
      place(i);
      mma.multiply(params.k_stages, group, thread % 32, position, sums);
      const RowScatter<typename Config::Element, kSums> to{params, thread};
#pragma unroll
      for (int atom = 0; atom < kAtoms; ++atom)
        to.store(sums[atom], work.m + first_row + atom * 64, work.n);
    }
  }
  // No block leaves while others may still copy into it or arrive at its barriers.
  if constexpr (Config::kCluster > 1) ptx::cluster_sync();
}

}  // namespace gemm_core

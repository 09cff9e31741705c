// Dense products on Hopper: persistent clusters of thread blocks that take tiles in turn, one
// producer thread and two consumer warpgroups each. The producer runs ahead over tiles, so that the
// next one's stages fill while this one's results are stored.
#pragma once
#include "gemm_core/collective/sm90_tma_mma.cuh"
#include "gemm_core/epilogue/cuda/sm90_dense_store.cuh"
#include "gemm_core/kernel/sm90_partial_sums.cuh"
#include "gemm_core/kernel/stream_k.hpp"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

// What a tile belongs to.
struct Sm90GemmProblem {
  CUtensorMap a, b, d;  // [batch][rows][k] or [batch][k][rows]; d: [batch][m][n] or unused
  int k_stages = 0;
  int batch_step_a = 1, batch_step_b = 1;  // 0: all batches share the operand
  DenseStoreMode mode = DenseStoreMode::rows;
  DenseEpilogue epilogue;
};

// A cluster's tiles of one group: kCluster tiles below each other.
struct GroupTileRecord {
  std::int32_t m = 0, n = 0, group = 0, k_stages = 0;  // m, n: first row, first column
};

enum class DenseWalk : std::uint8_t {
  tiles,   // all of k for each tile of one problem
  groups,  // the same over the tiles of many problems
  splits,  // the pieces of a stream-K plan
};

struct Sm90GemmParams {
  Sm90GemmProblem problem;  // of tiles and splits
  kernel::TileOrder order;  // of clusters
  const Sm90GemmProblem* groups = nullptr;
  const GroupTileRecord* group_tiles = nullptr;
  std::uint32_t group_tile_count = 0;
  int group_count = 0;
  kernel::StreamKPlan plan;  // its processors are clusters
  PartialSums partials;
};

// Calls f(work) for every part that a cluster takes; all warps of its blocks walk alike.
template <class Config, DenseWalk kWalk, class F>
__device__ __forceinline__ void for_each_work(const Sm90GemmParams& params, std::uint32_t rank,
                                              const F& f) {
  const std::uint32_t cluster = blockIdx.x / Config::kCluster;
  const std::uint32_t clusters = gridDim.x / Config::kCluster;
  const int below = static_cast<int>(rank) * Config::kTileM;
  DenseWork work;
  const auto place = [&](std::uint32_t index) {
    const kernel::TileCoord tile = params.order.tile(index);
    work.m = static_cast<int>(tile.m) * Config::kCluster * Config::kTileM + below;
    work.n = static_cast<int>(tile.n) * Config::kTileN;
    work.batch = static_cast<int>(tile.batch);
  };
  if constexpr (kWalk == DenseWalk::tiles) {
    work.k_count = params.problem.k_stages;
    for (std::uint32_t i = cluster; i < params.order.count(); i += clusters) {
      place(i);
      f(work);
    }
  } else if constexpr (kWalk == DenseWalk::groups) {
    const auto* const records = reinterpret_cast<const int4*>(params.group_tiles);
    const std::uint32_t count = params.group_tile_count;
    int4 next = cluster < count ? __ldg(records + cluster) : int4{};
    for (std::uint32_t i = cluster; i < count; i += clusters) {
      const int4 record = next;  // the next one is on its way while this one's tile is taken
      if (i + clusters < count) next = __ldg(records + i + clusters);
      work.next_group = next.z;
      work.m = record.x + below;
      work.n = record.y;
      work.group = record.z;
      work.k_count = record.w;
      f(work);
    }
  } else {
    // Units in rising order and the last piece first: see stream_k.hpp.
    for (std::int64_t unit = cluster; unit < params.plan.units(); unit += clusters) {
      for (std::int64_t i = params.plan.piece_count(unit); i-- > 0;) {
        const kernel::StreamKPiece piece = params.plan.piece(unit, i);
        place(static_cast<std::uint32_t>(piece.tile));
        work.k_begin = static_cast<int>(piece.k_begin);
        work.k_count = static_cast<int>(piece.k_end - piece.k_begin);
        work.unit = static_cast<int>(unit);
        work.starts_tile = piece.starts_tile;
        work.finishes_tile = piece.finishes_tile;
        f(work);
      }
    }
  }
}

template <class Config, DenseWalk kWalk>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_gemm(const __grid_constant__ Sm90GemmParams params) {
  using Mma = Sm90TmaMma<Config>;
  extern __shared__ std::uint8_t shared[];
  const Mma mma(ptx::shared_address(shared));
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  const std::uint32_t rank = Config::kCluster == 1 ? 0 : ptx::cluster_rank();

  if (threadIdx.x == 0) mma.init_barriers();
  if constexpr (kWalk == DenseWalk::groups) {
    // Copies before this launch wrote the tensor maps. All of them at once: one by one, where a
    // group begins, a tile waits for each.
    for (int i = static_cast<int>(threadIdx.x); i < params.group_count; i += Config::kThreads) {
      ptx::acquire_tensor_map(&params.groups[i].a);
      ptx::acquire_tensor_map(&params.groups[i].b);
      ptx::acquire_tensor_map(&params.groups[i].d);
    }
  }
  if constexpr (Config::kCluster == 1)
    __syncthreads();
  else
    ptx::cluster_sync();

  const auto problem_of = [&](const DenseWork& work) -> const Sm90GemmProblem& {
    if constexpr (kWalk == DenseWalk::groups)
      return params.groups[work.group];
    else
      return params.problem;
  };
  typename Mma::Position position;
  if (group == Config::kConsumers) {
    ptx::release_registers_to<Config::kProducerRegisters>();
    if (thread == 0) {
      position.parity = 1;
      for_each_work<Config, kWalk>(params, rank, [&](const DenseWork& work) {
        const Sm90GemmProblem& problem = problem_of(work);
        if constexpr (kWalk == DenseWalk::groups) {
          if (work.next_group != work.group) {
            ptx::tma_prefetch_descriptor(&params.groups[work.next_group].a);
            ptx::tma_prefetch_descriptor(&params.groups[work.next_group].b);
            ptx::tma_prefetch_descriptor(&params.groups[work.next_group].d);
          }
        }
        mma.load(&problem.a, &problem.b, work.batch * problem.batch_step_a,
                 work.batch * problem.batch_step_b, work, rank, position);
      });
    }
  } else {
    ptx::claim_registers_to<Config::kConsumerRegisters>();
    using Sum = typename Config::Sum;
    constexpr int kSums = Config::Mma::kAccumulators, kAtoms = Config::kAtoms;
    const std::uint32_t room = mma.store_room(group);
    const int first_row = Config::kAlternates ? 0 : group * Config::kRows;
    typename Mma::Sums sums;
    [[maybe_unused]] std::uint32_t tiles = 0;
    for_each_work<Config, kWalk>(params, rank, [&](const DenseWork& work) {
      if constexpr (Config::kAlternates) {
        const std::uint32_t tile = tiles++;
        if (tile % 2 != static_cast<std::uint32_t>(group)) {
          position.advance(work.k_count);
          return;
        }
        mma.wait_for_turn(group, tile / 2);
      }
      const Sm90GemmProblem& problem = problem_of(work);
      mma.multiply(work.k_count, group, thread % 32, position, sums);
#pragma unroll 1
      for (int atom = 0; atom < kAtoms; ++atom) {
        const int block = first_row / 64 + atom;  // of 64 rows
        bool is_whole = true;
        if constexpr (kWalk == DenseWalk::splits) {
          constexpr int kBlocks = Config::kTileM / 64;
          const PartialSlots<Sum, kSums> slots{params.partials,
                                               static_cast<int>(rank) * kBlocks + block,
                                               Config::kCluster * kBlocks, thread, 1 + group};
          if (!work.finishes_tile) {
            slots.leave(work.unit, sums[0]);
            is_whole = false;
          } else if (!work.starts_tile) {
            slots.add_earlier(params.plan, work.unit, sums[0]);
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

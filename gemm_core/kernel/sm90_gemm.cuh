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
  std::int32_t m = 0, n = 0, group = 0, unused = 0;  // m, n: first row, first column
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
    for (std::uint32_t i = cluster; i < params.group_tile_count; i += clusters) {
      const int4 record = __ldg(reinterpret_cast<const int4*>(params.group_tiles) + i);
      work.m = record.x + below;
      work.n = record.y;
      work.group = record.z;
      work.k_count = params.groups[work.group].k_stages;
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
      [[maybe_unused]] int known = -1;  // the group whose tensor maps have been acquired
      for_each_work<Config, kWalk>(params, rank, [&](const DenseWork& work) {
        const Sm90GemmProblem& problem = problem_of(work);
        if constexpr (kWalk == DenseWalk::groups) {
          if (work.group != known) {
            ptx::acquire_tensor_map(&problem.a);
            ptx::acquire_tensor_map(&problem.b);
            known = work.group;
          }
        }
        mma.load(&problem.a, &problem.b, work.batch * problem.batch_step_a,
                 work.batch * problem.batch_step_b, work, rank, position);
      });
    }
  } else {
    ptx::claim_registers_to<Config::kConsumerRegisters>();
    using Sum = typename Config::Sum;
    constexpr int kSums = Config::Mma::kAccumulators;
    using Store = Sm90DenseStore<Sum, kSums>;
    const std::uint32_t room = mma.store_room(group);
    Sum sums[kSums];
    [[maybe_unused]] int known = -1;
    for_each_work<Config, kWalk>(params, rank, [&](const DenseWork& work) {
      const Sm90GemmProblem& problem = problem_of(work);
      mma.multiply(work.k_count, group, thread % 32, position, sums);
      if constexpr (kWalk == DenseWalk::groups) {
        if (thread == 0 && work.group != known) ptx::acquire_tensor_map(&problem.d);
        known = work.group;
      }
      if constexpr (kWalk == DenseWalk::splits) {
        const PartialSlots<Sum, kSums> slots{
            params.partials, static_cast<int>(rank) * Config::kConsumers + group,
            Config::kCluster * Config::kConsumers, thread, 1 + group};
        if (!work.finishes_tile) {
          slots.leave(work.unit, sums);
          return;
        }
        if (!work.starts_tile) slots.add_earlier(params.plan, work.unit, sums);
      }
      const Store store{problem.epilogue, &problem.d, problem.mode, room, thread, 1 + group};
      store.store(sums, work.m + group * 64, work.n, work.batch);
    });
    if (thread == 0) ptx::bulk_wait_all();
  }
  // No block leaves while others may still copy into it or arrive at its barriers.
  if constexpr (Config::kCluster > 1) ptx::cluster_sync();
}

}  // namespace gemm_core

// Dense products on Hopper whose results pass through an epilogue tree that is part of the compiled
// kernel. Two consumer warpgroups take tiles of 128 x 128 in turn, so that one runs the tree while
// the other multiplies, or share tiles of 128 x 256, 64 rows each. Each has shared memory for all
// of its results of a tile and a thread of its own that stores them; where the tree reads a matrix,
// that thread has it copied to the same place while the tile is multiplied, and the results take
// its place.
#pragma once
#include "gemm_core/collective/sm90_tma_mma.cuh"
#include "gemm_core/epilogue/cuda/device_nodes.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

enum class TreeTile : std::uint8_t { in_turn_128, shared_256 };  // of 128 rows by so many columns

constexpr Sm90DenseTile dense_tile_of(TreeTile tile) {
  return tile == TreeTile::in_turn_128
             ? Sm90DenseTile{.m = 128, .n = 128, .stages = 5, .cluster = 2, .alternates = true}
             : Sm90DenseTile{.m = 128, .n = 256, .stages = 3, .cluster = 2};
}

template <class Element_, bool kKMajorA, bool kKMajorB, TreeTile kTile>
struct Sm90TreeConfig : Sm90DenseConfig<Element_, kKMajorA, kKMajorB, dense_tile_of(kTile)> {
  using Base = Sm90DenseConfig<Element_, kKMajorA, kKMajorB, dense_tile_of(kTile)>;
  static constexpr int kStoreBytes = 32768;  // of a consumer: 4 blocks of 64 rows of 128 bytes
  static constexpr int kPanels = Base::kTileN / kTreeColumns;
  static constexpr int kRings = Base::kStages * Base::kStageBytes + Base::kConsumers * kStoreBytes;
  // full, empty, turn; a consumer's `ready` and `filled`.
  static constexpr int kBarrierBytes =
      (8 * (2 * Base::kStages + 3 * Base::kConsumers) + 15) / 16 * 16;
  static_assert(sizeof(Element_) == 2, "results have the operands' 16 bits");
};

template <class Tree>
struct Sm90TreeGemmParams {
  CUtensorMap a, b, d, aux;  // aux: of trees that prefetch
  kernel::TileOrder order;   // of clusters
  int k_stages = 0;
  int batch_step_a = 1, batch_step_b = 1, batch_step_aux = 1;
  int m = 0, n = 0;
  typename Tree::Params tree;
};

template <class Config, class Tree>
struct Sm90TreeGemm {
  static constexpr int kSharedBytes =
      Config::kRings + Config::kBarrierBytes +
      Config::kConsumers * Config::kPanels * Tree::kSharedFloats * 4;
  static_assert(kSharedBytes <= 227 * 1024, "stages and the tree do not fit in shared memory");
  using Mma = Sm90TmaMma<Config>;
  static constexpr int kBlockBytes = 8192;  // 64 rows of 64 results
  static constexpr int kBlocks = Config::kStoreBytes / kBlockBytes;

  // Where block `block` of a consumer begins in its tile.
  static __device__ __forceinline__ int row_of(int consumer, int block) {
    return Config::kAlternates ? block / 2 * 64 : consumer * 64;
  }
  static __device__ __forceinline__ int column_of(int block) {
    return Config::kAlternates ? block % 2 * 64 : block * 64;
  }

  // The tree on four blocks of 64 x 64 in turn, whose sums move to the front: one copy of the code.
  // Results are left in `room`.
  static __device__ __forceinline__ void run(const Sm90TreeGemmParams<Tree>& params,
                                             typename Tree::State& state, TreePlace at,
                                             const DenseWork& work, int consumer,
                                             std::uint32_t room, typename Mma::Sums& sums) {
    constexpr int kAtoms = Config::kAtoms, kSums = Config::Mma::kAccumulators;
    static_assert(kAtoms * kSums == kBlocks * kTreeValues);
    const int lane = at.thread % 32, matrix = lane / 8;
    const int matrix_row = at.thread / 32 * 16 + lane % 8 + 8 * (matrix & 1);
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) {
      at.column = column_of(block);
      at.matrix = room + block * kBlockBytes;
      at.spot.row = work.m + row_of(consumer, block) + at.thread / 32 * 16 + lane / 4;
      at.spot.column = work.n + at.column + lane % 4 * 2;
      TreeValues in, out;
#pragma unroll
      for (int i = 0; i < kTreeValues; ++i) in[i] = sums[0][i];
      Tree::visit(params.tree, state, at, in, out);
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        std::uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          words[i] = DeviceElement<typename Config::Element>::pack(out[4 * j + 2 * i],
                                                                   out[4 * j + 2 * i + 1]);
        ptx::store_matrices(at.matrix + swizzled_offset<128>(matrix_row, j + matrix / 2), words[0],
                            words[1], words[2], words[3]);
      }
#pragma unroll
      for (int i = 0; i + kTreeValues < kAtoms * kSums; ++i) {
        const int from = i + kTreeValues;
        sums[i / kSums][i % kSums] = sums[from / kSums][from % kSums];
      }
    }
  }

  // One thread a consumer. `ready`: the room is free, and holds what the tree reads; `filled`: the
  // results are there. Blocks of 64 x 64 by bulk copies.
  static __device__ __forceinline__ void copy_tile(const Sm90TreeGemmParams<Tree>& params,
                                                   const DenseWork& work, int consumer,
                                                   std::uint32_t room, std::uint32_t ready,
                                                   std::uint32_t filled, std::uint32_t parity) {
    ptx::bulk_wait_read<0>();  // the results of the consumer's last tile
    if constexpr (Tree::kPrefetches) {
      ptx::barrier_arrive_expect(ready, Config::kStoreBytes);
#pragma unroll 1
      for (int block = 0; block < kBlocks; ++block)
        ptx::tma_load_3d(room + block * kBlockBytes, &params.aux, ready, work.n + column_of(block),
                         work.m + row_of(consumer, block), work.batch * params.batch_step_aux);
    } else {
      ptx::barrier_arrive(ready);
    }
    ptx::barrier_wait(filled, parity);
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) {
      const int column = work.n + column_of(block);
      if (column < params.n)
        ptx::tma_store_3d(&params.d, room + block * kBlockBytes, column,
                          work.m + row_of(consumer, block), work.batch);
    }
    ptx::bulk_commit();
  }
};

template <class Config, class Tree>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_tree_gemm(const __grid_constant__ Sm90TreeGemmParams<Tree> params) {
  using Parts = Sm90TreeGemm<Config, Tree>;
  using Mma = typename Parts::Mma;
  extern __shared__ __align__(1024) std::uint8_t tree_shared[];
  const std::uint32_t base = ptx::shared_address(tree_shared);
  if (base % 1024 != 0) __trap();  // no room was left for rounding up
  const Mma mma(base);
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  const std::uint32_t rank = Config::kCluster == 1 ? 0 : ptx::cluster_rank();
  const auto ready = [&](int consumer) { return mma.turn(Config::kConsumers + consumer); };
  const auto filled = [&](int consumer) { return mma.turn(2 * Config::kConsumers + consumer); };

  if (threadIdx.x == 0) {
    for (int i = 0; i < Config::kConsumers; ++i) {
      ptx::barrier_init(ready(i), 1);
      ptx::barrier_init(filled(i), 4);  // warps
    }
    mma.init_barriers();
  }
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
    work.batch = static_cast<int>(tile.batch);
  };
  // A consumer takes every kTurns-th tile of the block's.
  constexpr std::uint32_t kTurns = Config::kAlternates ? Config::kConsumers : 1;
  typename Mma::Position position;
  if (group == Config::kConsumers) {
    ptx::release_registers_to<Config::kProducerRegisters>();
    const int warp = thread / 32;
    if (thread == 0) {
      position.parity = 1;
      for (std::uint32_t i = cluster; i < params.order.count(); i += clusters) {
        place(i);
        mma.load(&params.a, &params.b, work.batch * params.batch_step_a,
                 work.batch * params.batch_step_b, work, rank, position);
      }
    } else if (thread % 32 == 0 && warp <= Config::kConsumers) {
      const int consumer = warp - 1;
      std::uint32_t tiles = 0;
      for (std::uint32_t i = cluster + (kTurns > 1 ? consumer : 0) * clusters;
           i < params.order.count(); i += kTurns * clusters) {
        place(i);
        Parts::copy_tile(params, work, consumer, mma.store_room(consumer), ready(consumer),
                         filled(consumer), tiles++ & 1);
      }
      ptx::bulk_wait_all();
    }
  } else {
    ptx::claim_registers_to<Config::kConsumerRegisters>();
    const std::uint32_t room = mma.store_room(group);
    TreePlace at;
    at.thread = thread;
    at.panels = Config::kPanels;
    at.shared = base + Config::kRings + Config::kBarrierBytes +
                group * Config::kPanels * Tree::kSharedFloats * 4;
    at.spot.lane = thread % 32;
    at.spot.m = params.m;
    at.spot.n = params.n;
    typename Mma::Sums sums;
    typename Tree::State state;
    std::uint32_t tiles = 0;
    for (std::uint32_t i = cluster; i < params.order.count(); i += clusters) {
      const std::uint32_t tile = tiles++, turn = tile / kTurns;
      if (kTurns > 1 && tile % kTurns != static_cast<std::uint32_t>(group)) {
        position.advance(params.k_stages);
        continue;
      }
      place(i);
      at.spot.batch = work.batch;
      at.tile_column = work.n;
      Tree::begin(params.tree, state, at);
      mma.wait_for_turn(group, turn);
      mma.multiply(params.k_stages, group, thread % 32, position, sums);
      if constexpr (Tree::kSharedFloats > 0) {
        ptx::named_barrier(1 + group, 128);  // nobody reads the vectors of the last tile any more
        Tree::share(params.tree, state, at);
        ptx::named_barrier(1 + group, 128);
      }
      ptx::barrier_wait(ready(group), turn & 1);
      Parts::run(params, state, at, work, group, room, sums);
      ptx::fence_proxy_async();
      __syncwarp();
      if (thread % 32 == 0) ptx::barrier_arrive(filled(group));
    }
    Tree::finish(params.tree, state, thread % 32);
  }
  // No block leaves while others may still copy into it or arrive at its barriers.
  if constexpr (Config::kCluster > 1) ptx::cluster_sync();
}

}  // namespace gemm_core

// Dense products on Hopper whose results pass through an epilogue tree that is part of the compiled
// kernel. Two consumer warpgroups take tiles of 128 x 128 in turn, so that one runs the tree while
// the other multiplies, or share tiles of 128 x 256, 64 rows each. Results are left in shared
// memory, four blocks of 64 x 64 that a thread of their own stores one by one; where the tree reads
// a matrix, that thread has a block copied to the place of the one before it while a tile is
// multiplied, and the results take its place. Consumers in turn share the four blocks.
#pragma once
#include "gemm_core/atom/sm90_tma_prefetch.cuh"
#include "gemm_core/collective/sm90_tma_mma.cuh"
#include "gemm_core/epilogue/cuda/device_nodes.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

enum class TreeTile : std::uint8_t { in_turn_128, shared_256 };  // of 128 rows by so many columns

constexpr Sm90DenseTile dense_tile_of(TreeTile tile) {
  return tile == TreeTile::in_turn_128
             ? Sm90DenseTile{.m = 128, .n = 128, .stages = 6, .cluster = 2, .alternates = true}
             : Sm90DenseTile{.m = 128, .n = 256, .stages = 3, .cluster = 2};
}

template <class Element_, bool kKMajorA, bool kKMajorB, TreeTile kTile>
struct Sm90TreeConfig : Sm90DenseConfig<Element_, kKMajorA, kKMajorB, dense_tile_of(kTile)> {
  using Base = Sm90DenseConfig<Element_, kKMajorA, kKMajorB, dense_tile_of(kTile)>;
  static constexpr int kRooms = Base::kAlternates ? 1 : Base::kConsumers;
  static constexpr int kBlockBytes = 8192, kBlocks = 4;  // of a room: 64 rows of 128 bytes each
  static constexpr int kRoomBytes = kBlocks * kBlockBytes;
  static constexpr int kStoreBytes = kRooms * kRoomBytes / Base::kConsumers;  // of a consumer
  static constexpr int kPanels = Base::kTileN / kTreeColumns;
  static constexpr int kRings = Base::kStages * Base::kStageBytes + kRooms * kRoomBytes;
  // full, empty, turn; `ready` and `filled` of each block.
  static constexpr int kMmaBarriers = 2 * Base::kStages + Base::kConsumers;
  static constexpr int kRoomBarriers = 2 * kRooms * kBlocks;
  static constexpr int kBarrierBytes = (8 * (kMmaBarriers + kRoomBarriers) + 15) / 16 * 16;
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

// Tiles of a cluster.
struct TreeWalk {
  std::uint32_t index, end, step;

  __device__ __forceinline__ bool has_more() const { return index < end; }
  __device__ __forceinline__ void next() { index += step; }
};

template <class Config, class Tree>
struct Sm90TreeGemm {
  static constexpr int kSharedBytes =
      Config::kRings + Config::kBarrierBytes +
      Config::kConsumers * Config::kPanels * Tree::kSharedFloats * 4;
  static_assert(kSharedBytes <= 227 * 1024, "stages and the tree do not fit in shared memory");
  static constexpr int kBlocks = Config::kBlocks, kBlockBytes = Config::kBlockBytes;

  std::uint32_t base;  // of the block's shared memory
  __device__ __forceinline__ std::uint32_t barrier(int i) const {
    return base + Config::kRings + 8 * (Config::kMmaBarriers + i);
  }
  // A block of a room is free, and holds what the tree reads; holds the results.
  __device__ __forceinline__ std::uint32_t ready(int room, int block) const {
    return barrier(room * kBlocks + block);
  }
  __device__ __forceinline__ std::uint32_t filled(int room, int block) const {
    return barrier((Config::kRooms + room) * kBlocks + block);
  }
  __device__ __forceinline__ std::uint32_t at(int room, int block) const {
    return base + Config::kRings - (Config::kRooms - room) * Config::kRoomBytes +
           block * kBlockBytes;
  }
  __device__ __forceinline__ void init_barriers() const {
    for (int room = 0; room < Config::kRooms; ++room) {
      for (int block = 0; block < kBlocks; ++block) {
        ptx::barrier_init(ready(room, block), 1);
        ptx::barrier_init(filled(room, block), 4);  // warps
      }
    }
  }

  static __device__ __forceinline__ DenseWork place(const Sm90TreeGemmParams<Tree>& params,
                                                    std::uint32_t index, std::uint32_t rank) {
    const kernel::TileCoord tile = params.order.tile(index);
    DenseWork work;
    work.m = static_cast<int>(tile.m * Config::kCluster + rank) * Config::kTileM;
    work.n = static_cast<int>(tile.n) * Config::kTileN;
    work.batch = static_cast<int>(tile.batch);
    work.k_count = params.k_stages;
    return work;
  }
  // Where block `block` of a room begins in its tile.
  static __device__ __forceinline__ int row_of(int room, int block) {
    return Config::kAlternates ? block / 2 * 64 : room * 64;
  }
  static __device__ __forceinline__ int column_of(int block) {
    return Config::kAlternates ? block % 2 * 64 : block * 64;
  }

  // The tree on four blocks of 64 x 64 in turn. Unrolled: one copy of the code would move the sums.
  template <class Sums>
  __device__ __forceinline__ void run(const Sm90TreeGemmParams<Tree>& params,
                                      typename Tree::State& state, TreePlace place,
                                      const DenseWork& work, int room, std::uint32_t parity,
                                      Sums& sums) const {
    constexpr int kAtoms = Config::kAtoms, kSums = Config::Mma::kAccumulators;
    static_assert(kAtoms * kSums == kBlocks * kTreeValues);
    const int lane = place.thread % 32, matrix = lane / 8;
    const int matrix_row = place.thread / 32 * 16 + lane % 8 + 8 * (matrix & 1);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      place.column = column_of(block);
      place.matrix = at(room, block);
      place.spot.row = work.m + row_of(room, block) + place.thread / 32 * 16 + lane / 4;
      place.spot.column = work.n + place.column + lane % 4 * 2;
      ptx::barrier_wait(ready(room, block), parity);
      TreeValues in, out;
#pragma unroll
      for (int i = 0; i < kTreeValues; ++i) {
        const int from = block * kTreeValues + i;
        in[i] = sums[from / kSums][from % kSums];
      }
      Tree::visit(params.tree, state, place, in, out);
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        std::uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          words[i] = DeviceElement<typename Config::Element>::pack(out[4 * j + 2 * i],
                                                                   out[4 * j + 2 * i + 1]);
        ptx::store_matrices(place.matrix + swizzled_offset<128>(matrix_row, j + matrix / 2),
                            words[0], words[1], words[2], words[3]);
      }
      ptx::fence_proxy_async();
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(filled(room, block));
    }
  }

  // --- one thread a room -------------------------------------------------------------------------
  __device__ __forceinline__ void request(const Sm90TreeGemmParams<Tree>& params,
                                          const DenseWork& work, int room, int block) const {
    if constexpr (Tree::kPrefetches) {
      ptx::barrier_arrive_expect(ready(room, block), kBlockBytes);
      ptx::tma_load_3d(at(room, block), &params.aux, ready(room, block), work.n + column_of(block),
                       work.m + row_of(room, block), work.batch * params.batch_step_aux);
    } else {
      ptx::barrier_arrive(ready(room, block));
    }
  }
  // What is copied when the tile after this one is stored: the copy itself waits for room.
  __device__ __forceinline__ void fetch_to_l2(const Sm90TreeGemmParams<Tree>& params, TreeWalk walk,
                                              std::uint32_t rank, int room) const {
    walk.next();
    if (!walk.has_more()) return;
    const DenseWork work = place(params, walk.index, rank);
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block)
      ptx::tma_prefetch_3d(&params.aux, work.n + column_of(block), work.m + row_of(room, block),
                           work.batch * params.batch_step_aux);
  }
  // Stores the blocks of all tiles, and has each copied for the next tile once it was read.
  __device__ __forceinline__ void copy(const Sm90TreeGemmParams<Tree>& params, TreeWalk walk,
                                       std::uint32_t rank, int room) const {
    if (!walk.has_more()) return;
    DenseWork next = place(params, walk.index, rank);
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) request(params, next, room, block);
    std::uint32_t parity = 0;
#pragma unroll 1
    for (bool has_next = true; has_next; parity ^= 1) {
      const DenseWork work = next;
      walk.next();
      has_next = walk.has_more();
      if (has_next) next = place(params, walk.index, rank);
      if constexpr (Tree::kPrefetches) fetch_to_l2(params, walk, rank, room);
#pragma unroll 1
      for (int block = 0; block < kBlocks; ++block) {
        ptx::barrier_wait(filled(room, block), parity);
        const int column = work.n + column_of(block);
        if (column < params.n)
          ptx::tma_store_3d(&params.d, at(room, block), column, work.m + row_of(room, block),
                            work.batch);
        ptx::bulk_commit();
        if (!has_next || block == 0) continue;
        ptx::bulk_wait_read<1>();  // of the block before this one
        request(params, next, room, block - 1);
      }
      if (!has_next) break;
      ptx::bulk_wait_read<0>();
      request(params, next, room, kBlocks - 1);
    }
    ptx::bulk_wait_all();
  }
};

template <class Config, class Tree>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_tree_gemm(const __grid_constant__ Sm90TreeGemmParams<Tree> params) {
  using Parts = Sm90TreeGemm<Config, Tree>;
  extern __shared__ __align__(1024) std::uint8_t tree_shared[];
  const Parts parts{ptx::shared_address(tree_shared)};
  if (parts.base % 1024 != 0) __trap();  // no room was left for rounding up
  const std::uint32_t rank = ptx::cluster_rank();
  using Mma = Sm90TmaMma<Config>;
  const Mma mma(parts.base);
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128, lane = thread % 32;

  if (threadIdx.x == 0) {
    parts.init_barriers();
    mma.init_barriers();
  }
  ptx::cluster_sync();

  const TreeWalk start{blockIdx.x / Config::kCluster, params.order.count(),
                       gridDim.x / Config::kCluster};
  typename Mma::Position position;
  if (group == Config::kConsumers) {
    ptx::release_registers_to<Config::kProducerRegisters>();
    const int warp = thread / 32;
    if (thread == 0) {
      position.parity = 1;
      for (TreeWalk walk = start; walk.has_more(); walk.next()) {
        const DenseWork work = Parts::place(params, walk.index, rank);
        mma.load(&params.a, &params.b, work.batch * params.batch_step_a,
                 work.batch * params.batch_step_b, work, rank, position);
      }
    } else if (lane == 0 && warp <= Config::kRooms) {
      parts.copy(params, start, rank, warp - 1);
    }
  } else {
    ptx::claim_registers_to<Config::kConsumerRegisters>();
    constexpr std::uint32_t kTurns = Config::kAlternates ? Config::kConsumers : 1;
    TreePlace place;
    place.thread = thread;
    place.barrier = 1 + group;
    place.panels = Config::kPanels;
    place.shared = parts.base + Config::kRings + Config::kBarrierBytes +
                   group * Config::kPanels * Tree::kSharedFloats * 4;
    place.spot.lane = lane;
    place.spot.m = params.m;
    place.spot.n = params.n;
    typename Mma::Sums sums;
    typename Tree::State state;
    std::uint32_t tiles = 0;
    for (TreeWalk walk = start; walk.has_more(); walk.next()) {
      const std::uint32_t tile = tiles++, turn = tile / kTurns;
      if (kTurns > 1 && tile % kTurns != static_cast<std::uint32_t>(group)) {
        position.advance(params.k_stages);
        continue;
      }
      const DenseWork work = Parts::place(params, walk.index, rank);
      place.spot.batch = work.batch;
      place.tile_column = work.n;
      Tree::begin(params.tree, state, place);
      mma.wait_for_turn(group, turn);
      mma.multiply(params.k_stages, group, lane, position, sums);
      if constexpr (Tree::kSharedFloats > 0) {
        ptx::named_barrier(1 + group, 128);  // nobody reads the vectors of the last tile any more
        Tree::share(params.tree, state, place);
        ptx::named_barrier(1 + group, 128);
      }
      parts.run(params, state, place, work, Config::kAlternates ? 0 : group, tile & 1, sums);
    }
    Tree::finish(params.tree, state, place);
  }
  // No block leaves while others may still copy into it or arrive at its barriers.
  ptx::cluster_sync();
}

}  // namespace gemm_core

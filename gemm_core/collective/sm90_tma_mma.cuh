// Mainloop of dense products on Hopper: tiles of A and B by TMA into swizzled shared memory, a ring
// of stages with a full and an empty mbarrier each, WGMMA from shared memory. One thread produces;
// two consumer warpgroups share the rows of a tile, or take tiles in turn, so that one stores while
// the other multiplies. The blocks of a cluster lie below each other in M and share their tile of
// B: each loads a part of it for all.
#pragma once
#include "gemm_core/atom/sm90_dense_wgmma.cuh"
#include "gemm_core/atom/sm90_descriptor.hpp"
#include "gemm_core/atom/sm90_tma.cuh"

namespace gemm_core {

// What distinguishes one compiled instance from another, beside element and majors.
struct Sm90DenseTile {
  int m = 128, n = 256, stages = 4;
  int cluster = 1;          // blocks that share B
  bool alternates = false;  // consumers take whole tiles in turn; else each half of the rows
  bool promotes = false;    // fp8: the sum of each stage joins an fp32 sum outside the tensor cores
};

template <class Element_, bool kKMajorA_, bool kKMajorB_, Sm90DenseTile kTile>
struct Sm90DenseConfig {
  using Element = Element_;
  using Mma = Sm90DenseWgmma<Element, kTile.n, kKMajorA_, kKMajorB_>;
  using Sum = typename Mma::Sum;
  static constexpr bool kKMajorA = kKMajorA_, kKMajorB = kKMajorB_, kPromotes = kTile.promotes;
  static constexpr int kTileM = kTile.m, kTileN = kTile.n, kStages = kTile.stages;
  static constexpr int kCluster = kTile.cluster;
  static constexpr int kSpanBytes = 128;  // of k (K-major) or of 64 rows (MN-major)
  static constexpr int kStageK = kSpanBytes / static_cast<int>(sizeof(Element));
  static constexpr bool kAlternates = kTile.alternates;
  static constexpr int kConsumers = 2;                                      // warpgroups
  static constexpr int kRows = kAlternates ? kTileM : kTileM / kConsumers;  // of a consumer
  static constexpr int kAtoms = kRows / 64;
  static constexpr int kThreads = (kConsumers + 1) * 128;
  static constexpr int kStageBytesA = kTileM * kSpanBytes, kStageBytesB = kTileN * kSpanBytes;
  static constexpr int kStageBytes = kStageBytesA + kStageBytesB;
  static constexpr int kStoreBytes = 16384;  // of a consumer: 64 rows of 256 bytes
  static constexpr int kSharedBytes =
      1024 + kStages * (kStageBytes + 16) + kConsumers * (kStoreBytes + 8);
  // Boxes of a bulk copy: MN-major operands are loaded in blocks of 64 rows.
  static constexpr int kMnBlock = 64;
  static constexpr int kBoxRowsA = kKMajorA ? kTileM : kMnBlock;
  static constexpr int kBoxRowsB = kKMajorB ? kTileN / kCluster : kMnBlock;

  static_assert(kRows % 64 == 0 && kAtoms * Mma::kAccumulators <= 128);
  static_assert(kSharedBytes <= 227 * 1024, "stages do not fit in shared memory");
  static_assert(kTileN / kCluster % kMnBlock == 0 && kBoxRowsB <= 256);

  // Registers move from the producer's warpgroup to the consumers'.
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;
};

// The part of the product that one tile takes.
struct DenseWork {
  int m = 0, n = 0, batch = 0;    // first row of the block, first column
  int k_begin = 0, k_count = 0;   // in stages
  int group = 0, next_group = 0;  // of a grouped product
  int unit = 0;                   // of a stream-K plan
  bool starts_tile = true, finishes_tile = true;
};

template <class Config>
struct Sm90TmaMma {
  using Mma = typename Config::Mma;
  using Sum = typename Config::Sum;
  using Sums = Sum[Config::kAtoms][Mma::kAccumulators];
  static constexpr int kStages = Config::kStages;

  // Stages, the consumers' room for stores, then the barriers: full[kStages], empty[kStages],
  // turn[kConsumers].
  std::uint32_t stages, barriers;

  __device__ __forceinline__ explicit Sm90TmaMma(std::uint32_t shared)
      : stages((shared + 1023) & ~1023u),
        barriers(stages + kStages * Config::kStageBytes +
                 Config::kConsumers * Config::kStoreBytes) {}

  __device__ __forceinline__ std::uint32_t full(int stage) const { return barriers + 8 * stage; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const {
    return barriers + 8 * (kStages + stage);
  }
  __device__ __forceinline__ std::uint32_t turn(int consumer) const {
    return barriers + 8 * (2 * kStages + consumer);
  }
  __device__ __forceinline__ std::uint32_t store_room(int consumer) const {
    return stages + kStages * Config::kStageBytes + consumer * Config::kStoreBytes;
  }

  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(full(i), 1);
      // Every warp that reads a stage, of every block that its copies come from or go to.
      ptx::barrier_init(empty(i),
                        (Config::kAlternates ? 1 : Config::kConsumers) * 4 * Config::kCluster);
    }
    for (int i = 0; i < Config::kConsumers; ++i) ptx::barrier_init(turn(i), 4);
    ptx::barrier_init_fence();
  }

  struct Position {
    int stage = 0;
    std::uint32_t parity = 0;
    __device__ __forceinline__ void advance() {
      if (++stage == kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
    __device__ __forceinline__ void advance(int steps) {
      const std::uint32_t to = static_cast<std::uint32_t>(stage + steps);
      parity ^= to / kStages & 1;
      stage = static_cast<int>(to % kStages);
    }
  };

  // --- producer: one thread ----------------------------------------------------------------------
  // Batch coordinates are multiplied by 0 for operands that all batches share.
  __device__ __forceinline__ void load(const CUtensorMap* a, const CUtensorMap* b, int batch_a,
                                       int batch_b, const DenseWork& work, std::uint32_t rank,
                                       Position& at) const {
#pragma unroll 1
    for (int i = 0; i < work.k_count; ++i) {
      const int k = (work.k_begin + i) * Config::kStageK;
      ptx::barrier_wait(empty(at.stage), at.parity);
      const std::uint32_t barrier = full(at.stage);
      ptx::barrier_arrive_expect(barrier, Config::kStageBytes);
      const std::uint32_t to_a = stages + at.stage * Config::kStageBytes;
#pragma unroll
      for (int row = 0; row < Config::kTileM; row += Config::kBoxRowsA) {
        const int m = work.m + row;
        ptx::tma_load_3d(to_a + row * Config::kSpanBytes, a, barrier, Config::kKMajorA ? k : m,
                         Config::kKMajorA ? m : k, batch_a);
      }
      constexpr int kPart = Config::kTileN / Config::kCluster;
      const std::uint32_t to_b = to_a + Config::kStageBytesA + rank * (kPart * Config::kSpanBytes);
#pragma unroll
      for (int row = 0; row < kPart; row += Config::kBoxRowsB) {
        const int n = work.n + static_cast<int>(rank) * kPart + row;
        const int c0 = Config::kKMajorB ? k : n, c1 = Config::kKMajorB ? n : k;
        const std::uint32_t to = to_b + row * Config::kSpanBytes;
        if constexpr (Config::kCluster == 1) {
          ptx::tma_load_3d(to, b, barrier, c0, c1, batch_b);
        } else {
          ptx::tma_multicast_3d(to, b, barrier, (1 << Config::kCluster) - 1, c0, c1, batch_b);
        }
      }
      at.advance();
    }
  }

  // --- consumer warpgroups -----------------------------------------------------------------------
  __device__ __forceinline__ void release(int stage, int lane) const {
    if constexpr (Config::kCluster == 1) {
      if (lane == 0) ptx::barrier_arrive(empty(stage));
    } else {
      if (lane < Config::kCluster) ptx::barrier_arrive_at(empty(stage), lane);
    }
  }

  __device__ __forceinline__ void multiply_stage(int stage, int first_row, int accumulate,
                                                 Sums& sums) const {
    const std::uint32_t from = stages + stage * Config::kStageBytes;
    const std::uint32_t from_a = from + first_row * Config::kSpanBytes;
    const std::uint32_t from_b = from + Config::kStageBytesA;
    constexpr std::uint32_t kBlock = Config::kMnBlock * Config::kSpanBytes;
    const std::uint64_t a =
        Config::kKMajorA ? wgmma_descriptor<128>(from_a) : wgmma_mn_descriptor(from_a, kBlock);
    const std::uint64_t b =
        Config::kKMajorB ? wgmma_descriptor<128>(from_b) : wgmma_mn_descriptor(from_b, kBlock);
    constexpr std::uint32_t kStepA = Config::kKMajorA ? 2 : 128,
                            kStepB = Config::kKMajorB ? 2 : 128;
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < Config::kStageK / Mma::kK; ++k) {
#pragma unroll
      for (int atom = 0; atom < Config::kAtoms; ++atom) {
        Mma::issue(sums[atom], moved_descriptor(a, k * kStepA + atom * (kBlock >> 4)),
                   moved_descriptor(b, k * kStepB), k == 0 ? accumulate : 1);
      }
    }
    ptx::wgmma_commit();
  }

  // Waits for the consumer's turn to multiply; `turns`: those that it has had.
  __device__ __forceinline__ void wait_for_turn(int consumer, std::uint32_t turns) const {
    // The first consumer's first turn comes at once.
    if constexpr (Config::kAlternates)
      ptx::barrier_wait(turn(consumer), (turns + 1 - consumer) & 1);
  }
  __device__ __forceinline__ void pass_turn(int consumer, int lane) const {
    if constexpr (Config::kAlternates) {
      if (lane == 0) ptx::barrier_arrive(turn(1 - consumer));
    }
  }

  // sums = the products of `k_count` stages, rows from `first_row` of the tile on; zeros where
  // there are none.
  __device__ __forceinline__ void multiply(int k_count, int consumer, int lane, Position& at,
                                           Sums& sums) const {
    const int first_row = Config::kAlternates ? 0 : consumer * Config::kRows;
    if (Config::kPromotes || k_count == 0) {
#pragma unroll
      for (auto& atom : sums) {
#pragma unroll
        for (Sum& sum : atom) sum = 0;
      }
    }
    if constexpr (Config::kPromotes) {
      static_assert(!Config::kPromotes || Config::kAtoms == 1);
      Sums part;
#pragma unroll 1
      for (int i = 0; i < k_count; ++i) {
        ptx::barrier_wait(full(at.stage), at.parity);
        multiply_stage(at.stage, first_row, 0, part);
        ptx::wgmma_wait<0>();
        release(at.stage, lane);
#pragma unroll
        for (int v = 0; v < Mma::kAccumulators; ++v) sums[0][v] += part[0][v];
        at.advance();
      }
    } else {
      int in_flight = -1;  // the stage that the WGMMAs not waited for read
#pragma unroll 1
      for (int i = 0; i < k_count; ++i) {
        ptx::barrier_wait(full(at.stage), at.parity);
        multiply_stage(at.stage, first_row, i > 0, sums);
        ptx::wgmma_wait<1>();
        if (in_flight >= 0) release(in_flight, lane);
        in_flight = at.stage;
        at.advance();
      }
      pass_turn(consumer, lane);
      ptx::wgmma_wait<0>();
      if (in_flight >= 0) release(in_flight, lane);
    }
  }
};

}  // namespace gemm_core

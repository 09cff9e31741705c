// Mainloop of products whose A is gathered, on Hopper: a warpgroup copies 16 bytes a thread from
// the rows that an index buffer names into the swizzled tile that WGMMA reads, zeros where there is
// no row; B comes by TMA, half of it from each block of a cluster, on the same barrier. Consumers
// are those of sm90_tma_mma.cuh.
#pragma once
#include "gemm_core/collective/slot_list.cuh"
#include "gemm_core/collective/sm90_tma_mma.cuh"

namespace gemm_core::ptx {

// 16 bytes, or zeros where `exists` is false; the L2 cache is asked for 256 around them.
__device__ __forceinline__ void gather_16(std::uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
}

}  // namespace gemm_core::ptx

namespace gemm_core {

// Element (m, k) is data[index[rows[m] + taps[k / run]]][k % run]; 0 where the index is negative or
// not below `limit`.
struct RowGather {
  const char* data = nullptr;
  std::int64_t pitch = 0;  // bytes between rows
  SlotList index, rows, taps;
  std::int64_t limit = 0;      // < 2^31
  int run_stages = 0;          // stages of k that a tap has
  std::int64_t run_bytes = 0;  // of a row that belong to a tap
  int m = 0;
};

template <class Config>
struct Sm90RowGatherMma : Sm90TmaMma<Config> {
  using Base = Sm90TmaMma<Config>;
  using Mma = typename Base::Mma;
  using Position = typename Base::Position;
  using Base::Base;
  static constexpr int kProducers = 128, kRows = Config::kTileM / 16;  // of a thread, 16 apart
  static_assert(Config::kKMajorA && Config::kKMajorB && Config::kTileM == 128);

  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < Base::kStages; ++i) {
      ptx::barrier_init(this->full(i), kProducers + 1);  // the copies, and the announcement of B
      ptx::barrier_init(this->empty(i),
                        (Config::kAlternates ? 1 : Config::kConsumers) * 4 * Config::kCluster);
    }
    for (int i = 0; i < Config::kConsumers; ++i) ptx::barrier_init(this->turn(i), 4);
    ptx::barrier_init_fence();
  }

  // Rows of the thread for one tap; -1: zeros.
  struct Indices {
    int row[kRows];
  };
  static __device__ __forceinline__ void fetch(const RowGather& a,
                                               const std::int64_t (&slots)[kRows], int tap,
                                               Indices& to) {
    const std::int64_t offset = a.taps[tap];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      to.row[i] = -1;
      if (slots[i] < 0) continue;
      const std::int64_t index = a.index[slots[i] + offset];
      if (index >= 0 && index < a.limit) to.row[i] = static_cast<int>(index);
    }
  }

  // The stages of one tile, by all threads of the producer's warpgroup.
  __device__ __forceinline__ void gather(const RowGather& a, const CUtensorMap* b,
                                         const DenseWork& work, std::uint32_t rank, int thread,
                                         Position& at) const {
    const int chunk = thread % 8, row = thread / 8;
    const std::uint32_t place = row * 128 + (chunk ^ (row & 7)) * 16;
    std::int64_t slots[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int m = work.m + row + 16 * i;
      slots[i] = m < a.m ? a.rows[m] : -1;
    }
    const int taps = (work.k_count + a.run_stages - 1) / a.run_stages;
    Indices now, next;
    fetch(a, slots, 0, now);
    int k = 0;
#pragma unroll 1
    for (int tap = 0; tap < taps; ++tap) {
      if (tap + 1 < taps) fetch(a, slots, tap + 1, next);  // on its way meanwhile
#pragma unroll 1
      for (int stage = 0; stage < a.run_stages; ++stage, ++k) {
        ptx::barrier_wait(this->empty(at.stage), at.parity);
        const std::uint32_t to = this->stages + at.stage * Config::kStageBytes;
        if (thread == 0) load_b(b, k * Config::kStageK, work.n, rank, at.stage, to);
        const std::int64_t offset = std::int64_t{stage} * Config::kSpanBytes + chunk * 16;
        const bool exists = offset < a.run_bytes;
        const char* const from = a.data + (exists ? offset : 0);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const int index = now.row[i];
          ptx::gather_16(to + place + i * 2048, from + (index < 0 ? 0 : index) * a.pitch,
                         exists && index >= 0);
        }
        ptx::barrier_arrive_after_copies(this->full(at.stage));
        at.advance();
      }
      now = next;
    }
  }

  // As Sm90TmaMma::multiply; what the copies wrote has to become visible to WGMMA.
  __device__ __forceinline__ void multiply(int k_count, int consumer, int lane, Position& at,
                                           typename Base::Sums& sums) const {
    const int first_row = Config::kAlternates ? 0 : consumer * Config::kRows;
    int in_flight = -1;  // the stage that the WGMMAs not waited for read
#pragma unroll 1
    for (int i = 0; i < k_count; ++i) {
      ptx::barrier_wait(this->full(at.stage), at.parity);
      ptx::fence_proxy_async();
      this->multiply_stage(at.stage, first_row, i > 0, sums);
      ptx::wgmma_wait<1>();
      if (in_flight >= 0) this->release(in_flight, lane);
      in_flight = at.stage;
      at.advance();
    }
    this->pass_turn(consumer, lane);
    ptx::wgmma_wait<0>();
    if (in_flight >= 0) this->release(in_flight, lane);
  }

 private:
  __device__ __forceinline__ void load_b(const CUtensorMap* b, int k, int n, std::uint32_t rank,
                                         int stage, std::uint32_t to) const {
    const std::uint32_t barrier = this->full(stage);
    ptx::barrier_arrive_expect(barrier, Config::kStageBytesB);
    constexpr int kPart = Config::kTileN / Config::kCluster;
    const std::uint32_t to_b = to + Config::kStageBytesA + rank * (kPart * Config::kSpanBytes);
    const int first = n + static_cast<int>(rank) * kPart;
    if constexpr (Config::kCluster == 1)
      ptx::tma_load_3d(to_b, b, barrier, k, first, 0);
    else
      ptx::tma_multicast_3d(to_b, b, barrier, (1 << Config::kCluster) - 1, k, first, 0);
  }
};

}  // namespace gemm_core

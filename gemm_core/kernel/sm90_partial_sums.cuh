// Partial sums of the tiles that a stream-K plan cuts along k: a unit leaves those of its
// unfinished tile in a slot of its own; the unit that finishes the tile waits for them and adds
// them in the order of k, so that results do not depend on who was first. Each consumer warpgroup
// has its part of a slot and a flag; flags are 0 between launches.
#pragma once
#include "gemm_core/atom/sm90_tma.cuh"
#include "gemm_core/kernel/stream_k.hpp"

namespace gemm_core {

struct PartialSums {
  void* sums = nullptr;            // [slot][part][sum][thread], 32 bits each
  std::uint32_t* flags = nullptr;  // [slot][part]
};

template <class Sum, int kSums>
struct PartialSlots {
  static constexpr int kChunk = 16;
  PartialSums partials;
  int part, parts;
  int thread, barrier;

  __device__ __forceinline__ Sum* slot(std::int64_t unit) const {
    return static_cast<Sum*>(partials.sums) + (unit * parts + part) * (kSums * 128) + thread;
  }
  __device__ __forceinline__ std::uint32_t* flag(std::int64_t unit) const {
    return partials.flags + unit * parts + part;
  }

  __device__ __forceinline__ void leave(std::int64_t unit, const Sum (&sums)[kSums]) const {
    Sum* const to = slot(unit);
#pragma unroll
    for (int i = 0; i < kSums; ++i) __stcg(to + i * 128, sums[i]);
    __threadfence();
    ptx::named_barrier(barrier, 128);
    if (thread == 0)
      asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag(unit)), "r"(1) : "memory");
  }

  // sums = ((first + second) + ...) + sums.
  __device__ __forceinline__ void add_earlier(const kernel::StreamKPlan& plan, std::int64_t unit,
                                              Sum (&sums)[kSums]) const {
    int earlier = 0;
    std::int64_t first = unit;
    for (bool starts = false; !starts; ++earlier) {
      first = plan.previous_unit(first);
      starts = plan.piece(first, plan.piece_count(first) - 1).starts_tile;
    }
    if (thread < earlier) {
      std::uint32_t* const from = flag(first + (unit - first) / earlier * thread);
      std::uint32_t ready = 0;
      while (ready == 0)
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(ready) : "l"(from) : "memory");
      *from = 0;
    }
    ptx::named_barrier(barrier, 128);
    const std::int64_t step = (unit - first) / earlier * parts * (kSums * 128);
    const Sum* const from = slot(first);
    // kChunk sums at a time, which move to the end so that the next ones come to the front: one
    // copy of the code.
#pragma unroll 1
    for (int chunk = 0; chunk < kSums / kChunk; ++chunk) {
      Sum total[kChunk];
#pragma unroll
      for (int i = 0; i < kChunk; ++i) total[i] = __ldcg(from + (chunk * kChunk + i) * 128);
#pragma unroll 1
      for (int piece = 1; piece < earlier; ++piece) {
#pragma unroll
        for (int i = 0; i < kChunk; ++i)
          total[i] += __ldcg(from + piece * step + (chunk * kChunk + i) * 128);
      }
#pragma unroll
      for (int i = 0; i < kChunk; ++i) total[i] += sums[i];
#pragma unroll
      for (int i = 0; i + kChunk < kSums; ++i) sums[i] = sums[i + kChunk];
#pragma unroll
      for (int i = 0; i < kChunk; ++i) sums[kSums - kChunk + i] = total[i];
    }
  }
};

}  // namespace gemm_core

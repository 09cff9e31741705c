// Counts of items by bucket: how stable moves of items to their buckets find where each goes.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "sparseconv/cuda/maps/step.cuh"

namespace sparseconv::cuda::buckets {

// Blocks of kThreads, each with at most kMostItems items; a thread sums four buckets next to each
// other.
inline constexpr int kThreads = 512, kWarps = kThreads / kWarp, kMostItems = 12 * kThreads;
inline constexpr int kBuckets = 2048, kThreadBuckets = kBuckets / kThreads;
static_assert(kThreadBuckets == 4, "their counts of 16 bits are read together");

// A block's counts as numbers of 16 bits.
__device__ inline void store_counts(const std::int32_t* counts, std::uint16_t* to) {
  const std::int32_t* const mine = counts + kThreadBuckets * threadIdx.x;
  reinterpret_cast<uint2*>(to)[threadIdx.x] =
      uint2{static_cast<std::uint32_t>(mine[0] | mine[1] << 16),
            static_cast<std::uint32_t>(mine[2] | mine[3] << 16)};
}

// Place of an item among those of its bucket in the warp's row of `places`, which counts it. All
// threads of a warp call it together.
__device__ inline int next_place(std::uint16_t* places, int bucket, bool is_there) {
  const unsigned peers = __match_any_sync(~0u, bucket);
  const int before = __popc(peers & ((1u << (threadIdx.x % kWarp)) - 1));
  const int seen = is_there ? places[bucket] : 0;
  __syncwarp();
  if (is_there && before == 0) places[bucket] = static_cast<std::uint16_t>(seen + __popc(peers));
  __syncwarp();
  return seen + before;
}

struct MoveShared {
  // Counts of a warp, then of the warps before it.
  alignas(16) std::uint16_t places[kWarps][kBuckets];
  std::int32_t begin[kBuckets];  // of the block's items in what is moved to
  std::int32_t warp_sums[kWarps];
};

// Where this block's items of each bucket begin, from the counts [blocks][kBuckets] of all blocks;
// with `bucket_begin` [kBuckets + 1] also where each bucket begins and the last ends.
__device__ inline void place_buckets(const std::uint16_t* counts_of_blocks, int blocks, int block,
                                     std::int32_t* bucket_begin, MoveShared& shared) {
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;
  const auto* const counts = reinterpret_cast<const uint2*>(counts_of_blocks) + thread;
  std::int32_t before[kThreadBuckets] = {}, all[kThreadBuckets] = {};
  constexpr int kAtOnce = 8;
  static_assert(kAtOnce * kMostItems <= 0xffff, "two counts are added as one number");
  const auto add = [](std::int32_t(&to)[kThreadBuckets], const uint2& counts) {
    to[0] += static_cast<std::int32_t>(counts.x & 0xffff);
    to[1] += static_cast<std::int32_t>(counts.x >> 16);
    to[2] += static_cast<std::int32_t>(counts.y & 0xffff);
    to[3] += static_cast<std::int32_t>(counts.y >> 16);
  };
  for (int first = 0; first < blocks; first += kAtOnce) {
    uint2 word[kAtOnce], earlier{0, 0}, some{0, 0};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      word[j] = first + j < blocks ? counts[(first + j) * kThreads] : uint2{0, 0};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (first + j == block) earlier = some;
      some.x += word[j].x;
      some.y += word[j].y;
    }
    if (first + kAtOnce <= block) earlier = some;
    add(before, earlier);
    add(all, some);
  }
  const std::int32_t sum = all[0] + all[1] + all[2] + all[3];
  std::int32_t through = sum;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const std::int32_t earlier = __shfl_up_sync(~0u, through, step);
    if (lane >= step) through += earlier;
  }
  if (lane == kWarp - 1) shared.warp_sums[warp] = through;
  __syncthreads();
  std::int32_t first =
      __reduce_add_sync(~0u, lane < warp ? shared.warp_sums[lane % kWarps] : 0) + through - sum;
#pragma unroll
  for (int k = 0; k < kThreadBuckets; ++k) {
    shared.begin[kThreadBuckets * thread + k] = first + before[k];
    if (bucket_begin != nullptr) bucket_begin[kThreadBuckets * thread + k] = first;
    first += all[k];
  }
  if (bucket_begin != nullptr && thread == kThreads - 1) bucket_begin[kBuckets] = first;
}

// Counts of the warps become those of the warps before.
__device__ inline void add_warps(MoveShared& shared) {
  auto* const words = reinterpret_cast<uint2*>(shared.places) + threadIdx.x;
  uint2 count[kWarps], sum{0, 0};  // of 16 bits: a block has fewer items
#pragma unroll
  for (int w = 0; w < kWarps; ++w) count[w] = words[w * kThreads];
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    words[w * kThreads] = sum;
    sum.x += count[w].x;
    sum.y += count[w].y;
  }
}

}  // namespace sparseconv::cuda::buckets

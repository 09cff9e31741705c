// Sorts buckets of rows by their keys, and joins the masks of groups of slots.
#pragma once
#include "sparseconv/cuda/maps/key_samples.cuh"
#include "sparseconv/cuda/maps/slot_steps.cuh"

namespace sparseconv::cuda {

inline constexpr int kJoinBlocks = 64, kMostBucketThreads = 256;

// How buckets are sorted, by rows of the largest job: threads, and room for the rows of a bucket,
// beyond which it is slow. A bucket has the rows of two samples; there is room for those of 16,
// which two buckets of a million exceed.
struct BucketLaunch {
  unsigned rows, threads;
};
inline BucketLaunch bucket_launch(std::int64_t rows) {
  if (rows <= 64 * kSamples) return {1024, 128};
  return rows <= 128 * kSamples ? BucketLaunch{2048, 256} : BucketLaunch{4096, 256};
}

namespace buckets {

// Adds the taps of rows [begin, end) of an order in one piece to those of their groups of slots.
__device__ inline void join_rows(const OrderJob& order, std::int32_t begin, std::int32_t end) {
  const int lane = threadIdx.x % kWarp;
  for (std::int32_t first = begin + static_cast<std::int32_t>(threadIdx.x) - lane; first < end;
       first += static_cast<int>(blockDim.x)) {
    const std::int32_t slot = first + lane, group = first / gemm_core::kSlotGroup;
    const std::uint32_t mask = slot < end ? order.masks[order.sorted[slot]] : 0;
    const bool is_next = slot / gemm_core::kSlotGroup != group;
    warp_or(order.group_masks + group, is_next ? 0 : mask);
    if (__any_sync(~0u, is_next && mask != 0))
      warp_or(order.group_masks + group + 1, is_next ? mask : 0);
  }
}

// The same for rows of one key, often thousands: as long as a key is all of a mask, one tells all.
__device__ inline void join_equal_rows(const OrderJob& order, std::int32_t begin,
                                       std::int32_t end) {
  if (begin == end) return;
  if (order.source.taps > kSegmentShift) {
    join_rows(order, begin, end);
    return;
  }
  const std::uint32_t mask = order.masks[order.sorted[begin]];
  constexpr std::int32_t kGroup = gemm_core::kSlotGroup;
  for (std::int32_t group = begin / kGroup + static_cast<std::int32_t>(threadIdx.x);
       group <= (end - 1) / kGroup; group += static_cast<int>(blockDim.x))
    atomic_or(order.group_masks + group, mask);
}

// The same for the slots of a job that was not sampled, by some blocks.
__device__ inline void join_slots(const OrderSlots& slots, int job, int block, int blocks) {
  const std::int32_t size = slots.size(job);  // whole groups
  for (std::int32_t slot =
           block * static_cast<int>(blockDim.x) + static_cast<std::int32_t>(threadIdx.x);
       slot < size; slot += blocks * static_cast<int>(blockDim.x)) {
    const OrderSlots::Place at = slots.place(slots.orders[job], slot);
    slots.join(slots.orders[job], slot,
               at.rank < 0 ? 0 : slots.orders[job].masks[at.rank] & at.taps);
  }
}

}  // namespace buckets

// Blocks that join the masks of jobs that were not sampled.
struct JoinBlocks {
  std::uint8_t job[kMaxJobs];
  std::int32_t count = 0;
};

// A block a bucket between splitters, which it sorts; it adds the taps of its rows, and of those
// whose keys equal the next splitter, to those of their groups. Then kJoinBlocks each of the jobs
// whose rows need no sorting, for their taps.
template <int = 0>
__global__ void __launch_bounds__(kMostBucketThreads)
    finish_orders(const __grid_constant__ OrderSlots slots,
                  const __grid_constant__ SampledJobs jobs,
                  const __grid_constant__ JoinBlocks joined, int room) {
  extern __shared__ __align__(16) std::uint64_t items[];
  wait_and_go_on();
  if (const int joins = static_cast<int>(blockIdx.x) - jobs.count * kSplitters; joins >= 0) {
    buckets::join_slots(slots, joined.job[joins / kJoinBlocks], joins % kJoinBlocks, kJoinBlocks);
    return;
  }
  const OrderJob& order = slots.orders[jobs.job[blockIdx.x / kSplitters]];
  const int bucket = 2 * static_cast<int>(blockIdx.x % kSplitters), thread = threadIdx.x;
  const std::int32_t begin = order.bucket_begin[bucket],
                     rows = order.bucket_begin[bucket + 1] - begin,
                     end = order.bucket_begin[bucket + 2];
  const KeyedRank* const from = order.under_way + begin;
  std::int32_t* const to = order.sorted + begin;
  // Ranks ascend within a bucket: with them below the key, no two are equal.
  const auto item = [&](std::int32_t i) {
    const KeyedRank row = from[i];
    return std::uint64_t{row.key} << 32 | static_cast<std::uint32_t>(row.rank);
  };
  if (rows > room) {
    for (std::int32_t i = thread; i < rows; i += static_cast<int>(blockDim.x)) {
      const std::uint64_t mine = item(i);
      std::int32_t before = 0;
      for (std::int32_t j = 0; j < rows; ++j) before += item(j) < mine ? 1 : 0;
      to[before] = static_cast<std::int32_t>(mine);
    }
  } else {
    int size = 1;
    while (size < rows) size *= 2;
    for (int i = thread; i < size; i += static_cast<int>(blockDim.x))
      items[i] = i < rows ? item(i) : ~0ull;
    __syncthreads();
    for (int run = 2; run <= size; run *= 2) {
      for (int distance = run / 2; distance > 0; distance /= 2) {
        // Pairs of a warp lie within 64 items of its own where they are near.
        if (distance >= kWarp)
          __syncthreads();
        else
          __syncwarp();
        for (int pair = thread; pair < size / 2; pair += static_cast<int>(blockDim.x)) {
          const int low = 2 * pair - (pair & (distance - 1)), high = low + distance;
          const std::uint64_t a = items[low], b = items[high];
          if ((a > b) != ((low & run) == 0)) continue;
          items[low] = b;
          items[high] = a;
        }
      }
    }
    __syncthreads();
    for (int i = thread; i < rows; i += static_cast<int>(blockDim.x))
      to[i] = static_cast<std::int32_t>(items[i]);
  }
  __syncthreads();  // ranks are there
  buckets::join_rows(order, begin, begin + rows);
  buckets::join_equal_rows(order, begin + rows, end);
}

}  // namespace sparseconv::cuda

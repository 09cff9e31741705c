// Stable sort of 64-bit keys with values, for the number of keys that one frame has: four launches
// where a radix sort of 55 bits takes 21. Keys fall between splitters, which are sorted keys of a
// sample; they are dealt to buckets, stably, by counting, and a block sorts each bucket. Keys that
// equal a splitter have buckets to themselves, so that those to be sorted are few however often
// single keys occur (Leischner, Osipov, Sanders: GPU sample sort, IPDPS 2010).
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "gemm_core/base/cuda/launch.cuh"
#include "sparseconv/cuda/maps/bucket_counts.cuh"
#include "sparseconv/cuda/maps/step.cuh"
#include "sparseconv/cuda/overlap.cuh"

namespace sparseconv::cuda {

// Beyond so many keys buckets are too long to be sorted by comparing all with all.
inline constexpr std::int64_t kMostSampleSorted = std::int64_t{1} << 19;

namespace sampled {

using buckets::kBuckets, buckets::kThreads, buckets::kWarps, buckets::MoveShared;
inline constexpr int kSplitters = kBuckets / 2, kSamples = 2 * kSplitters;
inline constexpr int kSampleBlocks = 64, kSampleThreads = 1024;
inline constexpr int kSampleLanes = kSampleThreads / (kSamples / kSampleBlocks);
static_assert(kSampleLanes == kWarp && kSamples == 2 * kSampleThreads);
inline constexpr int kHeld = 6, kBlockItems = kThreads * kHeld, kWarpItems = kWarp * kHeld;
static_assert(kBlockItems <= buckets::kMostItems);
inline constexpr int kSortThreads = 256, kSharedKeys = 2048;

struct Job {
  Sorted<std::uint64_t> from, to;
  ItemCount number;
  SortBits bits;
  int blocks = 0;
  std::uint64_t* splitters = nullptr;    // [kSplitters]
  std::int32_t* bucket_begin = nullptr;  // [kBuckets + 1]
  std::uint16_t* counts = nullptr;       // [blocks][kBuckets]
  std::uint16_t* buckets = nullptr;      // [capacity]

  __device__ std::uint64_t rank_key(std::uint64_t key) const {
    const std::uint64_t looked_at = bits.of(key);
    return bits.count() < 64 ? looked_at & ((std::uint64_t{1} << bits.count()) - 1) : looked_at;
  }
};

// Each of kSampleBlocks finds the places of some samples among all; every second one is a splitter.
template <int = 0>
__global__ void __launch_bounds__(kSampleThreads) find_splitters(const __grid_constant__ Job job) {
  __shared__ alignas(16) std::uint64_t keys[kSamples];
  wait_and_go_on();
  const int thread = threadIdx.x;
  const std::int32_t items = job.number.items();
  // Anywhere in the i-th of as many runs of items, so that no pattern hides.
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const auto i = static_cast<std::uint32_t>(thread + k * kSampleThreads);
    const std::uint64_t at = static_cast<std::uint64_t>(i) << 16 | i * 2654435761u >> 16;
    const std::uint64_t item =
        at * static_cast<std::uint32_t>(items) / (std::uint64_t{kSamples} << 16);
    keys[i] = items > 0 ? job.rank_key(job.from.keys[item]) : 0;
  }
  __syncthreads();
  const int sample =
      static_cast<int>(blockIdx.x) * (kSamples / kSampleBlocks) + thread / kSampleLanes;
  const std::uint64_t key = keys[sample];
  int place = 0;
#pragma unroll 4
  for (int first = 2 * (thread % kSampleLanes); first < kSamples; first += 2 * kSampleLanes) {
    const ulonglong2 others = *reinterpret_cast<const ulonglong2*>(keys + first);
    place += others.x < key || (others.x == key && first < sample) ? 1 : 0;
    place += others.y < key || (others.y == key && first + 1 < sample) ? 1 : 0;
  }
  place = __reduce_add_sync(~0u, place);
  // The last splitter, above all keys, is none.
  if (thread % kSampleLanes == 0 && place % 2 == 1)
    job.splitters[place / 2] = place + 1 < kSamples ? key : ~std::uint64_t{0};
}

// Twice the number of splitters below the key; one more where it equals the next.
__device__ inline int bucket_of(const std::uint64_t* splitters, std::uint64_t key) {
  int below = 0;
#pragma unroll
  for (int step = kSplitters / 2; step > 0; step /= 2)
    below += splitters[below + step - 1] < key ? step : 0;
  return 2 * below + (splitters[below] == key ? 1 : 0);
}

template <int = 0>
__global__ void __launch_bounds__(kThreads) count(const __grid_constant__ Job job) {
  __shared__ std::uint64_t splitters[kSplitters];
  __shared__ std::int32_t counts[kBuckets];
  const int thread = threadIdx.x;
  for (int i = thread; i < kBuckets; i += kThreads) counts[i] = 0;
  wait_and_go_on();
  const std::int32_t items = job.number.items(),
                     first = static_cast<std::int32_t>(blockIdx.x) * kBlockItems + thread;
  std::uint64_t key[kHeld];
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const std::int32_t i = first + j * kThreads;
    key[j] = i < items ? job.from.keys[i] : 0;
  }
  for (int i = thread; i < kSplitters; i += kThreads) splitters[i] = job.splitters[i];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const std::int32_t i = first + j * kThreads;
    if (i >= items) break;
    const int bucket = bucket_of(splitters, job.rank_key(key[j]));
    job.buckets[i] = static_cast<std::uint16_t>(bucket);
    atomicAdd(counts + bucket, 1);
  }
  __syncthreads();
  buckets::store_counts(counts, job.counts + std::int64_t{blockIdx.x} * kBuckets);
}

// Items to their buckets, in turn.
template <int = 0>
__global__ void __launch_bounds__(kThreads) move(const __grid_constant__ Job job) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<MoveShared*>(memory);
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;
  auto* const words = reinterpret_cast<int4*>(shared.places);
  for (unsigned i = thread; i < sizeof(shared.places) / sizeof(int4); i += kThreads)
    words[i] = int4{0, 0, 0, 0};
  wait_and_go_on();
  const std::int32_t items = job.number.items();
  // Block 0 says where buckets begin, also where there is nothing to move.
  if (blockIdx.x > 0 && static_cast<std::int32_t>(blockIdx.x) * kBlockItems >= items) return;
  const std::int32_t begin =
      static_cast<std::int32_t>(blockIdx.x) * kBlockItems + warp * kWarpItems + lane;
  int bucket[kHeld], place[kHeld];
  std::uint64_t key[kHeld];
  std::int32_t value[kHeld];
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const std::int32_t i = begin + j * kWarp;
    bucket[j] = i < items ? job.buckets[i] : kBuckets;
    key[j] = i < items ? job.from.keys[i] : 0;
    value[j] = i < items ? job.from.values[i] : 0;
  }
  // A barrier: `places` are clear.
  buckets::place_buckets(job.counts, (items + kBlockItems - 1) / kBlockItems,
                         static_cast<int>(blockIdx.x), blockIdx.x == 0 ? job.bucket_begin : nullptr,
                         shared);
#pragma unroll
  for (int j = 0; j < kHeld; ++j)
    place[j] = buckets::next_place(shared.places[warp], bucket[j], bucket[j] < kBuckets);
  __syncthreads();
  buckets::add_warps(shared);
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    if (bucket[j] == kBuckets) continue;
    const std::int32_t at = shared.begin[bucket[j]] + shared.places[warp][bucket[j]] + place[j];
    job.to.keys[at] = key[j];
    job.to.values[at] = value[j];
  }
}

// A block a bucket between splitters: an item goes behind all that are below it, equal ones in
// turn.
template <int = 0>
__global__ void __launch_bounds__(kSortThreads) finish(const __grid_constant__ Job job) {
  __shared__ alignas(16) std::uint64_t shared_keys[kSharedKeys];
  wait_and_go_on();
  const int bucket = 2 * static_cast<int>(blockIdx.x), thread = threadIdx.x;
  const std::int32_t begin = job.bucket_begin[bucket], items = job.bucket_begin[bucket + 1] - begin;
  if (items < 2) return;
  std::uint64_t* const keys = job.to.keys + begin;
  std::int32_t* const values = job.to.values + begin;
  const bool is_shared = items <= kSharedKeys;
  if (is_shared) {
    for (std::int32_t i = thread; i < items; i += kSortThreads)
      shared_keys[i] = job.rank_key(keys[i]);
    __syncthreads();
  }
  const auto place_of = [&](std::int32_t i, std::uint64_t mine) {
    std::int32_t place = 0;
    if (is_shared) {
#pragma unroll 8
      for (std::int32_t j = 0; j < items; ++j)
        place += shared_keys[j] < mine || (shared_keys[j] == mine && j < i) ? 1 : 0;
    } else {
      for (std::int32_t j = 0; j < items; ++j) {
        const std::uint64_t other = job.rank_key(keys[j]);
        place += other < mine || (other == mine && j < i) ? 1 : 0;
      }
    }
    return place;
  };
  // What is done with `from` has room for the items on their way.
  Sorted<std::uint64_t> between{job.from.keys + begin, job.from.values + begin};
  for (std::int32_t i = thread; i < items; i += kSortThreads) {
    const std::uint64_t key = keys[i];
    const std::int32_t place = place_of(i, job.rank_key(key));
    between.keys[place] = key;
    between.values[place] = values[i];
  }
  __syncthreads();
  for (std::int32_t i = thread; i < items; i += kSortThreads) {
    keys[i] = between.keys[i];
    values[i] = between.values[i];
  }
}

// The parts of scratch memory, one after the other.
inline std::size_t lay_out(Job& job, std::uint8_t* memory) {
  std::size_t used = 0;
  const auto take = [&]<class T>(T*& array, std::int64_t count) {
    array = reinterpret_cast<T*>(memory + used);
    used += (static_cast<std::size_t>(count) * sizeof(T) + 15) / 16 * 16;
  };
  take(job.splitters, kSplitters);
  take(job.bucket_begin, kBuckets + 1);
  take(job.counts, std::int64_t{job.blocks} * kBuckets);
  take(job.buckets, job.number.capacity);
  return used;
}

}  // namespace sampled

inline bool suits_sample_sort(const ItemCount& number) {
  return number.capacity <= kMostSampleSorted;
}

// Once a device, before sample_sort.
inline void allow_sample_sort() {
  base::cuda::allow_shared_memory(sampled::move<>, sizeof(sampled::MoveShared));
}

// Bytes of scratch memory for so many keys.
inline std::size_t sample_sort_bytes(const ItemCount& number) {
  sampled::Job job;
  job.number = number;
  job.blocks =
      static_cast<int>((number.capacity + sampled::kBlockItems - 1) / sampled::kBlockItems);
  return sampled::lay_out(job, nullptr);
}

// Leaves what was sorted in `to`; `from` is used on the way.
inline Sorted<std::uint64_t> sample_sort(Sorted<std::uint64_t> from, Sorted<std::uint64_t> to,
                                         const ItemCount& number, const SortBits& bits,
                                         std::uint8_t* scratch, cudaStream_t stream) {
  using base::cuda::launch;
  sampled::Job job{.from = from, .to = to, .number = number, .bits = bits};
  job.blocks =
      static_cast<int>((number.capacity + sampled::kBlockItems - 1) / sampled::kBlockItems);
  sampled::lay_out(job, scratch);
  if (job.blocks == 0) return to;
  const dim3 blocks(static_cast<unsigned>(job.blocks)), threads(sampled::kThreads);
  launch(sampled::find_splitters<>,
         {.grid = dim3(sampled::kSampleBlocks),
          .block = dim3(sampled::kSampleThreads),
          .overlap = true},
         stream, job);
  launch(sampled::count<>, {.grid = blocks, .block = threads, .overlap = true}, stream, job);
  launch(sampled::move<>,
         {.grid = blocks,
          .block = threads,
          .shared_bytes = sizeof(sampled::MoveShared),
          .overlap = true},
         stream, job);
  launch(sampled::finish<>,
         {.grid = dim3(sampled::kSplitters), .block = dim3(sampled::kSortThreads), .overlap = true},
         stream, job);
  return to;
}

}  // namespace sparseconv::cuda

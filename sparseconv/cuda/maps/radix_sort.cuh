// Stable sort of keys with values, whose number the device alone may know. A library sort is made
// for millions: its tiles are so large that most of the GPU waits for a hundred thousand. Here a
// pass of eight bits is three short launches over tiles of 1024 items: digit counts of each tile,
// their prefix sums, and the scatter. (Counting the next digit while scattering saves a launch but
// costs ten times as much: tap masks make most digits equal, and so most atomic additions meet.)
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "gemm_core/base/cuda/launch.cuh"
#include "sparseconv/cuda/maps/step.cuh"
#include "sparseconv/cuda/overlap.cuh"

namespace sparseconv::cuda {

inline constexpr int kSortThreads = 256, kSortWarps = kSortThreads / 32, kSortItems = 4;
inline constexpr int kSortTile = kSortThreads * kSortItems;
inline constexpr int kDigits = 256;
static_assert(kDigits == kSortThreads, "thread d owns digit d");

struct SortPlan {
  ItemCount number;
  std::int32_t tiles = 0;  // at most; pitch of the counts of a digit
  __device__ std::int32_t used_tiles() const {
    return (number.items() + kSortTile - 1) / kSortTile;
  }
};
inline SortPlan sort_plan(const ItemCount& number) {
  return {number, static_cast<std::int32_t>((number.capacity + kSortTile - 1) / kSortTile)};
}
// Scratch: counts [kDigits][tiles], then totals [kDigits].
inline std::int64_t sort_scratch_counts(const ItemCount& number) {
  return static_cast<std::int64_t>(kDigits) * (sort_plan(number).tiles + 1);
}

// One pass looks at eight of the bits.
struct SortPass {
  SortBits bits;
  int shift = 0;
  template <class Key>
  __device__ int digit_of(Key key) const {
    return static_cast<int>(bits.of(key) >> shift) & (kDigits - 1);
  }
};

template <class Key>
__global__ void __launch_bounds__(kSortThreads)
    radix_count(const Key* keys, SortPass pass, SortPlan plan, std::int32_t* counts) {
  __shared__ std::int32_t bins[kSortWarps][kDigits];
  wait_and_go_on();
  const std::int32_t items = plan.number.items(),
                     begin = static_cast<std::int32_t>(blockIdx.x) * kSortTile;
  if (begin >= items) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) bins[w][threadIdx.x] = 0;
  __syncthreads();
  // Keys of a tile are often equal: lanes with the same digit count as one.
#pragma unroll
  for (int j = 0; j < kSortItems; ++j) {
    const std::int32_t i = begin + j * kSortThreads + static_cast<std::int32_t>(threadIdx.x);
    const int digit = i < items ? pass.digit_of(keys[i]) : kDigits;
    const unsigned peers = __match_any_sync(~0u, digit);
    if (i < items && (peers & ((1u << lane) - 1)) == 0) bins[warp][digit] += __popc(peers);
    __syncwarp();
  }
  __syncthreads();
  std::int32_t sum = 0;
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) sum += bins[w][threadIdx.x];
  counts[static_cast<std::int64_t>(threadIdx.x) * plan.tiles + blockIdx.x] = sum;
}

// Sum over the threads before this one; every thread gets the sum over all in `total`.
__device__ inline std::int32_t exclusive_sum(std::int32_t value, std::int32_t* warp_sums,
                                             std::int32_t& total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  std::int32_t inclusive = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const std::int32_t before = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += before;
  }
  if (lane == 31) warp_sums[warp] = inclusive;
  __syncthreads();
  std::int32_t warps_before = 0;
  total = 0;
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) {
    if (w < warp) warps_before += warp_sums[w];
    total += warp_sums[w];
  }
  __syncthreads();
  return warps_before + inclusive - value;
}

// Block d: counts of digit d become sums over the tiles before.
template <int = 0>
__global__ void __launch_bounds__(kSortThreads)
    radix_sum_tiles(SortPlan plan, std::int32_t* counts) {
  __shared__ std::int32_t warp_sums[kSortWarps];
  wait_and_go_on();
  const std::int32_t tiles = plan.used_tiles();
  std::int32_t* const row = counts + static_cast<std::int64_t>(blockIdx.x) * plan.tiles;
  std::int32_t sum = 0;
  for (std::int32_t first = 0; first < tiles; first += kSortThreads) {
    const std::int32_t tile = first + static_cast<std::int32_t>(threadIdx.x);
    const std::int32_t value = tile < tiles ? row[tile] : 0;
    std::int32_t total = 0;
    const std::int32_t before = exclusive_sum(value, warp_sums, total);
    if (tile < tiles) row[tile] = sum + before;
    sum += total;
  }
  if (threadIdx.x == 0) counts[static_cast<std::int64_t>(kDigits) * plan.tiles + blockIdx.x] = sum;
}

template <class Key>
__global__ void __launch_bounds__(kSortThreads)
    radix_scatter(const Key* keys, const std::int32_t* values, Key* to_keys,
                  std::int32_t* to_values, SortPass pass, SortPlan plan,
                  const std::int32_t* counts) {
  __shared__ std::int32_t
      places[kSortWarps][kDigits];  // counts of a warp, then where its next item of a digit goes
  __shared__ std::int32_t warp_sums[kSortWarps];
  wait_and_go_on();
  const std::int32_t items = plan.number.items();
  if (static_cast<std::int32_t>(blockIdx.x) * kSortTile >= items) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) places[w][threadIdx.x] = 0;
  __syncthreads();

  // Ranks within the warp. A warp owns consecutive items, 32 at a time, so that equal digits keep
  // their order.
  const std::int32_t begin =
      static_cast<std::int32_t>(blockIdx.x) * kSortTile + warp * 32 * kSortItems + lane;
  Key key[kSortItems];
  std::int32_t rank[kSortItems];
#pragma unroll
  for (int j = 0; j < kSortItems; ++j)
    key[j] = begin + j * 32 < items ? keys[begin + j * 32] : Key{};
#pragma unroll
  for (int j = 0; j < kSortItems; ++j) {
    const bool is_item = begin + j * 32 < items;
    const int digit =
        is_item ? pass.digit_of(key[j]) : kDigits;  // lanes without an item match each other only
    const unsigned peers = __match_any_sync(~0u, digit);
    const int before = __popc(peers & ((1u << lane) - 1));
    const std::int32_t seen = is_item ? places[warp][digit] : 0;
    __syncwarp();
    if (is_item && before == 0) places[warp][digit] = seen + __popc(peers);
    __syncwarp();
    rank[j] = seen + before;
  }
  __syncthreads();

  // Thread d: first place of digit d in this tile, then of each warp.
  std::int32_t all = 0;
  std::int32_t place =
      exclusive_sum(counts[static_cast<std::int64_t>(kDigits) * plan.tiles + threadIdx.x],
                    warp_sums, all) +
      counts[static_cast<std::int64_t>(threadIdx.x) * plan.tiles + blockIdx.x];
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) {
    const std::int32_t count = places[w][threadIdx.x];
    places[w][threadIdx.x] = place;
    place += count;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kSortItems; ++j) {
    const std::int32_t i = begin + j * 32;
    if (i >= items) continue;
    const std::int32_t to = places[warp][pass.digit_of(key[j])] + rank[j];
    to_keys[to] = key[j];
    to_values[to] = values[i];
  }
}

// Works to and fro between the two pairs of arrays; the result says where it
// ended. `counts`: sort_scratch_counts(number).
template <class Key>
Sorted<Key> radix_sort(Sorted<Key> from, Sorted<Key> to, const ItemCount& number,
                       const SortBits& bits, std::int32_t* counts, cudaStream_t stream) {
  using base::cuda::launch;
  const SortPlan plan = sort_plan(number);
  const dim3 tiles(static_cast<unsigned>(plan.tiles)), threads(kSortThreads);
  const dim3 digits(plan.tiles > 0 ? kDigits : 0);
  for (int shift = 0; shift < bits.count(); shift += 8) {
    const SortPass pass{bits, shift};
    launch(radix_count<Key>, {.grid = tiles, .block = threads, .overlap = true}, stream, from.keys,
           pass, plan, counts);
    launch(radix_sum_tiles<>, {.grid = digits, .block = threads, .overlap = true}, stream, plan,
           counts);
    launch(radix_scatter<Key>, {.grid = tiles, .block = threads, .overlap = true}, stream,
           from.keys, from.values, to.keys, to.values, pass, plan, counts);
    std::swap(from, to);
  }
  return from;
}

}  // namespace sparseconv::cuda

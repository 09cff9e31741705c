// Puts the rows of maps in order, the whole GPU at work: rows are dealt to buckets of ascending
// keys, stably, by counting. Keys of few bits are buckets of their own. Others fall between
// splitters, sorted keys of a sample, and those of each bucket are sorted by a block: keys that
// equal a splitter have buckets to themselves, so that those of a bucket to be sorted are few
// however often single keys occur. All maps of a frame take part in each launch.
#pragma once
#include <algorithm>

#include "gemm_core/base/cuda/launch.cuh"
#include "sparseconv/cuda/maps/bucket_counts.cuh"
#include "sparseconv/cuda/maps/bucket_sort.cuh"
#include "sparseconv/cuda/maps/key_samples.cuh"
#include "sparseconv/cuda/overlap.cuh"

namespace sparseconv::cuda {

inline constexpr int kOrderThreads = buckets::kThreads, kOrderWarps = buckets::kWarps;
static_assert(kOrderBuckets == buckets::kBuckets && kMostBlockRows <= buckets::kMostItems);
// Parts of a launch (all rows of a map, or those of a plane), each with a run of thread blocks.
struct OrderParts {
  struct Part {
    std::uint8_t job, part;
    std::uint16_t first_block;
  };
  Part item[3 * kMaxJobs];
  std::int32_t count = 0;
  __device__ Part of_block(unsigned block) const {
    int part = 0;
    while (part + 1 < count && block >= item[part + 1].first_block) ++part;
    return item[part];
  }
};
namespace buckets {

// Rows of a warp.
struct WarpRows {
  std::int32_t begin, end;
  __device__ static WarpRows of(const OrderJob& order, int block, int warp) {
    const std::int32_t rows = order.source.output.size(), warps = order.blocks * kOrderWarps;
    const std::int32_t share = ((rows + warps - 1) / warps + kWarp - 1) / kWarp * kWarp;
    const std::int64_t at = std::int64_t{share} * (block * kOrderWarps + warp);
    const auto begin = static_cast<std::int32_t>(at < rows ? at : rows);
    return {begin, begin + share < rows ? begin + share : rows};
  }
};

// Twice the number of splitters below the key; one more where it equals the next.
__device__ inline int bucket_of(const std::uint32_t* splitters, std::uint32_t key) {
  int below = 0;
#pragma unroll
  for (int step = kSplitters / 2; step > 0; step /= 2)
    below += splitters[below + step - 1] < key ? step : 0;
  return 2 * below + (splitters[below] == key ? 1 : 0);
}

}  // namespace buckets

// Buckets of the rows, and how many of each block's rows each has.
template <int = 0>
__global__ void __launch_bounds__(kOrderThreads)
    count_buckets(const __grid_constant__ OrderJobs orders,
                  const __grid_constant__ OrderParts parts) {
  __shared__ buckets::KeyTable table;
  __shared__ std::uint32_t splitters[kSplitters];
  __shared__ std::int32_t counts[kOrderBuckets];
  wait_and_go_on();
  const OrderParts::Part which = parts.of_block(blockIdx.x);
  const OrderJob& order = orders[which.job];
  const CountedPart part = CountedPart::of(order, which.part);
  const int block = static_cast<int>(blockIdx.x) - which.first_block, thread = threadIdx.x;
  for (int i = thread; i < kOrderBuckets; i += kOrderThreads) counts[i] = 0;
  const bool is_sampled = order.is_sampled();
  for (int i = thread; is_sampled && i < kSplitters; i += kOrderThreads)
    splitters[i] = order.splitters[i];
  for (int i = thread; i < 4 * 256; i += kOrderThreads) table.word(i) = order.key_table[i];
  __syncthreads();

  const std::int32_t begin = buckets::WarpRows::of(order, block, 0).begin,
                     end = buckets::WarpRows::of(order, block, kOrderWarps - 1).end;
  std::uint16_t* const of_rows =
      order.buckets + std::int64_t{which.part} * order.source.output.capacity;
  constexpr int kAtOnce = 4;
  for (std::int32_t first = begin + thread; first < end; first += kAtOnce * kOrderThreads) {
    std::uint32_t mask[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const std::int32_t i = first + j * kOrderThreads;
      mask[j] = i < end ? order.masks[i] : 0;
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const std::int32_t i = first + j * kOrderThreads;
      if (i >= end) break;
      std::uint32_t key = table.key(mask[j] & part.taps);
      if (part.is_late(mask[j])) key |= 1u << kOrderDigitBits;
      const int bucket = !part.has(mask[j]) ? kNoBucket
                         : is_sampled       ? buckets::bucket_of(splitters, key)
                                            : static_cast<int>(key);
      of_rows[i] = static_cast<std::uint16_t>(bucket);
      if (is_sampled) order.keys[i] = key;
      if (bucket != kNoBucket) atomicAdd(counts + bucket, 1);
    }
  }
  __syncthreads();
  buckets::store_counts(
      counts, order.counts + (std::int64_t{which.part} * order.blocks + block) * kOrderBuckets);
}

// Rows to their buckets, in turn; those of a bucket to be sorted with their keys.
template <int = 0>
__global__ void __launch_bounds__(kOrderThreads)
    move_to_buckets(const __grid_constant__ OrderJobs orders,
                    const __grid_constant__ OrderParts parts) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<buckets::MoveShared*>(memory);
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;
  auto* const words = reinterpret_cast<int4*>(shared.places);
  for (unsigned i = thread; i < sizeof(shared.places) / sizeof(int4); i += kOrderThreads)
    words[i] = int4{0, 0, 0, 0};
  wait_and_go_on();
  const OrderParts::Part which = parts.of_block(blockIdx.x);
  const OrderJob& order = orders[which.job];
  const int block = static_cast<int>(blockIdx.x) - which.first_block;
  if (thread == 0 && block == 0 && which.part == 0) write_plane_begin(order);
  const std::int64_t of_part = std::int64_t{which.part} * order.source.output.capacity;
  const auto rows = buckets::WarpRows::of(order, block, warp);

  int bucket[kHeldRows], place[kHeldRows];
#pragma unroll
  for (int j = 0; j < kHeldRows; ++j) {
    const std::int32_t i = rows.begin + j * kWarp + lane;
    bucket[j] = i < rows.end ? order.buckets[of_part + i] : kNoBucket;
  }
  // A barrier: `places` are clear.
  buckets::place_buckets(order.counts + std::int64_t{which.part} * order.blocks * kOrderBuckets,
                         order.blocks, block,
                         block == 0 && order.is_sampled() ? order.bucket_begin : nullptr, shared);
#pragma unroll
  for (int j = 0; j < kHeldRows; ++j) {
    if (rows.begin + j * kWarp >= rows.end) break;  // the whole warp
    place[j] = buckets::next_place(shared.places[warp], bucket[j], bucket[j] != kNoBucket);
  }
  __syncthreads();
  buckets::add_warps(shared);
  __syncthreads();

  const bool is_sampled = order.is_sampled();
  std::uint32_t key[kHeldRows];
#pragma unroll
  for (int j = 0; j < kHeldRows; ++j) {
    const std::int32_t i = rows.begin + j * kWarp + lane;
    key[j] = is_sampled && i < rows.end ? order.keys[i] : 0;
  }
#pragma unroll
  for (int j = 0; j < kHeldRows; ++j) {
    if (bucket[j] == kNoBucket) continue;
    const std::int32_t at = shared.begin[bucket[j]] + shared.places[warp][bucket[j]] + place[j];
    const std::int32_t rank = rows.begin + j * kWarp + lane;
    if (is_sampled && bucket[j] % 2 == 0)
      order.under_way[at] = {key[j], rank};
    else
      order.sorted[of_part + at] = rank;
  }
}

// Orders of maps that are counted, on a stream; `allow_orders` once a device before.
inline void allow_orders() {
  base::cuda::allow_shared_memory(move_to_buckets<>, sizeof(buckets::MoveShared));
}
inline void order_rows(const OrderJobs& orders, cudaStream_t stream) {
  OrderParts parts;
  SampledJobs sampled;
  JoinBlocks joined;
  unsigned blocks = 0;
  for (int job = 0; job < orders.count; ++job) {
    if (orders[job].is_sampled())
      sampled.job[sampled.count++] = static_cast<std::uint8_t>(job);
    else
      joined.job[joined.count++] = static_cast<std::uint8_t>(job);
    for (int part = 0; part < orders[job].parts(); ++part) {
      parts.item[parts.count++] = {static_cast<std::uint8_t>(job), static_cast<std::uint8_t>(part),
                                   static_cast<std::uint16_t>(blocks)};
      blocks += static_cast<unsigned>(orders[job].blocks);
    }
  }
  const auto samples = static_cast<unsigned>(sampled.count);
  const dim3 grid(blocks), threads(kOrderThreads);
  using base::cuda::launch;
  if (orders.count == 0) return;
  launch(prepare_orders<>,
         {.grid = dim3(static_cast<unsigned>(orders.count) + samples * kSampleBlocks),
          .block = dim3(kPrepareThreads),
          .overlap = true},
         stream, orders, sampled);
  launch(count_buckets<>, {.grid = grid, .block = threads, .overlap = true}, stream, orders, parts);
  launch(move_to_buckets<>,
         {.grid = grid,
          .block = threads,
          .shared_bytes = sizeof(buckets::MoveShared),
          .overlap = true},
         stream, orders, parts);
  std::int64_t most = 0;  // rows of a sampled job
  for (int job = 0; job < sampled.count; ++job)
    most = std::max<std::int64_t>(most, orders[sampled.job[job]].source.output.capacity);
  const BucketLaunch of_sort = bucket_launch(most);
  launch(finish_orders<>,
         {.grid = dim3(samples * kSplitters + static_cast<unsigned>(joined.count * kJoinBlocks)),
          .block = dim3(of_sort.threads),
          .shared_bytes = of_sort.rows * sizeof(std::uint64_t),
          .overlap = true},
         stream, OrderSlots{orders, nullptr, nullptr}, sampled, joined, of_sort.rows);
}

}  // namespace sparseconv::cuda

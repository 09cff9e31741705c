// Puts the rows of maps in order by counting: a cluster of thread blocks takes a part of a map (all
// rows, or those of a plane) through stable passes over the digits of its keys. Planes and maps of
// few taps take one pass, 27 taps three; all maps of a frame take one launch.
#pragma once
#include <cooperative_groups.h>

#include <algorithm>

#include "gemm_core/base/cuda/launch.cuh"
#include "sparseconv/cuda/maps/order_steps.cuh"
#include "sparseconv/cuda/overlap.cuh"

namespace sparseconv::cuda {

inline constexpr int kOrderBlocks = 8, kOrderThreads = 1024, kOrderWarps = kOrderThreads / kWarp;
inline constexpr int kOrderDigits = 1 << (kOrderDigitBits + 1);   // with the bit of late rows
inline constexpr int kOrderWords = kOrderDigits / 2;              // two counts of 16 bits
inline constexpr int kOrderGroups = kOrderThreads / kOrderWords;  // of warps whose counts are added
static_assert(kOrderDigits == kOrderThreads, "thread d owns digit d");
static_assert(kMaxCountedRows == kOrderBlocks * ((1 << 16) - kOrderThreads));
// Items of a thread that stay in registers while they are counted; with more, they are read twice.
inline constexpr int kHeldItems = 12;

// Parts of a launch, a cluster each; those that take longest come first.
struct CountedParts {
  struct Part {
    std::uint8_t job, part;
  };
  Part item[3 * kMaxJobs];
  std::int32_t count = 0;
};

struct OrderShared {
  // Counts of a warp, then of the warps of its group before it.
  alignas(16) std::uint16_t places[kOrderWarps][kOrderDigits];
  std::uint32_t group_counts[kOrderGroups][kOrderWords];  // as two counts
  std::int32_t totals[kOrderDigits];                      // of this block; its neighbours read them
  std::int32_t begin[kOrderGroups][kOrderDigits];         // of a group of warps, in the order
  std::uint32_t key_of_byte[4][256];  // keys are exclusive ors over bytes of masks
  std::uint32_t key_bits[kWarp];
  std::int32_t warp_sums[kOrderWarps];
};

namespace counting {

// What a pass reads and writes.
struct OrderPass {
  const std::uint32_t* masks;  // of the first pass; else null
  const KeyedRank* from;
  KeyedRank* to;           // null: the last
  std::int32_t* to_ranks;  // of the last
  int shift, digits;

  // A mask or a key.
  __device__ std::uint32_t word(std::int32_t i) const {
    return masks != nullptr ? masks[i] : from[i].key;
  }
  __device__ std::int32_t rank(std::int32_t i) const { return masks != nullptr ? i : from[i].rank; }
  __device__ int digit_of(std::uint32_t key) const {
    return static_cast<int>(key >> shift) & (digits - 1);
  }
  // One store an item: few multiprocessors write to scattered places here.
  __device__ void put(std::int32_t at, std::uint32_t key, std::int32_t rank) const {
    if (to != nullptr)
      to[at] = {key, rank};
    else
      to_ranks[at] = rank;
  }
};

// What the blocks of a cluster share out among their warps.
struct WarpItems {
  std::int32_t begin, end;
};

struct OrderItem {
  std::uint32_t key;
  bool is_there;  // else of another part
};

__device__ inline OrderItem order_item(const OrderPass& pass, const CountedPart& part,
                                       const OrderShared& shared, std::uint32_t word,
                                       bool is_item) {
  if (pass.masks == nullptr) return {word, is_item};
  const std::uint32_t taps = word & part.taps;
  std::uint32_t key = shared.key_of_byte[0][taps & 255] ^ shared.key_of_byte[1][taps >> 8 & 255] ^
                      shared.key_of_byte[2][taps >> 16 & 255] ^ shared.key_of_byte[3][taps >> 24];
  if (part.is_late(word)) key |= 1u << kOrderDigitBits;
  return {key, is_item && part.has(word)};
}

// Place of an item among those of its digit in the warp's row of `places`, which counts it. All
// threads of a warp call it together.
__device__ inline int next_place(std::uint16_t* places, int digit, bool is_there) {
  const unsigned peers = __match_any_sync(~0u, is_there ? digit : kOrderDigits);
  const int before = __popc(peers & ((1u << (threadIdx.x % kWarp)) - 1));
  const int seen = is_there ? places[digit] : 0;
  __syncwarp();
  if (is_there && before == 0) places[digit] = static_cast<std::uint16_t>(seen + __popc(peers));
  __syncwarp();
  return seen + before;
}

// Counts the warp's items in its row of `places` or, where that says where they go, moves them
// there. Loads of four are under way at once.
template <bool kMoves>
__device__ void read_items(const OrderPass& pass, const CountedPart& part, OrderShared& shared,
                           const WarpItems& items, const std::int32_t* begin) {
  constexpr int kAtOnce = 4;
  const int lane = threadIdx.x % kWarp;
  std::uint16_t* const places = shared.places[threadIdx.x / kWarp];
  for (std::int32_t first = items.begin; first < items.end; first += kAtOnce * kWarp) {
    std::uint32_t word[kAtOnce];
    std::int32_t rank[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const std::int32_t i = first + j * kWarp + lane;
      word[j] = i < items.end ? pass.word(i) : 0;
      rank[j] = kMoves && i < items.end ? pass.rank(i) : 0;
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const auto item =
          order_item(pass, part, shared, word[j], first + j * kWarp + lane < items.end);
      const int digit = pass.digit_of(item.key);
      const int place = next_place(places, digit, item.is_there);
      if (kMoves && item.is_there) pass.put(begin[digit] + place, item.key, rank[j]);
    }
  }
}

// Items of a warp that fit its registers, with their places.
struct HeldItems {
  std::uint32_t key[kHeldItems];
  std::int32_t place[kHeldItems];  // -1: of another part

  __device__ void count(const OrderPass& pass, const CountedPart& part, OrderShared& shared,
                        const WarpItems& items) {
    std::uint16_t* const places = shared.places[threadIdx.x / kWarp];
    const std::int32_t first = items.begin + static_cast<std::int32_t>(threadIdx.x % kWarp);
#pragma unroll
    for (int j = 0; j < kHeldItems; ++j)
      key[j] = first + j * kWarp < items.end ? pass.word(first + j * kWarp) : 0;
#pragma unroll
    for (int j = 0; j < kHeldItems; ++j) {
      place[j] = -1;
      if (items.begin + j * kWarp >= items.end) continue;  // the whole warp
      const auto item = order_item(pass, part, shared, key[j], first + j * kWarp < items.end);
      key[j] = item.key;
      const int at = next_place(places, pass.digit_of(item.key), item.is_there);
      place[j] = item.is_there ? at : -1;
    }
  }
  __device__ void move(const OrderPass& pass, const OrderShared& shared, const WarpItems& items,
                       const std::int32_t* begin) const {
    const std::uint16_t* const places = shared.places[threadIdx.x / kWarp];
    const std::int32_t first = items.begin + static_cast<std::int32_t>(threadIdx.x % kWarp);
    std::int32_t rank[kHeldItems];
#pragma unroll
    for (int j = 0; j < kHeldItems; ++j) rank[j] = place[j] >= 0 ? pass.rank(first + j * kWarp) : 0;
#pragma unroll
    for (int j = 0; j < kHeldItems; ++j) {
      if (place[j] < 0) continue;
      const int digit = pass.digit_of(key[j]);
      pass.put(begin[digit] + places[digit] + place[j], key[j], rank[j]);
    }
  }
};

// Counts of the warps become the places that those before take, within a group of warps; where
// each group's items of a digit begin goes to `begin`, by the counts of all blocks of the cluster.
__device__ inline void place_digits(OrderShared& shared, int digits,
                                    const cooperative_groups::cluster_group& cluster) {
  constexpr int kGroupWarps = kOrderWarps / kOrderGroups;
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;
  const int word = thread % kOrderWords, group = thread / kOrderWords;
  if (word < digits / 2) {
    std::uint32_t sum = 0;  // two of 16 bits: a block has fewer items
#pragma unroll
    for (int w = 0; w < kGroupWarps; ++w) {
      auto* const at =
          reinterpret_cast<std::uint32_t*>(shared.places[group * kGroupWarps + w]) + word;
      const std::uint32_t count = *at;
      *at = sum;
      sum += count;
    }
    shared.group_counts[group][word] = sum;
  }
  __syncthreads();
  std::int32_t of_group[kOrderGroups] = {}, total = 0;  // of the thread's digit
#pragma unroll
  for (int g = 0; g < kOrderGroups; ++g) {
    if (thread >= digits) continue;
    of_group[g] = reinterpret_cast<const std::uint16_t*>(shared.group_counts[g])[thread];
    total += of_group[g];
  }
  shared.totals[thread] = total;
  cluster.sync();

  std::int32_t before = 0, all = 0;
  if (thread < digits) {
#pragma unroll
    for (unsigned r = 0; r < kOrderBlocks; ++r) {
      const std::int32_t theirs = *cluster.map_shared_rank(&shared.totals[thread], r);
      before += r < cluster.block_rank() ? theirs : 0;
      all += theirs;
    }
  }
  std::int32_t through = all;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const std::int32_t earlier = __shfl_up_sync(~0u, through, step);
    if (lane >= step) through += earlier;
  }
  if (lane == kWarp - 1) shared.warp_sums[warp] = through;
  __syncthreads();
  static_assert(kOrderWarps == kWarp);
  std::int32_t first = __reduce_add_sync(~0u, lane < warp ? shared.warp_sums[lane] : 0);
  first += through - all + before;
#pragma unroll
  for (int g = 0; g < kOrderGroups; ++g) {
    shared.begin[g][thread] = first;
    first += of_group[g];
  }
  __syncthreads();
}

__device__ inline OrderPass order_pass(const OrderJob& order, int part, int pass) {
  const int passes = order.passes();
  OrderPass p;
  p.masks = pass == 0 ? order.masks : nullptr;
  p.from = pass == 0 ? nullptr : order.under_way[(pass - 1) % 2];
  p.to = pass + 1 == passes ? nullptr : order.under_way[pass % 2];
  p.to_ranks = order.sorted + static_cast<std::int64_t>(part) * order.source.output.capacity;
  p.shift = pass * kOrderDigitBits;
  p.digits = passes == 1 ? kOrderDigits : kOrderDigits / 2;
  return p;
}

}  // namespace counting

template <int = 0>
__global__ void __launch_bounds__(kOrderThreads, 1)
    order_by_counting(const __grid_constant__ OrderJobs orders,
                      const __grid_constant__ CountedParts parts) {
  extern __shared__ __align__(16) unsigned char memory[];
  OrderShared& shared = *reinterpret_cast<OrderShared*>(memory);
  wait_and_go_on();
  const auto cluster = cooperative_groups::this_cluster();
  const CountedParts::Part which = parts.item[blockIdx.x / kOrderBlocks];
  const OrderJob& order = orders[which.job];
  const CountedPart part = CountedPart::of(order, which.part);
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;

  // Keys of the bytes of masks.
  if (warp == 0) shared.key_bits[lane] = lane < order.source.taps ? key_bits_of(order, lane) : 0;
  if (thread == kWarp && which.part == 0 && cluster.block_rank() == 0) write_plane_begin(order);
  __syncthreads();
  static_assert(kOrderThreads == 4 * 256);
  shared.key_of_byte[thread / 256][thread % 256] =
      key_of(shared.key_bits + 8 * (thread / 256), static_cast<std::uint32_t>(thread % 256));

  // Items of this warp.
  constexpr std::int32_t kAllWarps = kOrderBlocks * kOrderWarps;
  const std::int32_t rows = order.source.output.size();
  const std::int32_t share = ((rows + kAllWarps - 1) / kAllWarps + kWarp - 1) / kWarp * kWarp;
  const std::int64_t at =
      std::int64_t{share} * (static_cast<int>(cluster.block_rank()) * kOrderWarps + warp);
  const auto begin = static_cast<std::int32_t>(at < rows ? at : rows);
  const counting::WarpItems items{begin, begin + share < rows ? begin + share : rows};
  const bool is_held = share <= kHeldItems * kWarp;
  const std::int32_t* const begin_of_digits = shared.begin[warp / (kOrderWarps / kOrderGroups)];

  for (int p = 0; p < order.passes(); ++p) {
    const counting::OrderPass pass = counting::order_pass(order, which.part, p);
    auto* const words = reinterpret_cast<int4*>(shared.places);
    for (unsigned i = thread; i < sizeof(shared.places) / sizeof(int4); i += kOrderThreads)
      words[i] = int4{0, 0, 0, 0};
    __syncthreads();
    if (is_held) {
      counting::HeldItems held;
      held.count(pass, part, shared, items);
      __syncthreads();
      counting::place_digits(shared, pass.digits, cluster);
      held.move(pass, shared, items, begin_of_digits);
    } else {
      counting::read_items<false>(pass, part, shared, items, begin_of_digits);
      __syncthreads();
      counting::place_digits(shared, pass.digits, cluster);
      counting::read_items<true>(pass, part, shared, items, begin_of_digits);
    }
    cluster.sync();  // what the next pass reads is there; nobody reads `totals` any more
  }
}

// Orders of maps that are counted, on a stream; `allow_orders` once a device before.
inline void allow_orders() {
  base::cuda::allow_shared_memory(order_by_counting<>, sizeof(OrderShared));
}
inline void order_rows(const OrderJobs& orders, cudaStream_t stream) {
  CountedParts parts;
  for (int job = 0; job < orders.count; ++job) {
    for (int part = 0; part < orders[job].parts(); ++part)
      parts.item[parts.count++] = {static_cast<std::uint8_t>(job), static_cast<std::uint8_t>(part)};
  }
  std::stable_sort(parts.item, parts.item + parts.count, [&](const auto& a, const auto& b) {
    const auto work = [&](const CountedParts::Part& p) {
      return std::int64_t{orders[p.job].passes()} * orders[p.job].source.output.capacity;
    };
    return work(a) > work(b);
  });
  // Clusters that may start while the launch before drains.
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {kOrderBlocks, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(parts.count * kOrderBlocks));
  config.blockDim = dim3(kOrderThreads);
  config.dynamicSmemBytes = sizeof(OrderShared);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  if (parts.count > 0) CUDA_CHECK(cudaLaunchKernelEx(&config, order_by_counting<>, orders, parts));
}

}  // namespace sparseconv::cuda

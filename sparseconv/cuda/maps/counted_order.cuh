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

inline constexpr int kOrderBlocks = 8, kOrderThreads = 512, kOrderWarps = kOrderThreads / kWarp;
inline constexpr int kOrderDigits = 1 << (kOrderDigitBits + 1);  // with the bit of late rows
static_assert(kOrderDigits == 2 * kOrderThreads, "thread d owns digits 2 d and 2 d + 1");

// Parts of a launch, a cluster each; those that take longest come first.
struct CountedParts {
  struct Part {
    std::uint8_t job, part;
  };
  Part item[3 * kMaxJobs];
  std::int32_t count = 0;
};

struct OrderShared {
  std::int32_t places[kOrderWarps]
                     [kOrderDigits];  // counts of a warp, then where its next item goes
  std::int32_t totals[kOrderDigits];  // of this block; its neighbours read them
  std::uint32_t key_of_byte[4][256];  // keys are exclusive ors over bytes of masks
  std::uint32_t key_bits[kWarp];
  std::int32_t warp_sums[kOrderWarps];
};

namespace counting {

// What a pass reads and writes.
struct OrderPass {
  const std::uint32_t *masks, *from_keys;  // masks: of the first pass
  const std::int32_t* from_values;
  std::uint32_t* to_keys;  // null: the last
  std::int32_t* to_values;
  int shift, digits;
};

struct OrderItem {
  std::uint32_t key;
  std::int32_t digit;  // kOrderDigits: not of the part
};

__device__ inline OrderItem order_item(const OrderPass& pass, const CountedPart& part,
                                       const OrderShared& shared, std::uint32_t word,
                                       bool is_item) {
  OrderItem item{word, kOrderDigits};
  if (pass.masks != nullptr) {
    is_item = is_item && part.has(word);
    const std::uint32_t taps = word & part.taps;
    item.key = shared.key_of_byte[0][taps & 255] ^ shared.key_of_byte[1][taps >> 8 & 255] ^
               shared.key_of_byte[2][taps >> 16 & 255] ^ shared.key_of_byte[3][taps >> 24];
    if (part.is_late(word)) item.key |= 1u << kOrderDigitBits;
  }
  if (is_item) item.digit = static_cast<std::int32_t>(item.key >> pass.shift) & (pass.digits - 1);
  return item;
}

// Counts the warp's items in its row of `places` or, where that says where they go, moves them
// there. Loads and comparisons of four are under way at once.
template <bool kMoves>
__device__ void count_items(const OrderPass& pass, const CountedPart& part, OrderShared& shared,
                            std::int32_t begin, std::int32_t end) {
  constexpr int kAtOnce = 4;
  const int lane = threadIdx.x % kWarp;
  std::int32_t* const places = shared.places[threadIdx.x / kWarp];
  const std::uint32_t* const words = pass.masks != nullptr ? pass.masks : pass.from_keys;
  for (std::int32_t first = begin; first < end; first += kAtOnce * kWarp) {
    std::uint32_t word[kAtOnce];
    std::int32_t value[kAtOnce];
    OrderItem item[kAtOnce];
    unsigned peers[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const std::int32_t i = first + j * kWarp + lane;
      word[j] = i < end ? words[i] : 0;
      value[j] = kMoves && pass.from_values != nullptr && i < end ? pass.from_values[i] : i;
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      item[j] = order_item(pass, part, shared, word[j], first + j * kWarp + lane < end);
      peers[j] = __match_any_sync(~0u, item[j].digit);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const bool is_item = item[j].digit < kOrderDigits;
      const int before = __popc(peers[j] & ((1u << lane) - 1));
      const std::int32_t seen = is_item ? places[item[j].digit] : 0;
      __syncwarp();
      if (is_item && before == 0) places[item[j].digit] = seen + __popc(peers[j]);
      __syncwarp();
      if (!kMoves || !is_item) continue;
      pass.to_values[seen + before] = value[j];
      if (pass.to_keys != nullptr) pass.to_keys[seen + before] = item[j].key;
    }
  }
}

// Counts of the warps become places of their items, by those of all blocks of the cluster.
__device__ inline void place_digits(OrderShared& shared,
                                    const cooperative_groups::cluster_group& cluster) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const auto pairs = [](std::int32_t* row) { return reinterpret_cast<int2*>(row) + threadIdx.x; };
  int2 sum{0, 0};
#pragma unroll
  for (int w = 0; w < kOrderWarps; ++w) {
    const int2 count = *pairs(shared.places[w]);
    *pairs(shared.places[w]) = sum;
    sum.x += count.x;
    sum.y += count.y;
  }
  *pairs(shared.totals) = sum;
  cluster.sync();

  int2 before{0, 0}, all{0, 0};
#pragma unroll
  for (unsigned r = 0; r < kOrderBlocks; ++r) {
    const int2 theirs = *cluster.map_shared_rank(pairs(shared.totals), r);
    if (r < cluster.block_rank()) {
      before.x += theirs.x;
      before.y += theirs.y;
    }
    all.x += theirs.x;
    all.y += theirs.y;
  }
  std::int32_t inclusive = all.x + all.y;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const std::int32_t earlier = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += earlier;
  }
  if (lane == kWarp - 1) shared.warp_sums[warp] = inclusive;
  __syncthreads();
  std::int32_t first = inclusive - all.x - all.y;
#pragma unroll
  for (int w = 0; w < kOrderWarps; ++w) first += w < warp ? shared.warp_sums[w] : 0;
  const int2 place{first + before.x, first + all.x + before.y};
#pragma unroll
  for (int w = 0; w < kOrderWarps; ++w) {
    int2& at = *pairs(shared.places[w]);
    at = {at.x + place.x, at.y + place.y};
  }
  __syncthreads();
}

__device__ inline OrderPass order_pass(const OrderJob& order, int part, int pass) {
  const int passes = order.passes(), left = passes - 1 - pass;
  const auto values = [&](int later) { return later % 2 == 0 ? order.sorted : order.other_values; };
  OrderPass p;
  p.masks = pass == 0 ? order.masks : nullptr;
  p.from_keys = pass == 0 ? nullptr : order.keys[(pass - 1) % 2];
  p.from_values = pass == 0 ? nullptr : values(left + 1);
  p.to_keys = left == 0 ? nullptr : order.keys[pass % 2];
  p.to_values = values(left) + static_cast<std::int64_t>(part) * order.source.output.capacity;
  p.shift = pass * kOrderDigitBits;
  p.digits = passes == 1 ? kOrderDigits : kOrderDigits / 2;
  return p;
}

}  // namespace counting

template <int = 0>
__global__ void __launch_bounds__(kOrderThreads, 2)
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
  for (int entry = thread; entry < 4 * 256; entry += kOrderThreads) {
    const int byte = entry / 256;
    shared.key_of_byte[byte][entry % 256] =
        key_of(shared.key_bits + 8 * byte, static_cast<std::uint32_t>(entry % 256));
  }

  // Items of this warp.
  constexpr std::int32_t kAllWarps = kOrderBlocks * kOrderWarps;
  const std::int32_t rows = order.source.output.size();
  const std::int32_t share = ((rows + kAllWarps - 1) / kAllWarps + kWarp - 1) / kWarp * kWarp;
  const std::int64_t at =
      std::int64_t{share} * (static_cast<int>(cluster.block_rank()) * kOrderWarps + warp);
  const auto begin = static_cast<std::int32_t>(at < rows ? at : rows);
  const std::int32_t end = begin + share < rows ? begin + share : rows;

  for (int p = 0; p < order.passes(); ++p) {
    const counting::OrderPass pass = counting::order_pass(order, which.part, p);
    auto* const words = reinterpret_cast<int4*>(shared.places);
    for (unsigned i = thread; i < sizeof(shared.places) / sizeof(int4); i += kOrderThreads)
      words[i] = int4{0, 0, 0, 0};
    __syncthreads();
    counting::count_items<false>(pass, part, shared, begin, end);
    __syncthreads();
    counting::place_digits(shared, cluster);
    counting::count_items<true>(pass, part, shared, begin, end);
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

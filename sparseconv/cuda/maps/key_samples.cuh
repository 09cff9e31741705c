// What keys of rows are made by, and splitters between buckets of keys: sorted keys of a sample.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"
#include "sparseconv/cuda/maps/order_steps.cuh"
#include "sparseconv/cuda/overlap.cuh"

namespace sparseconv::cuda {

// Blocks of a job whose keys are sampled: each finds the places of some samples among all.
inline constexpr int kSamples = 2 * kSplitters, kSampleBlocks = 64, kPrepareThreads = 1024;
inline constexpr int kBlockSamples = kSamples / kSampleBlocks,
                     kSampleLanes = kPrepareThreads / kBlockSamples;
static_assert(kSampleLanes == kWarp && kSamples == 2 * kPrepareThreads);
// Jobs whose keys are sampled.
struct SampledJobs {
  std::uint8_t job[kMaxJobs];
  std::int32_t count = 0;
};

namespace buckets {

// Keys are exclusive ors over bytes of masks.
struct KeyTable {
  std::uint32_t of_byte[4][256];

  __device__ std::uint32_t key(std::uint32_t mask) const {
    return of_byte[0][mask & 255] ^ of_byte[1][mask >> 8 & 255] ^ of_byte[2][mask >> 16 & 255] ^
           of_byte[3][mask >> 24];
  }
  __device__ std::uint32_t& word(int i) { return of_byte[i / 256][i % 256]; }
  // By kPrepareThreads; a barrier at its end.
  __device__ void fill(const OrderJob& order) {
    __shared__ std::uint32_t of_tap[kWarp];
    const int thread = threadIdx.x, lane = thread % kWarp, tap = thread / kWarp;
    static_assert(kPrepareThreads == kWarp * kWarp && kPrepareThreads == 4 * 256);
    const std::int32_t frequency = order.counters[lane];
    const unsigned before = __ballot_sync(
        ~0u, is_before(order, lane, frequency, tap, __shfl_sync(~0u, frequency, tap)));
    if (lane == 0) of_tap[tap] = tap < order.source.taps ? key_bits_at(order, __popc(before)) : 0;
    __syncthreads();
    std::uint32_t key = 0;
#pragma unroll
    for (int bit = 0; bit < 8; ++bit)
      key ^= (thread >> bit & 1) != 0 ? of_tap[8 * (thread / 256) + bit] : 0;
    word(thread) = key;
    __syncthreads();
  }
};

}  // namespace buckets

// A block a job: keys of bytes; then kSampleBlocks a job whose keys are sampled: every second one
// of the sorted keys of a sample.
template <int = 0>
__global__ void __launch_bounds__(kPrepareThreads, 1)
    prepare_orders(const __grid_constant__ OrderJobs orders,
                   const __grid_constant__ SampledJobs sampled) {
  __shared__ buckets::KeyTable table;
  __shared__ alignas(16) std::uint32_t keys[kSamples];
  wait_and_go_on();
  const int thread = threadIdx.x, sampling = static_cast<int>(blockIdx.x) - orders.count;
  const OrderJob& order =
      orders[sampling < 0 ? static_cast<int>(blockIdx.x) : sampled.job[sampling / kSampleBlocks]];
  table.fill(order);
  if (sampling < 0) {
    order.key_table[thread] = table.word(thread);
    return;
  }
  // Anywhere in the i-th of as many runs of rows, so that no pattern of the rows hides.
  const std::int32_t rows = order.source.output.size();
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const auto i = static_cast<std::uint32_t>(thread + k * kPrepareThreads);
    const std::uint64_t at = static_cast<std::uint64_t>(i) << 16 | i * 2654435761u >> 16;
    const std::uint64_t row =
        at * static_cast<std::uint32_t>(rows) / (std::uint64_t{kSamples} << 16);
    keys[i] = rows > 0 ? table.key(order.masks[row]) : 0;
  }
  __syncthreads();
  // How many samples come before one: by key, and among equals in turn.
  const int sample = sampling % kSampleBlocks * kBlockSamples + thread / kSampleLanes;
  const std::uint32_t key = keys[sample];
  int place = 0;
#pragma unroll 4
  for (int first = 4 * (thread % kSampleLanes); first < kSamples; first += 4 * kSampleLanes) {
    const uint4 others = *reinterpret_cast<const uint4*>(keys + first);
    const std::uint32_t other[4] = {others.x, others.y, others.z, others.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) place += other[k] < key + (first + k < sample ? 1 : 0) ? 1 : 0;
  }
#pragma unroll
  for (int step = kSampleLanes / 2; step > 0; step /= 2) place += __shfl_xor_sync(~0u, place, step);
  // The last splitter, above all keys, is none.
  if (thread % kSampleLanes == 0 && place % 2 == 1)
    order.splitters[place / 2] = place + 1 < kSamples ? key : ~0u;
}

}  // namespace sparseconv::cuda

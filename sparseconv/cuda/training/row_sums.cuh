// What kernels over strips of rows share: a block's place in them, sums down their columns,
// launches.
#pragma once
#include "sparseconv/cuda/training/norm_kernels.hpp"
#include "sparseconv/cuda/training/row_streams.cuh"

namespace sparseconv::cuda {

// Bytes of shared memory that sum_down() takes.
constexpr int sum_down_bytes(int width) { return 2 * kThreads * width * 4; }

// Adds up what the threads of a column hold, in their order; called by all threads of a block.
// `put(channel within the block's columns, sum of first, sum of second)` has the results.
template <int kWidth, class Put>
__device__ void sum_down(const Place& at, const ChunkShape& shape, const float (&first)[kWidth],
                         const float (&second)[kWidth], void* shared, const Put& put) {
  auto* const sums = static_cast<float(*)[kThreads * kWidth]>(shared);
  const int width = shape.across * kWidth;
  __syncthreads();  // what stood there has been read
  if (at.y < shape.down) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      sums[0][at.y * width + at.x * kWidth + i] = first[i];
      sums[1][at.y * width + at.x * kWidth + i] = second[i];
    }
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < width; c += kThreads) {
    double one = 0, two = 0;
    for (int y = 0; y < shape.down; ++y) {
      one += sums[0][y * width + c];
      two += sums[1][y * width + c];
    }
    put(c, one, two);
  }
  __syncthreads();
}

__device__ inline double sum_of_warp(double v) {
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  return v;
}

// Sums over strips: a block has 8 channels, so that many multiprocessors read what strips left, and
// four rows of lanes of each warp share the strips, whose loads are all under way together.
inline constexpr int kFinishWarps = 32, kFinishThreads = 32 * kFinishWarps, kFinishChannels = 8;
inline constexpr int kFinishRows = kFinishThreads / kFinishChannels;
inline constexpr int kStripsOfRow = kSumStrips / kFinishRows;
static_assert(kSumStrips % kFinishRows == 0);

__device__ inline int channel_of_thread() {
  return static_cast<int>(blockIdx.x) * kFinishChannels +
         static_cast<int>(threadIdx.x) % kFinishChannels;
}

// The channel whose totals a warp has in the end; `channels` or more: none.
__device__ inline int channel_of_warp(int channels) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return warp < kFinishChannels ? static_cast<int>(blockIdx.x) * kFinishChannels + warp : channels;
}

// Calls add(rows, first, second) with the two values that each strip with rows left for the
// thread's channel, then adds the two numbers `one` and `two` of all threads up. Returns the
// channel whose totals are now in this warp's `one` and `two`; `channels` or more: none.
template <class Add>
__device__ int sum_strips(const double* sums, int channels, std::int64_t count, const Add& add,
                          double& one, double& two) {
  __shared__ double parts[2][kFinishRows][kFinishChannels + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread % kFinishChannels, row = thread / kFinishChannels;
  const int channel = channel_of_thread();
  if (channel < channels) {
    std::int32_t rows[kStripsOfRow];
    double first[kStripsOfRow], second[kStripsOfRow];
#pragma unroll
    for (int i = 0; i < kStripsOfRow; ++i) {
      const int strip = i * kFinishRows + row;
      rows[i] = static_cast<std::int32_t>(first_of_strip(count, strip + 1, kSumStrips) -
                                          first_of_strip(count, strip, kSumStrips));
      if (rows[i] == 0) continue;  // has left nothing
      const double* const from = sums + strip * 2ll * channels + channel;
      first[i] = from[0];
      second[i] = from[channels];
    }
#pragma unroll
    for (int i = 0; i < kStripsOfRow; ++i)
      if (rows[i] > 0) add(static_cast<double>(rows[i]), first[i], second[i]);
  }
  parts[0][row][column] = one;
  parts[1][row][column] = two;
  __syncthreads();
  const int warp = thread / 32, lane = thread % 32;
  one = two = 0;
  if (warp >= kFinishChannels) return channels;
#pragma unroll
  for (int r = lane; r < kFinishRows; r += 32) {
    one += parts[0][r][warp];
    two += parts[1][r][warp];
  }
  one = sum_of_warp(one);
  two = sum_of_warp(two);
  return channel_of_warp(channels);
}

// Calls body.operator()<In, Stored, kWidth>().
template <class Body>
void visit_rows(base::DType dtype, bool rounds_to_tf32, bool is_wide, const char* operation,
                const Body& body) {
  base::visit_dtype<float, base::half_t, base::bf16_t>(dtype, operation, [&]<class T>() {
    const auto stored = [&]<class Stored>() {
      if (is_wide)
        body.template operator()<T, Stored, 8>();
      else
        body.template operator()<T, Stored, 1>();
    };
    if constexpr (std::is_same_v<T, float>) {
      if (rounds_to_tf32) return stored.template operator()<base::tf32_t>();
    }
    stored.template operator()<T>();
  });
}

inline base::cuda::LaunchShape strips(int shared_bytes) {
  return {.grid = dim3(kStrips),
          .block = dim3(kThreads),
          .shared_bytes = static_cast<std::size_t>(shared_bytes),
          .overlap = true};
}
template <class Streams>
base::cuda::LaunchShape strips_of_sums(int width) {
  return {.grid = dim3(kSumStrips),
          .block = dim3(kThreads),
          .shared_bytes =
              static_cast<std::size_t>(std::max(Streams::kSharedBytes, sum_down_bytes(width))),
          .overlap = true};
}
inline base::cuda::LaunchShape channels_of_strips(std::int64_t channels) {
  return {.grid = dim3(static_cast<unsigned>((channels + kFinishChannels - 1) / kFinishChannels)),
          .block = dim3(kFinishThreads),
          .overlap = true};
}

}  // namespace sparseconv::cuda

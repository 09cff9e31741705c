// What kernels over strips of rows share: a block's place in them, sums down their columns,
// launches.
#pragma once
#include "sparseconv/cuda/norm_kernels.hpp"
#include "sparseconv/cuda/row_chunks.cuh"

namespace sparseconv::cuda {

// Where strip `strip` of `strips` begins in `count` rows.
__device__ inline std::int64_t first_of_strip(std::int64_t count, int strip, int strips) {
  return count * strip / strips;
}

// Rows [first, last) of the block's strip, a strip a block, and the thread's place in it.
struct Place {
  std::int64_t first, last;
  int x, y;
  __device__ Place(const RowCount& rows, const ChunkShape& shape)
      : x(static_cast<int>(threadIdx.x) % shape.across),
        y(static_cast<int>(threadIdx.x) / shape.across) {
    const std::int64_t count = rows_of(rows);
    const int strip = static_cast<int>(blockIdx.x), strips = static_cast<int>(gridDim.x);
    first = first_of_strip(count, strip, strips);
    last = first_of_strip(count, strip + 1, strips);
  }
};

// Rows of a thread's strip a few at a time, so that their loads are under way together. Calls
// body(rows, count): beyond `count` the first row stands in. Four at a time take so many registers
// that steps became slower.
inline constexpr int kRowBatch = 2;
template <class Body>
__device__ __forceinline__ void for_row_batches(const Place& at, const ChunkShape& shape,
                                                const Body& body) {
  for (std::int64_t row = at.first + at.y; row < at.last; row += kRowBatch * shape.down) {
    std::int64_t batch[kRowBatch];
    int count = 0;
#pragma unroll
    for (int r = 0; r < kRowBatch; ++r) {
      const std::int64_t own = row + r * std::int64_t{shape.down};
      const bool has_row = own < at.last;
      batch[r] = has_row ? own : row;
      count += has_row ? 1 : 0;
    }
    body(batch, count);
  }
}
template <class T, int kWidth>
__device__ __forceinline__ void load_batch(const Matrix& from, const std::int64_t (&row)[kRowBatch],
                                           int column, float (&v)[kRowBatch][kWidth]) {
#pragma unroll
  for (int r = 0; r < kRowBatch; ++r)
    Chunk<T, kWidth>::load(from.data, row[r] * from.pitch + column, v[r]);
}

// Adds up what the threads of a column hold, in their order; called by all threads of a block.
// `put(channel within the block's columns, sum of first, sum of second)` has the results.
template <int kWidth, class Put>
__device__ void sum_down(const Place& at, const ChunkShape& shape, const float (&first)[kWidth],
                         const float (&second)[kWidth], const Put& put) {
  __shared__ float sums[2][kThreads * kWidth];
  const int width = shape.across * kWidth;
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

// Sums over strips: a block has 32 channels, a lane each, and its warps share the strips, whose
// loads are all under way together.
inline constexpr int kFinishWarps = 32, kFinishThreads = 32 * kFinishWarps;
inline constexpr int kStripsOfWarp = kSumStrips / kFinishWarps;
static_assert(kSumStrips % kFinishWarps == 0);

// Calls add(rows, first, second) with the two values that each strip with rows left for the
// thread's channel, then adds the two numbers `one` and `two` of all warps up. Returns the channel
// whose totals are now in this warp's `one` and `two`; `channels` or more: none.
template <class Add>
__device__ int sum_strips(const double* sums, int channels, std::int64_t count, const Add& add,
                          double& one, double& two) {
  __shared__ double parts[2][kFinishWarps][33];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int channel = static_cast<int>(blockIdx.x) * 32 + lane;
  if (channel < channels) {
    std::int32_t rows[kStripsOfWarp];
    double first[kStripsOfWarp], second[kStripsOfWarp];
#pragma unroll
    for (int i = 0; i < kStripsOfWarp; ++i) {
      const int strip = i * kFinishWarps + warp;
      rows[i] = static_cast<std::int32_t>(first_of_strip(count, strip + 1, kSumStrips) -
                                          first_of_strip(count, strip, kSumStrips));
      if (rows[i] == 0) continue;  // has left nothing
      const double* const from = sums + strip * 2ll * channels + channel;
      first[i] = from[0];
      second[i] = from[channels];
    }
#pragma unroll
    for (int i = 0; i < kStripsOfWarp; ++i)
      if (rows[i] > 0) add(static_cast<double>(rows[i]), first[i], second[i]);
  }
  parts[0][warp][lane] = one;
  parts[1][warp][lane] = two;
  __syncthreads();
  one = sum_of_warp(parts[0][lane][warp]);
  two = sum_of_warp(parts[1][lane][warp]);
  return static_cast<int>(blockIdx.x) * 32 + warp;
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

inline base::cuda::LaunchShape strips() {
  return {.grid = dim3(kStrips), .block = dim3(kThreads), .overlap = true};
}
inline base::cuda::LaunchShape strips_of_sums() {
  return {.grid = dim3(kSumStrips), .block = dim3(kThreads), .overlap = true};
}
inline base::cuda::LaunchShape channels_of_strips(std::int64_t channels) {
  return {.grid = dim3(static_cast<unsigned>((channels + 31) / 32)),
          .block = dim3(kFinishThreads),
          .overlap = true};
}

}  // namespace sparseconv::cuda

// Runs steps (step.cuh), scans and sorts on a stream.
#pragma once
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/cuda/resources.hpp"
#include "sparseconv/cuda/coordinate_steps.cuh"
#include "sparseconv/cuda/radix_sort.cuh"

namespace sparseconv::cuda {

inline constexpr int kStepThreads = 256;

template <class Step>
__global__ void __launch_bounds__(kStepThreads) map_step(const __grid_constant__ Step step) {
  const auto job = static_cast<int>(blockIdx.y);
  const std::int32_t size = step.size(job);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kStepThreads;
  if (first >= size) return;
  const std::int64_t i = first + threadIdx.x;
  if constexpr (CountingStep<Step>) {
    __shared__ std::int32_t tally[kCounters];
    if (threadIdx.x < kCounters) tally[threadIdx.x] = 0;
    __syncthreads();
    step(job, static_cast<std::int32_t>(i), i < size, tally);
    __syncthreads();
    if (threadIdx.x < kCounters && tally[threadIdx.x] != 0)
      atomicAdd(step.counters(job) + threadIdx.x, tally[threadIdx.x]);
  } else {
    step(job, static_cast<std::int32_t>(i), i < size);
  }
}

struct FirstOfRows {
  Pyramid pyramid;
  __host__ __device__ LevelRows operator()(std::int32_t i) const {
    return pyramid.first_of_rows(i);
  }
};

struct AddRows {
  __host__ __device__ LevelRows operator()(const LevelRows& a, const LevelRows& b) const {
    return a + b;
  }
};

// Scratch of scans and sorts: one piece, as large as the largest needs, which a dry run finds.
class Scratch {
 public:
  template <class Call>  // cudaError_t call(void* scratch, std::size_t& bytes)
  void operator()(const Call& call) {
    std::size_t bytes = 0;
    CUDA_CHECK(call(static_cast<void*>(nullptr), bytes));
    if (void* at = take(bytes)) CUDA_CHECK(call(at, bytes));
  }
  // Null in a dry run.
  void* take(std::size_t bytes) {
    needed_ = std::max(needed_, bytes);
    if (is_dry) return nullptr;
    ENSURE(bytes <= memory_.size(), "map build: scratch of ", bytes, " bytes in ", memory_.size());
    return memory_.data();
  }
  void allocate() {
    if (needed_ > memory_.size()) memory_ = base::cuda::Buffer<std::uint8_t>(needed_);
  }
  std::size_t nbytes() const { return memory_.nbytes(); }
  bool is_dry = false;

 private:
  std::size_t needed_ = 16;
  base::cuda::Buffer<std::uint8_t> memory_;
};

class DeviceRunner {
 public:
  DeviceRunner(Scratch& scratch, cudaStream_t stream) : scratch_(scratch), stream_(stream) {}

  template <class Step>
  void run(const Step& step, std::int64_t max_size, int jobs) {
    if (scratch_.is_dry) return;
    const auto blocks = static_cast<unsigned>((max_size + kStepThreads - 1) / kStepThreads);
    base::cuda::launch(
        map_step<Step>,
        {.grid = dim3(blocks, static_cast<unsigned>(jobs)), .block = dim3(kStepThreads)}, stream_,
        step);
  }
  // Inclusive sums.
  void scan(const Pyramid& pyramid, LevelRows* rows, std::int32_t items) {
    const auto flags = thrust::make_transform_iterator(
        thrust::make_counting_iterator(std::int32_t{0}), FirstOfRows{pyramid});
    scratch_([&](void* at, std::size_t& bytes) {
      return cub::DeviceScan::InclusiveScan(at, bytes, flags, rows, AddRows{}, items, stream_);
    });
  }
  template <class Counts>
  void scan(const Counts& counts, std::int32_t* sums, std::int32_t items) {
    const auto values =
        thrust::make_transform_iterator(thrust::make_counting_iterator(std::int32_t{0}), counts);
    scratch_([&](void* at, std::size_t& bytes) {
      return cub::DeviceScan::InclusiveSum(at, bytes, values, sums, items, stream_);
    });
  }
  // By bits [0, bits) of the keys, stably. Uses both pairs of arrays; the result is in one of them.
  template <class SortKey>
  Sorted<SortKey> sort(Sorted<SortKey> from, Sorted<SortKey> to, std::int64_t items, int bits) {
    if (items <= kMaxSmallSort) {
      void* counts = scratch_.take(static_cast<std::size_t>(sort_scratch_counts(items)) *
                                   sizeof(std::int32_t));
      return counts == nullptr
                 ? to
                 : radix_sort(from, to, items, bits, static_cast<std::int32_t*>(counts), stream_);
    }
    scratch_([&](void* at, std::size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(at, bytes, from.keys, to.keys, from.values, to.values,
                                             items, 0, bits, stream_);
    });
    return to;
  }
  template <class T>
  void copy(T* to, const T* from, std::int64_t count) {
    if (scratch_.is_dry || count == 0 || to == from) return;
    CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T),
                               cudaMemcpyDeviceToDevice, stream_));
  }

 private:
  static constexpr std::int64_t kMaxSmallSort = 1 << 21;
  Scratch& scratch_;
  cudaStream_t stream_;
};

}  // namespace sparseconv::cuda

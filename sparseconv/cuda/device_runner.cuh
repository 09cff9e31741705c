// Runs steps (step.cuh), scans and sorts on a stream.
#pragma once
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_scan.cuh>
#include <type_traits>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/cuda/resources.hpp"
#include "sparseconv/cuda/maps/bucket_order.cuh"
#include "sparseconv/cuda/maps/build_levels.cuh"
#include "sparseconv/cuda/maps/coordinate_steps.cuh"
#include "sparseconv/cuda/maps/mark_blocks.cuh"
#include "sparseconv/cuda/maps/radix_sort.cuh"
#include "sparseconv/cuda/maps/sample_sort.cuh"

namespace sparseconv::cuda {

inline constexpr int kStepThreads = 256;
// Blocks of a launch, shared by its jobs, each of which has some: 16 and 2 a multiprocessor of an
// H200.
inline constexpr int kMostBlocks = 2112, kLeastBlocks = 264;

// Blocks of each job, one after the other: first[job] ... first[job + 1].
struct JobBlocks {
  unsigned first[kMaxJobs + 1];
};

// Resident blocks that a step is compiled for; latency hides behind them.
template <class Step>
constexpr int blocks_per_multiprocessor() {
  if constexpr (requires { Step::kBlocksPerMultiprocessor; }) return Step::kBlocksPerMultiprocessor;
  return 1;
}

template <class Step>
constexpr int memory_words() {
  if constexpr (StepWithMemory<Step>) return Step::kMemoryWords;
  return 0;
}

template <class Step>
constexpr bool waits_last() {
  if constexpr (requires { Step::kWaitsLast; }) return Step::kWaitsLast;
  return false;
}

template <class Step>
__global__ void __launch_bounds__(kStepThreads, blocks_per_multiprocessor<Step>())
    map_step(const __grid_constant__ Step step, const __grid_constant__ JobBlocks blocks) {
  if constexpr (waits_last<Step>()) {
    gemm_core::ptx::allow_successor();
  } else {
    wait_and_go_on();
  }
  int job = 0;
  while (job + 1 < step.jobs() && blockIdx.x >= blocks.first[job + 1]) ++job;
  const std::int32_t size = step.size(job);
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x - blocks.first[job]) * kStepThreads;
  if (first >= size) {
    if constexpr (waits_last<Step>()) gemm_core::ptx::wait_for_predecessor();
    return;
  }
  // Launches are sized by bounds: few blocks that take several pieces in turn, rather than many
  // of which most find nothing to do.
  const std::int64_t stride =
      static_cast<std::int64_t>(blocks.first[job + 1] - blocks.first[job]) * kStepThreads;
  const auto run_all = [&](const auto&... context) {
    for (std::int64_t at = first; at < size; at += stride) {
      const std::int64_t i = at + threadIdx.x;
      step(job, static_cast<std::int32_t>(i), i < size, context...);
    }
  };
  if constexpr (CountingStep<Step> || StepWithMemory<Step>) {
    __shared__ std::int32_t tally[kCounters];
    __shared__ alignas(16) MemoryWord memory[memory_words<Step>() * kStepThreads + 1];
    if constexpr (CountingStep<Step>) {
      if (threadIdx.x < kCounters) tally[threadIdx.x] = 0;
      __syncthreads();
    }
    run_all(StepContext{tally, memory + threadIdx.x, kStepThreads});
    if constexpr (CountingStep<Step>) {
      __syncthreads();
      if (threadIdx.x < kCounters && tally[threadIdx.x] != 0) {
        atomicAdd(step.counters(job) + threadIdx.x, tally[threadIdx.x]);
      }
    }
  } else {
    run_all();
  }
  if constexpr (waits_last<Step>()) gemm_core::ptx::wait_for_predecessor();
}

struct AddRows {
  template <class T>
  __host__ __device__ T operator()(const T& a, const T& b) const {
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
  void run(const Step& step) {
    if (scratch_.is_dry) return;
    JobBlocks blocks{};
    const std::int64_t most = std::max(kLeastBlocks, kMostBlocks / std::max(1, step.jobs()));
    for (int job = 0; job < step.jobs(); ++job) {
      const std::int64_t needed = std::min<std::int64_t>(
          most, (static_cast<std::int64_t>(step.capacity(job)) + kStepThreads - 1) / kStepThreads);
      blocks.first[job + 1] = blocks.first[job] + static_cast<unsigned>(needed);
    }
    base::cuda::launch(
        map_step<Step>,
        {.grid = dim3(blocks.first[step.jobs()]), .block = dim3(kStepThreads), .overlap = true},
        stream_, step, blocks);
  }
  // Inclusive sums.
  template <class Counts, class Sum>
  void scan(const Counts& counts, Sum* sums, std::int32_t items) {
    const auto values =
        thrust::make_transform_iterator(thrust::make_counting_iterator(std::int32_t{0}), counts);
    scratch_([&](void* at, std::size_t& bytes) {
      return cub::DeviceScan::InclusiveScan(at, bytes, values, sums, AddRows{}, items, stream_);
    });
  }
  // By some bits of the keys, stably. Uses both pairs of arrays; the result is in one of them.
  template <class SortKey>
  Sorted<SortKey> sort(Sorted<SortKey> from, Sorted<SortKey> to, const ItemCount& number,
                       const SortBits& bits) {
    if constexpr (std::is_same_v<SortKey, std::uint64_t>) {
      if (suits_sample_sort(number)) {
        void* const scratch = scratch_.take(sample_sort_bytes(number));
        return scratch == nullptr ? to
                                  : sample_sort(from, to, number, bits,
                                                static_cast<std::uint8_t*>(scratch), stream_);
      }
    }
    void* counts =
        scratch_.take(static_cast<std::size_t>(sort_scratch_counts(number)) * sizeof(std::int32_t));
    return counts == nullptr
               ? to
               : radix_sort(from, to, number, bits, static_cast<std::int32_t*>(counts), stream_);
  }
  // Cells of strided sets, marked block by block.
  void mark_blocks(const PlainMarks& marks) {
    if (!scratch_.is_dry) mark_blocks_of(marks, stream_);
  }
  void levels(const Pyramid& pyramid) {
    if (!scratch_.is_dry) build_levels_of(pyramid, stream_);
  }
  // Rows of maps that are counted, in order.
  void order(const OrderJobs& orders) {
    if (!scratch_.is_dry) order_rows(orders, stream_);
  }
  template <class T>
  void copy(T* to, const T* from, std::int64_t count) {
    if (scratch_.is_dry || count == 0 || to == from) return;
    CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T),
                               cudaMemcpyDeviceToDevice, stream_));
  }

 private:
  Scratch& scratch_;
  cudaStream_t stream_;
};

}  // namespace sparseconv::cuda

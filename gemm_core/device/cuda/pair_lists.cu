#include "gemm_core/device/cuda/pair_lists.hpp"

#include <algorithm>

#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/error.hpp"

namespace gemm_core::cuda {
namespace {

constexpr int kThreads = 256, kRowsOfThread = 4, kStripRows = kThreads * kRowsOfThread;
constexpr int kPlaceThreads = 1024, kWarps = kThreads / 32;
constexpr unsigned kAll = ~0u;

struct Jobs {
  PairListJob job[kMaxPairJobs];
  unsigned first[kMaxPairJobs + 1];  // thread blocks before each job's
  int count = 0;
};

__device__ int rows_of(const PairListJob& job) {
  return job.row_count != nullptr ? min(static_cast<std::int64_t>(*job.row_count), job.rows)
                                  : job.rows;
}

// A strip of rows of one tap of one job.
struct Strip {
  int job, tap, strip, strips;
};
__device__ Strip strip_of_block(const Jobs& jobs) {
  int job = 0;
  while (job + 1 < jobs.count && blockIdx.x >= jobs.first[job + 1]) ++job;
  const auto strips = static_cast<int>((jobs.job[job].rows + kStripRows - 1) / kStripRows);
  const auto at = static_cast<int>(blockIdx.x - jobs.first[job]);
  return {job, at / strips, at % strips, strips};
}

// Consecutive rows of a thread; -1 where there is no pair.
__device__ int read_pairs(const PairListJob& job, const Strip& at, int (&inputs)[kRowsOfThread]) {
  const int rows = rows_of(job);
  const int row = at.strip * kStripRows + static_cast<int>(threadIdx.x) * kRowsOfThread;
  int count = 0;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    inputs[i] = -1;
    if (row + i < rows)
      inputs[i] = job.table == nullptr ? row + i : job.table[at.tap * job.pitch + row + i];
    count += inputs[i] >= 0;
  }
  return count;
}

__global__ void __launch_bounds__(kThreads) count_pairs(const __grid_constant__ Jobs jobs) {
  ptx::wait_for_predecessor();
  ptx::allow_successor();
  const Strip at = strip_of_block(jobs);
  const PairListJob& job = jobs.job[at.job];
  int inputs[kRowsOfThread];
  const int count = __reduce_add_sync(kAll, read_pairs(job, at, inputs));
  __shared__ int warps[kWarps];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (const int w : warps) sum += w;
  job.scratch[at.tap * at.strips + at.strip] = sum;
}

// Counts become places: a thread block a job, a warp a tap.
__global__ void __launch_bounds__(kPlaceThreads) place_pairs(const __grid_constant__ Jobs jobs) {
  ptx::wait_for_predecessor();
  ptx::allow_successor();
  const PairListJob& job = jobs.job[blockIdx.x];
  const auto strips = static_cast<int>((job.rows + kStripRows - 1) / kStripRows);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int tap = warp; tap < job.taps; tap += kPlaceThreads / 32) {
    int sum = 0;
    for (int i = lane; i < strips; i += 32) sum += job.scratch[tap * strips + i];
    sum = __reduce_add_sync(kAll, sum);
    if (lane == 0) job.tap_begin[tap + 1] = (sum + kPairBlock - 1) / kPairBlock * kPairBlock;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int begin = 0;
    job.tap_begin[0] = 0;
    for (int tap = 1; tap <= job.taps; ++tap) job.tap_begin[tap] = begin += job.tap_begin[tap];
  }
  __syncthreads();
  for (int tap = warp; tap < job.taps; tap += kPlaceThreads / 32) {
    int before = job.tap_begin[tap];
    for (int first = 0; first < strips; first += 32) {
      const int i = first + lane;
      const int own = i < strips ? job.scratch[tap * strips + i] : 0;
      int sum = own;
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(kAll, sum, step);
        if (lane >= step) sum += other;
      }
      if (i < strips) job.scratch[tap * strips + i] = before + sum - own;
      before += __shfl_sync(kAll, sum, 31);
    }
  }
}

__global__ void __launch_bounds__(kThreads) write_pairs(const __grid_constant__ Jobs jobs) {
  ptx::wait_for_predecessor();
  ptx::allow_successor();
  const Strip at = strip_of_block(jobs);
  const PairListJob& job = jobs.job[at.job];
  int inputs[kRowsOfThread];
  const int own = read_pairs(job, at, inputs);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int sum = own;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAll, sum, step);
    if (lane >= step) sum += other;
  }
  __shared__ int warps[kWarps];
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  int to = job.scratch[at.tap * at.strips + at.strip] + sum - own;
  for (int w = 0; w < warp; ++w) to += warps[w];
  const int row = at.strip * kStripRows + static_cast<int>(threadIdx.x) * kRowsOfThread;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    if (inputs[i] < 0) continue;
    job.inputs[to] = inputs[i];
    job.outputs[to++] = row + i;
  }
  if (at.strip + 1 < at.strips || threadIdx.x + 1 < kThreads) return;
  for (const int end = job.tap_begin[at.tap + 1]; to < end; ++to)
    job.inputs[to] = job.outputs[to] = -1;
}

}  // namespace

std::int64_t pair_capacity(std::int64_t rows, std::int64_t taps) {
  return taps * ((rows + kPairBlock - 1) / kPairBlock) * kPairBlock;
}

std::int64_t pair_scratch(std::int64_t rows, std::int64_t taps) {
  return taps * ((rows + kStripRows - 1) / kStripRows);
}

void build_pair_lists(std::span<const PairListJob> all, cudaStream_t stream) {
  while (!all.empty()) {
    const auto now = all.first(std::min<std::size_t>(all.size(), kMaxPairJobs));
    all = all.subspan(now.size());
    Jobs jobs;
    for (const PairListJob& job : now) {
      ENSURE(pair_capacity(job.rows, job.taps) < (std::int64_t{1} << 31), "pair lists: ", job.taps,
             " taps of ", job.rows, " rows are 2^31 pairs or more");
      const std::int64_t blocks = pair_scratch(job.rows, job.taps);
      jobs.first[jobs.count + 1] =
          (jobs.count > 0 ? jobs.first[jobs.count] : 0) + static_cast<unsigned>(blocks);
      jobs.job[jobs.count++] = job;
    }
    jobs.first[0] = 0;
    const base::cuda::LaunchShape strips{
        .grid = dim3(jobs.first[jobs.count]), .block = dim3(kThreads), .overlap = true};
    base::cuda::launch(count_pairs, strips, stream, jobs);
    base::cuda::launch(place_pairs,
                       {.grid = dim3(static_cast<unsigned>(jobs.count)),
                        .block = dim3(kPlaceThreads),
                        .overlap = true},
                       stream, jobs);
    base::cuda::launch(write_pairs, strips, stream, jobs);
  }
}

}  // namespace gemm_core::cuda

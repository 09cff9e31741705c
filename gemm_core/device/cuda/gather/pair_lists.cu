#include "gemm_core/device/cuda/gather/pair_lists.hpp"

#include <algorithm>

#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/error.hpp"

namespace gemm_core::cuda {
namespace {

constexpr int kThreads = 256, kRowsOfThread = 4, kTurnRows = kThreads * kRowsOfThread;
constexpr int kPlaceThreads = 1024, kWarps = kThreads / 32;
constexpr int kStrips = 32;  // of the rows that exist, so that bounds far above them cost nothing
constexpr unsigned kAll = ~0u;

struct Jobs {
  PairListJob job[kMaxPairJobs];
  unsigned first[kMaxPairJobs + 1];  // thread blocks before each job's
  int count = 0;
};

// None where there are more than the job has room for: then the table is not complete.
__device__ int rows_of(const PairListJob& job) {
  if (job.row_count == nullptr) return static_cast<int>(job.rows);
  return *job.row_count <= job.rows ? *job.row_count : 0;
}

// A strip of rows of one tap of one job, walked in turns of kTurnRows.
struct Strip {
  int job, tap, strip, first, last, rows;
};
__device__ Strip strip_of_block(const Jobs& jobs) {
  int job = 0;
  while (job + 1 < jobs.count && blockIdx.x >= jobs.first[job + 1]) ++job;
  const auto at = static_cast<int>(blockIdx.x - jobs.first[job]);
  const int rows = rows_of(jobs.job[job]);
  const int turns = (rows + kTurnRows - 1) / kTurnRows;
  const int share = (turns + kStrips - 1) / kStrips * kTurnRows, strip = at % kStrips;
  return {job, at / kStrips, strip, min(strip * share, rows), min((strip + 1) * share, rows), rows};
}

// Consecutive rows of a thread from `row` on; -1 where there is no pair.
__device__ int read_pairs(const PairListJob& job, const Strip& at, int row,
                          int (&inputs)[kRowsOfThread]) {
  int count = 0;
#pragma unroll
  for (int i = 0; i < kRowsOfThread; ++i) {
    inputs[i] = -1;
    if (row + i < at.last)
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
  int count = 0;
  for (int row = at.first + static_cast<int>(threadIdx.x) * kRowsOfThread; row < at.last;
       row += kTurnRows) {
    int inputs[kRowsOfThread];
    count += read_pairs(job, at, row, inputs);
  }
  count = __reduce_add_sync(kAll, count);
  __shared__ int warps[kWarps];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (const int w : warps) sum += w;
  job.scratch[at.tap * kStrips + at.strip] = sum;
}

// The sum of the values of lower lanes.
__device__ int sum_before(int own, int lane) {
  int sum = own;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAll, sum, step);
    if (lane >= step) sum += other;
  }
  return sum - own;
}

// Counts become places: a thread block a job, a warp a tap, a lane a strip.
static_assert(kStrips == 32);
__global__ void __launch_bounds__(kPlaceThreads) place_pairs(const __grid_constant__ Jobs jobs) {
  ptx::wait_for_predecessor();
  ptx::allow_successor();
  const PairListJob& job = jobs.job[blockIdx.x];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int tap = warp; tap < job.taps; tap += kPlaceThreads / 32) {
    const int sum = __reduce_add_sync(kAll, job.scratch[tap * kStrips + lane]);
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
    int& place = job.scratch[tap * kStrips + lane];
    place = job.tap_begin[tap] + sum_before(place, lane);
  }
}

__global__ void __launch_bounds__(kThreads) write_pairs(const __grid_constant__ Jobs jobs) {
  ptx::wait_for_predecessor();
  ptx::allow_successor();
  const Strip at = strip_of_block(jobs);
  const PairListJob& job = jobs.job[at.job];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __shared__ int warps[kWarps];
  int begin = job.scratch[at.tap * kStrips + at.strip];
  for (int first = at.first; first < at.last; first += kTurnRows) {
    int inputs[kRowsOfThread];
    const int row = first + static_cast<int>(threadIdx.x) * kRowsOfThread;
    const int own = read_pairs(job, at, row, inputs), before = sum_before(own, lane);
    if (lane == 31) warps[warp] = before + own;
    __syncthreads();
    int to = begin + before;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) to += warps[w];
      begin += warps[w];
    }
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      if (inputs[i] < 0) continue;
      job.inputs[to] = inputs[i];
      job.outputs[to++] = row + i;
    }
    __syncthreads();
  }
  if (at.strip + 1 < kStrips || threadIdx.x != 0) return;
  for (const int end = job.tap_begin[at.tap + 1]; begin < end; ++begin)
    job.inputs[begin] = job.outputs[begin] = -1;
}

}  // namespace

std::int64_t pair_capacity(std::int64_t rows, std::int64_t taps) {
  return taps * ((rows + kPairBlock - 1) / kPairBlock) * kPairBlock;
}

std::int64_t pair_scratch(std::int64_t taps) { return taps * kStrips; }

void build_pair_lists(std::span<const PairListJob> all, cudaStream_t stream) {
  while (!all.empty()) {
    const auto now = all.first(std::min<std::size_t>(all.size(), kMaxPairJobs));
    all = all.subspan(now.size());
    Jobs jobs;
    for (const PairListJob& job : now) {
      ENSURE(pair_capacity(job.rows, job.taps) < (std::int64_t{1} << 31), "pair lists: ", job.taps,
             " taps of ", job.rows, " rows are 2^31 pairs or more");
      const std::int64_t blocks = pair_scratch(job.taps);
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

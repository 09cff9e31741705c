#include "gemm_core/device/cuda/tile_schedule.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/kernel/lpt_level.hpp"

namespace gemm_core::cuda {
namespace {

constexpr int kThreads = kMaxScheduleLists;  // thread k owns list k
constexpr int kWarps = kThreads / 32;
// A tile costs its taps and one for its prologue and store; adding partial sums costs one more.
constexpr int kMaxCost = kMaxMaskedTaps + 2;
constexpr int kKeys = 2 * (kMaxCost + 1);

struct Jobs {
  TileScheduleJob job[kMaxScheduleJobs];
};

struct Shared {
  int begin[kKeys + 1];  // tiles of a key stand at order[begin[key]...]
  int cursor[kKeys];
  int sums[2][kWarps];
  unsigned long long scans[kWarps];
};

// Sum over the block, known to every thread; one barrier. Calls must alternate `slot`.
__device__ int block_sum(int value, Shared& shared, int slot) {
  const int warp_sum = __reduce_add_sync(~0u, value);
  if (threadIdx.x % 32 == 0) shared.sums[slot][threadIdx.x / 32] = warp_sum;
  __syncthreads();
  return __reduce_add_sync(~0u, shared.sums[slot][threadIdx.x % 32]);
}

// Sum over the threads before this one.
__device__ unsigned long long block_exclusive_sum(unsigned long long value, Shared& shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned long long inclusive = value;
  for (int step = 1; step < 32; step *= 2) {
    const unsigned long long before = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += before;
  }
  if (lane == 31) shared.scans[warp] = inclusive;
  __syncthreads();
  unsigned long long warps_before = lane < warp ? shared.scans[lane] : 0;
  for (int step = 16; step > 0; step /= 2) warps_before += __shfl_xor_sync(~0u, warps_before, step);
  __syncthreads();
  return warps_before + inclusive - value;
}

struct TileInfo {
  TileRecord record;
  int cost, key;  // keys ascend in the order in which tiles are dealt
};

__device__ TileInfo describe(const TileScheduleJob& job, const int (&plane)[5], int tile) {
  TileInfo info;
  TileRecord& record = info.record;
  const int begin = job.part == TilePart::outer ? plane[0] : plane[2];
  record.slot = begin + tile * job.tile;
  const std::uint32_t* masks = job.table.group_masks + record.slot / kSlotGroup;
  const int groups = (plane[4] + kSlotGroup - 1) / kSlotGroup;
  record.masks[0] = masks[0];
  record.masks[1] = job.tile == 128 && record.slot / kSlotGroup + 1 < groups ? masks[1] : 0;
  bool adds = false;
  if (job.part == TilePart::outer) {
    record.flags = record.slot < plane[1] ? kTileBelow : kTileAbove;
  } else {
    adds = record.slot + job.tile > plane[3] && plane[3] < plane[4];
    record.flags = adds ? kTileAddsPartials : 0;
  }
  info.cost = __popc(record.masks[0] | record.masks[1]) + 1 + (adds ? 1 : 0);
  info.key = (adds ? kMaxCost + 1 : 0) + kMaxCost - info.cost;
  return info;
}

__global__ void __launch_bounds__(kThreads) tile_schedule_lpt(const __grid_constant__ Jobs jobs) {
  __shared__ Shared shared;
  const TileScheduleJob& job = jobs.job[blockIdx.x];
  int plane[5];
  for (int i = 0; i < 5; ++i) plane[i] = job.table.plane_begin[i];
  const int begin = job.part == TilePart::outer ? plane[0] : plane[2];
  const int end = job.part == TilePart::outer ? plane[2] : plane[4];
  const int tiles = (end - begin + job.tile - 1) / job.tile;

  // Tiles sorted by key, by counting.
  for (int i = threadIdx.x; i < kKeys; i += kThreads) shared.cursor[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < tiles; i += kThreads)
    atomicAdd(&shared.cursor[describe(job, plane, i).key], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int key = 0; key < kKeys; ++key) {
      shared.begin[key] = sum;
      sum += shared.cursor[key];
      shared.cursor[key] = shared.begin[key];
    }
    shared.begin[kKeys] = sum;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < tiles; i += kThreads)
    job.order[atomicAdd(&shared.cursor[describe(job, plane, i).key], 1)] = i;
  __syncthreads();  // also makes `order` visible to the block

  // Tiles of one key have one cost: dealt all at once (lpt_level.hpp).
  const bool is_list = threadIdx.x < job.lists;
  TileRecord* const list = job.records + static_cast<std::int64_t>(threadIdx.x) * job.pitch;
  constexpr int kNever = 1 << 28;
  int load = is_list ? 0 : kNever, count = 0, slot = 0;
  int highest = 0;  // no load is above it
  for (int key = 0; key < kKeys; ++key) {
    const int first = shared.begin[key], left = shared.begin[key + 1] - first;
    if (left == 0) continue;
    const int cost = kMaxCost - key % (kMaxCost + 1);
    int low = 0,
        high = highest + (left / job.lists + 2) * cost;  // jobs at low <= left < jobs at high
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      const int jobs_there =
          block_sum(is_list ? jobs_below(load, middle, cost) : 0, shared, slot ^= 1);
      (jobs_there <= left ? low : high) = middle;
    }
    int mine = is_list ? jobs_below(load, low, cost) : 0;
    const bool is_lowest = is_list && load + mine * cost == low;
    const unsigned long long before =
        block_exclusive_sum(static_cast<unsigned long long>(is_lowest) << 32 | mine, shared);
    const int over = left - block_sum(mine, shared, slot ^= 1);
    const int lowest_before = static_cast<int>(before >> 32);
    const int offset = static_cast<int>(before & 0xffffffffu) + min(lowest_before, over);
    mine += is_lowest && lowest_before < over ? 1 : 0;
    for (int i = 0; i < mine; ++i)
      list[count++] = describe(job, plane, job.order[first + offset + i]).record;
    load += mine * cost;
    highest = high + cost;
  }
  if (is_list) {
    list[count] = TileRecord{};
    list[count + 1] = TileRecord{};
  }
}

}  // namespace

std::int32_t schedule_pitch(std::int64_t capacity, int tile, int lists) {
  // The fullest list is at most one longest tile above the mean, and all its tiles may cost 1.
  const std::int64_t tiles = (capacity + tile - 1) / tile;
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(tiles, (tiles * kMaxCost + lists - 1) / lists + kMaxCost) + 2);
}

void build_tile_schedules(std::span<const TileScheduleJob> jobs, cudaStream_t stream) {
  for (std::size_t first = 0; first < jobs.size(); first += kMaxScheduleJobs) {
    Jobs chunk;
    const std::size_t count = std::min<std::size_t>(kMaxScheduleJobs, jobs.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const TileScheduleJob& job = chunk.job[i] = jobs[first + i];
      ENSURE(job.tile == 64 || job.tile == 128, "tile schedule: tiles of ", job.tile,
             " rows; 64 and 128 are possible");
      ENSURE(job.lists > 0 && job.lists <= kMaxScheduleLists, "tile schedule: ", job.lists,
             " lists are not in 1..", int{kMaxScheduleLists});
      ENSURE(job.pitch >= schedule_pitch(job.table.capacity, job.tile, job.lists),
             "tile schedule: pitch ", job.pitch, " is too small for ", job.table.capacity,
             " slots");
    }
    base::cuda::launch(tile_schedule_lpt,
                       {.grid = dim3(static_cast<unsigned>(count)), .block = dim3(kThreads)},
                       stream, chunk);
  }
}

}  // namespace gemm_core::cuda

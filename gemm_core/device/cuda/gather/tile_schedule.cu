#include "gemm_core/device/cuda/gather/tile_schedule.hpp"

#include <algorithm>

#include "gemm_core/atom/ptx.cuh"
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
  int first_loads;  // of the first tile of every list
  int sums[2][3]
          [kWarps];  // of the warps; calls alternate between the two, so that one barrier does
};

// Sums over the block, known to every thread; one barrier.
__device__ void block_sums(int (&value)[3], Shared& shared, int& turn) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  turn ^= 1;
#pragma unroll
  for (int& v : value) {
    v = __reduce_add_sync(~0u, v);
    if (lane == 0) shared.sums[turn][&v - value][warp] = v;
  }
  __syncthreads();
#pragma unroll
  for (int& v : value) v = __reduce_add_sync(~0u, shared.sums[turn][&v - value][lane]);
}

// Of the threads before this one: the sum of `count`, and how many have `flag`; one barrier.
struct Before {
  int count, flags;
};
__device__ Before block_before(int count, bool flag, Shared& shared, int& turn) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  turn ^= 1;
  int inclusive = count;
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += before;
  }
  const unsigned flags = __ballot_sync(~0u, flag);
  if (lane == 31) {
    shared.sums[turn][0][warp] = inclusive;
    shared.sums[turn][1][warp] = __popc(flags);
  }
  __syncthreads();
  const bool is_before = lane < warp;
  const int counts = __reduce_add_sync(~0u, is_before ? shared.sums[turn][0][lane] : 0);
  const int others = __reduce_add_sync(~0u, is_before ? shared.sums[turn][1][lane] : 0);
  return {counts + inclusive - count, others + __popc(flags & ((1u << lane) - 1))};
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

__device__ int cost_of(int key) { return kMaxCost - key % (kMaxCost + 1); }

// The first warp: counts of the keys become where their tiles begin. A few keys a lane.
__device__ void place_keys(const TileScheduleJob& job, Shared& shared) {
  constexpr int kEach = (kKeys + 31) / 32;
  const int lane = threadIdx.x;
  int count[kEach], sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int key = lane * kEach + i;
    count[i] = key < kKeys ? shared.cursor[key] : 0;
    sum += count[i];
  }
  int inclusive = sum;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += before;
  }
  int at = inclusive - sum, loads = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int key = lane * kEach + i;
    if (key >= kKeys) break;
    shared.begin[key] = shared.cursor[key] = at;
    loads += max(0, min(count[i], job.lists - at)) * cost_of(key);
    at += count[i];
    if (key + 1 == kKeys) shared.begin[kKeys] = at;
  }
  loads = __reduce_add_sync(~0u, loads);
  if (lane == 0) shared.first_loads = loads;
}

__global__ void __launch_bounds__(kThreads) tile_schedule_lpt(const __grid_constant__ Jobs jobs) {
  __shared__ Shared shared;
  ptx::wait_for_predecessor();
  ptx::allow_successor();
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
  if (threadIdx.x < 32) place_keys(job, shared);
  __syncthreads();
  for (int i = threadIdx.x; i < tiles; i += kThreads)
    job.order[atomicAdd(&shared.cursor[describe(job, plane, i).key], 1)] = i;
  __syncthreads();  // also makes `order` visible to the block

  // As long as some list is empty, it is the least loaded one: list k begins with the k-th tile.
  // What is left of a key has one cost and is dealt all at once (lpt_level.hpp).
  const bool is_list = threadIdx.x < job.lists;
  TileRecord* const list = job.records + static_cast<std::int64_t>(threadIdx.x) * job.pitch;
  constexpr int kNever = 1 << 28;
  int load = is_list ? 0 : kNever, count = 0, turn = 0;
  if (is_list && threadIdx.x < tiles) {
    int key = 0;  // of the tile: the last key that begins at or before it
    for (int step = 64; step > 0; step /= 2) {
      if (key + step < kKeys && shared.begin[key + step] <= static_cast<int>(threadIdx.x))
        key += step;
    }
    load = cost_of(key);
    list[count++].slot = static_cast<std::int32_t>(threadIdx.x);
  }
  int sum = shared.first_loads;  // of all loads
  for (int key = 0; key < kKeys; ++key) {
    const int first = max(shared.begin[key], job.lists), left = shared.begin[key + 1] - first;
    if (left <= 0) continue;
    const int cost = cost_of(key);
    // Jobs at low <= left < jobs at high. No load is further below the mean than the longest job,
    // and levels take at least (level - mean) / cost jobs a list.
    int low = max(0, sum / job.lists - kMaxCost - 1), jobs_at_low = 0;
    int high = (sum + left * cost) / job.lists + 1;
    while (high - low > 1) {
      const int step = (high - low + 3) / 4;
      int jobs[3];
#pragma unroll
      for (int i = 0; i < 3; ++i)
        jobs[i] = is_list ? jobs_below(load, low + (i + 1) * step, cost) : 0;
      block_sums(jobs, shared, turn);
      int next = low;
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        if (jobs[i] > left) continue;
        next = low + (i + 1) * step;
        jobs_at_low = jobs[i];
      }
      low = next;
      high = min(high, low + step);
    }
    int mine = is_list ? jobs_below(load, low, cost) : 0;
    const bool is_lowest = is_list && load + mine * cost == low;
    const Before before = block_before(mine, is_lowest, shared, turn);
    const int over = left - jobs_at_low;
    const int begins = first + before.count + min(before.flags, over);
    mine += is_lowest && before.flags < over ? 1 : 0;
    // Where the tile stands in `order`; what it is comes last, so that nobody waits for it here.
    for (int i = 0; i < mine; ++i) list[count++].slot = begins + i;
    load += mine * cost;
    sum += left * cost;
  }
  constexpr int kBatch = 4;  // tiles whose loads are under way together
  for (int at = 0; at < count; at += kBatch) {
    int tile[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) tile[i] = list[min(at + i, count - 1)].slot;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) tile[i] = job.order[tile[i]];
    TileRecord record[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) record[i] = describe(job, plane, tile[i]).record;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (at + i < count) list[at + i] = record[i];
    }
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
    base::cuda::launch(
        tile_schedule_lpt,
        {.grid = dim3(static_cast<unsigned>(count)), .block = dim3(kThreads), .overlap = true},
        stream, chunk);
  }
}

}  // namespace gemm_core::cuda

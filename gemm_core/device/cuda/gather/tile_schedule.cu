#include "gemm_core/device/cuda/gather/tile_schedule.hpp"

#include <algorithm>

#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/base/cuda/launch.cuh"

namespace gemm_core::cuda {
namespace {

constexpr int kThreads = kMaxScheduleLists;  // thread k owns list k
// A tile costs its taps and one for its prologue and store; adding partial sums costs one more.
constexpr int kMaxCost = kMaxMaskedTaps + 2;
constexpr int kKeys = 2 * (kMaxCost + 1);

struct Jobs {
  TileScheduleJob job[kMaxScheduleJobs];
};

// Lists of `width` loads, each of which takes one tile; no list that has taken one has such a load
// any more, as they are no more than a tile's cost.
struct Deal {
  int lowest, cost;  // the first load; lists that take a tile go to a load by the cost higher
  int rounds, first_of_rounds;  // before that, tiles that every list takes
  struct OfLoad {
    int first;                    // tile
    std::uint16_t lists, before;  // that take a tile, and that have the higher load already
  } load[32];
};
constexpr int kDeals = 64;   // worked out by one warp before all lists follow them
constexpr int kLoads = 128;  // lists by their load, modulo this: loads differ by kMaxCost at most
static_assert(kMaxScheduleLists <= 0xffff && kLoads >= 32 + 2 * kMaxCost);

struct Shared {
  int begin[kKeys + 1];  // tiles of a key stand at order[begin[key]...]
  int cursor[kKeys];
  int lists[kLoads];
  Deal deals[kDeals];
  int deal_count;
};

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
  int at = inclusive - sum;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int key = lane * kEach + i;
    if (key >= kKeys) break;
    shared.begin[key] = shared.cursor[key] = at;
    at += count[i];
    if (key + 1 == kKeys) shared.begin[kKeys] = at;
  }
}

// The next place of a key; threads of a warp that ask for one key together share an addition.
__device__ int next_place(Shared& shared, int key) {
  const unsigned lanes = __activemask(), peers = __match_any_sync(lanes, key);
  const int lane = threadIdx.x % 32, first = __ffs(static_cast<int>(peers)) - 1;
  int at = 0;
  if (lane == first) at = atomicAdd(&shared.cursor[key], __popc(peers));
  return __shfl_sync(peers, at, first) + __popc(peers & ((1u << lane) - 1));
}

// The first warp: deals of tiles to lists that have their first one, by the number of lists of each
// load alone.
struct Dealer {
  int lists;
  int key = -1, first = 0, left = 0;  // of the tiles of a key: what is not dealt yet
  int lowest = 0;                     // no list has a lower load

  // List k begins with the k-th tile.
  __device__ void begin(Shared& shared) const {
    const auto begins = [&](int key) { return min(shared.begin[key], lists); };
    for (int load = threadIdx.x; load < kLoads; load += 32) {
      const int early = kMaxCost - load, late = early + kMaxCost + 1;
      shared.lists[load] =
          early < 0 ? 0 : begins(early + 1) - begins(early) + begins(late + 1) - begins(late);
    }
    __syncwarp();
  }

  // Up to kDeals more; fewer are the last.
  __device__ void deal(Shared& shared) {
    const int lane = threadIdx.x;
    int deals = 0;
    while (deals < kDeals) {
      Deal& deal = shared.deals[deals];
      int rounds = 0, first_of_rounds = 0;
      while (left == 0 && key + 1 < kKeys) {
        ++key;
        first = max(shared.begin[key], lists);
        left = max(0, shared.begin[key + 1] - first);
        // Lists differ by kMaxCost / cost + 2 tiles of a key at most.
        first_of_rounds = first;
        if (left <= 3 * lists) continue;
        rounds = max(0, left / lists - kMaxCost / cost_of(key) - 2);
        first += rounds * lists;
        left -= rounds * lists;
      }
      if (left == 0) break;
      const int cost = cost_of(key), load = lowest + lane;
      const bool is_dealt_to = lane < cost;
      const int count = is_dealt_to ? shared.lists[load % kLoads] : 0;
      const int before = shared.lists[(load + cost) % kLoads];
      int through = count;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int earlier = __shfl_up_sync(~0u, through, step);
        if (lane >= step) through += earlier;
      }
      const int taken = min(count, max(0, left - (through - count)));
      deal.load[lane] = {first + through - count, static_cast<std::uint16_t>(taken),
                         static_cast<std::uint16_t>(before)};
      if (lane == 0) {
        deal.lowest = lowest;
        deal.cost = cost;
        deal.rounds = rounds;
        deal.first_of_rounds = first_of_rounds;
      }
      __syncwarp();
      if (is_dealt_to) {
        shared.lists[load % kLoads] = count - taken;
        shared.lists[(load + cost) % kLoads] = before + taken;
      }
      const unsigned stay = __ballot_sync(~0u, count > taken);
      const int all = min(left, __shfl_sync(~0u, through, 31));
      first += all;
      left -= all;
      lowest += stay != 0 ? __ffs(static_cast<int>(stay)) - 1 : min(cost, 32);
      deals += all > 0 || rounds > 0 ? 1 : 0;
      __syncwarp();
    }
    if (lane == 0) shared.deal_count = deals;
  }
};

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
    next_place(shared, describe(job, plane, i).key);
  __syncthreads();
  if (threadIdx.x < 32) place_keys(job, shared);
  __syncthreads();
  for (int i = threadIdx.x; i < tiles; i += kThreads)
    job.order[next_place(shared, describe(job, plane, i).key)] = i;
  __syncthreads();  // also makes `order` visible to the block

  // As long as some list is empty, it is the least loaded one: list k begins with the k-th tile.
  // One warp deals the others by how many lists have each load (lists of a load are numbered), then
  // every list looks up what it got.
  const bool is_list = threadIdx.x < job.lists;
  TileRecord* const list = job.records + static_cast<std::int64_t>(threadIdx.x) * job.pitch;
  int load = 0, number = 0, count = 0;
  if (is_list && threadIdx.x < tiles) {
    int key = 0;  // of the tile: the last key that begins at or before it
    for (int step = 64; step > 0; step /= 2) {
      if (key + step < kKeys && shared.begin[key + step] <= static_cast<int>(threadIdx.x))
        key += step;
    }
    load = cost_of(key);
    number = static_cast<int>(threadIdx.x) - shared.begin[key];
    if (key > kMaxCost) {  // after those of the other key of this cost
      const int other = key - kMaxCost - 1;
      number += min(shared.begin[other + 1], job.lists) - min(shared.begin[other], job.lists);
    }
    list[count++].slot = static_cast<std::int32_t>(threadIdx.x);
  }
  Dealer dealer{job.lists};
  if (threadIdx.x < 32) dealer.begin(shared);
  for (bool goes_on = tiles > job.lists; goes_on;) {
    if (threadIdx.x < 32) dealer.deal(shared);
    __syncthreads();
    const int deals = shared.deal_count;
    goes_on = deals == kDeals;
    // Where a tile stands in `order`; what it is comes last, so that nobody waits for it here.
    for (int i = 0; is_list && i < deals; ++i) {
      const Deal& deal = shared.deals[i];
      for (int round = 0; round < deal.rounds; ++round)
        list[count++].slot =
            deal.first_of_rounds + round * job.lists + static_cast<int>(threadIdx.x);
      const int d = load - deal.lowest;
      if (d < 0 || d >= 32) continue;
      const Deal::OfLoad mine = deal.load[d];
      if (number < mine.lists) {
        list[count++].slot = mine.first + number;
        load += deal.cost;
        number += mine.before;
      } else {
        number -= mine.lists;
      }
    }
    __syncthreads();
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

// Mainloop of the gathered GEMM on Hopper: rows of A gathered by cp.async into swizzled shared
// memory with zeros for absent neighbours, weights of one tap by TMA, both on one mbarrier a stage;
// WGMMA from shared memory.
//
// A step is (tile, tap, slice of kStageK channels) and fills one stage. Gather warps and consumer
// warpgroups walk the same list of tiles on their own, so nothing but the stages' barriers connects
// them, and gathers run ahead across tiles.
#pragma once
#include <cstdint>

#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/collective/gather_operand.cuh"
#include "gemm_core/collective/sm90_gather_config.cuh"

namespace gemm_core {

template <class Config>
struct Sm90GatherMma {
  using Mma = typename Config::Mma;
  static constexpr int kStages = Config::kStages;

  // Stages, then the barriers: full[kStages], empty[kStages].
  std::uint32_t stages, barriers;

  __device__ __forceinline__ explicit Sm90GatherMma(std::uint32_t shared)
      : stages((shared + 1023) & ~1023u), barriers(stages + kStages * Config::kStageBytes) {}

  __device__ __forceinline__ std::uint32_t full(int stage) const { return barriers + 8 * stage; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const {
    return barriers + 8 * (kStages + stage);
  }

  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      // A team's lanes, and the announcement of the weights.
      ptx::barrier_init(full(i), Config::kTeamWarps * 32 + 1);
      ptx::barrier_init(empty(i), Config::kGroups * 4);  // every warp that reads the stage
    }
    ptx::barrier_init_fence();
  }

  struct Position {
    int stage = 0;
    std::uint32_t parity = 0;
    __device__ __forceinline__ void advance() {
      if (++stage == kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
    __device__ __forceinline__ void advance(int steps) {
      for (stage += steps; stage >= kStages; stage -= kStages) parity ^= 1;
    }
    __device__ __forceinline__ void skip(int steps) {
      stage += steps;
      parity ^= stage / kStages & 1;
      stage %= kStages;
    }
  };

  // --- gather warps ------------------------------------------------------------------------------
  static constexpr int kLanesPerRow = Config::kFirstBytes / 16;  // 16 bytes a lane
  static constexpr int kRowLanes = 32 / kLanesPerRow;
  static constexpr int kRowsPerWarp = Config::kTileM / Config::kTeamWarps;
  // Consecutive rows, so that indices load four at once.
  static constexpr int kRowsPerLane = kRowsPerWarp / kRowLanes;
  static_assert(kRowsPerLane % 4 == 0 && kRowsPerWarp <= kSlotGroup);
  static_assert(!Config::kPairsSpans || kRowsPerLane % 16 == 0);

  static __device__ __forceinline__ bool is_own(const GatherOperand& operand, int tap) {
    return Config::kTakesOwnRows && (operand.own_tap >> (tap & 31) & 1) != 0;
  }
  static __device__ __forceinline__ int slices_of(const GatherOperand& operand, int tap) {
    return is_own(operand, tap) ? operand.own.slices : operand.slices;
  }

  // Walks the steps of a list that fall to one team, one tile read ahead.
  struct Cursor {
    TileList tiles;
    TileRecord tile, next;
    int next_index = 2;
    std::uint32_t left;  // taps of `tile` not yet reached
    int tap = -1, slice;

    __device__ __forceinline__ Cursor(const TileList& list, int team, int slices)
        : tiles(list),
          tile(list[0]),
          next(list[1]),
          left(tile.masks[0] | tile.masks[1]),
          slice(slices + team) {}

    // Goes to the tap of the team's next step, which then is `slice` of `tap` of `tile`. False at
    // the end.
    __device__ __forceinline__ bool advance(const GatherOperand& operand) {
      while (slice >= slices_of(operand, tap)) {
        slice -= slices_of(operand, tap);
        while (left == 0 && tile.slot >= 0) {
          tile = next;
          left = tile.masks[0] | tile.masks[1];
          if (tile.slot >= 0) next = tiles[next_index++];
        }
        if (tile.slot < 0) return false;
        tap = __ffs(left) - 1;
        left &= left - 1;
      }
      return true;
    }
  };

  // Neighbour indices of one tap for the lane's rows.
  struct Fetched {
    int index[kRowsPerLane];
    int tap;  // -1: no more steps
    int slice;
    bool active;  // some row of the warp's group has the tap
  };

  __device__ __forceinline__ void fetch(const GatherOperand& operand, Cursor& cursor, int first_row,
                                        int group, Fetched& f) const {
    if (!cursor.advance(operand)) {
      f.tap = -1;
      return;
    }
    f.tap = cursor.tap;
    f.slice = cursor.slice;
    cursor.slice += (slices_of(operand, f.tap) - f.slice + Config::kTeams - 1) / Config::kTeams *
                    Config::kTeams;
    const std::uint32_t mine = group == 0 ? cursor.tile.masks[0] : cursor.tile.masks[1];
    f.active = Config::kGroups == 1 || (mine >> f.tap & 1);
    if (f.active) {
      const auto slot = static_cast<std::uint32_t>(cursor.tile.slot + first_row);
      const std::uint32_t at = static_cast<std::uint32_t>(f.tap) * operand.neighbour_pitch + slot;
      const int4* from = reinterpret_cast<const int4*>(
          is_own(operand, f.tap) ? operand.slot_rows + slot : operand.neighbours + at);
#pragma unroll
      for (int i = 0; i < kRowsPerLane / 4; ++i) {
        const int4 four = __ldg(from + i);
        f.index[4 * i] = four.x;
        f.index[4 * i + 1] = four.y;
        f.index[4 * i + 2] = four.z;
        f.index[4 * i + 3] = four.w;
      }
    }
  }

  // Copies of the indices of a tap, which wait for them: registers that were loaded share a
  // scoreboard, so whoever uses them behind the next fetch would wait for that, too. `zero` is 0,
  // but the compiler does not know, or there would be no copies.
  static __device__ __forceinline__ Fetched settled(Fetched f, int zero) {
#pragma unroll
    for (int& index : f.index) index ^= zero;
    return f;
  }

  // Copies one slice of the lane's rows into the stage at `to`. Own rows are numbered as slots say,
  // with bits beside the number; they must not be looked at before they are used, or the fetch
  // waits.
  template <bool kOwn>
  __device__ __forceinline__ void copy_rows(const GatheredRows& operand, const Fetched& f,
                                            int slice, std::uint32_t to, std::uint32_t lane_offset,
                                            int chunk) const {
    const char* from[Config::kSpans];
#pragma unroll
    for (int span = 0; span < Config::kSpans; ++span) {
      // Past the last channel the weights are zero; the row's first span stands in for what is not
      // there.
      const std::uint32_t offset =
          (slice * Config::kSpans + span) * Config::kUsedBytes + chunk * 16;
      from[span] = operand.input + (offset < operand.row_bytes ? offset : 0);
    }
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      const int number = kOwn ? f.index[i] & kSlotRow : f.index[i];
      const std::uint64_t row =
          static_cast<std::uint64_t>(static_cast<std::uint32_t>(number)) * operand.pitch;
      // The lane's first row is a multiple of kRowsPerLane, so the swizzle of row first + i is that
      // of the first xor that of i.
      constexpr int kSpanBytes = Config::kSpanBytes;
      const std::uint32_t permuted =
          (to + lane_offset) ^ (swizzled_offset<kSpanBytes>(i, 0) - i * kSpanBytes);
#pragma unroll
      for (int span = 0; span < Config::kSpans; ++span) {
        ptx::copy_16_or_zero(permuted + i * kSpanBytes + span * Config::kSpanBytesA,
                             from[span] + row, f.index[i]);
      }
    }
  }

  // The same where the first two spans are one: eight lanes copy a row's 128 bytes; of its last 64
  // the lower four copy those of even rows, the upper four those of odd ones.
  template <bool kOwn>
  __device__ __forceinline__ void copy_paired_rows(const GatheredRows& operand, const Fetched& f,
                                                   int slice, std::uint32_t to,
                                                   std::uint32_t lane_offset, int chunk) const {
    constexpr int kBytes = Config::kFirstBytes, kLastBytes = Config::kSpanBytes;
    const auto piece = [&](std::uint32_t offset) {
      offset += slice * (kBytes + kLastBytes);
      return operand.input + (offset < operand.row_bytes ? offset : 0);
    };
    const auto copy = [&](std::uint32_t place, const char* from, int index) {
      const int number = kOwn ? index & kSlotRow : index;
      const std::uint64_t row =
          static_cast<std::uint64_t>(static_cast<std::uint32_t>(number)) * operand.pitch;
      ptx::copy_16_or_zero(place, from + row, index);
    };
    const char* const first = piece(chunk * 16);
    const char* const last = piece(kBytes + chunk % 4 * 16);
    const bool is_odd = chunk >= 4;
    // The lane's first row is a multiple of 16. Row i + 1 of the last span lies 64 bytes behind row
    // i, as chunk 4 lies behind chunk 0.
    const std::uint32_t first_to = to + lane_offset;
    const std::uint32_t last_to =
        to + 2 * Config::kSpanBytesA + lane_offset / kBytes * kLastBytes + chunk * 16;
#pragma unroll
    for (int i = 0; i < kRowsPerLane; i += 2) {
#pragma unroll
      for (int k = i; k < i + 2; ++k) {
        copy((first_to ^ (swizzled_offset<kBytes>(k, 0) - k * kBytes)) + k * kBytes, first,
             f.index[k]);
      }
      copy((last_to ^ (swizzled_offset<kLastBytes>(i, 0) - i * kLastBytes)) + i * kLastBytes, last,
           is_odd ? f.index[i + 1] : f.index[i]);
    }
  }

  __device__ __forceinline__ void gather(const TileList& tiles, const GatherOperand& operand,
                                         const CUtensorMap* weights, const CUtensorMap* own_weights,
                                         int first_column, int warp, int lane) const {
    const int team = warp / Config::kTeamWarps;
    const int warp_row = warp % Config::kTeamWarps * kRowsPerWarp, group = warp_row / kSlotGroup;
    const int chunk = lane % kLanesPerRow;
    const int first_row = warp_row + lane / kLanesPerRow * kRowsPerLane;
    const std::uint32_t lane_offset = swizzled_offset<Config::kFirstBytes>(first_row, chunk);
    const bool is_leader = warp % Config::kTeamWarps == 0 && lane == 0;
    Position at;
    at.parity = 1;
    at.advance(team);

    const auto fill_rows = [&]<bool kOwn>(const Fetched& f) {
      const GatheredRows& rows = kOwn ? operand.own : operand;
      const CUtensorMap* const map = kOwn ? own_weights : weights;
#pragma unroll 1
      for (int slice = f.slice; slice < rows.slices; slice += Config::kTeams) {
        ptx::barrier_wait(empty(at.stage), at.parity);
        const std::uint32_t to = stages + at.stage * Config::kStageBytes;
        if (is_leader) {
          ptx::barrier_arrive_expect(full(at.stage), Config::kStageBytesB);
#pragma unroll
          for (int span = 0; span < Config::kSpans; ++span) {
            ptx::tma_load_3d(to + Config::kStageBytesA + span * Config::kSpanBytesB, map,
                             full(at.stage), (slice * Config::kSpans + span) * Config::kUsedK,
                             kOwn ? 0 : f.tap, first_column);
          }
        }
        __syncwarp();
        if (f.active && (Config::kPairsSpans || chunk * 16 < Config::kUsedBytes)) {
          if constexpr (Config::kPairsSpans)
            copy_paired_rows<kOwn>(rows, f, slice, to, lane_offset, chunk);
          else
            copy_rows<kOwn>(rows, f, slice, to, lane_offset, chunk);
        }
        ptx::barrier_arrive_after_copies(full(at.stage));
        at.advance(Config::kTeams);
      }
    };
    const auto fill = [&](const Fetched& f) {
      if constexpr (Config::kTakesOwnRows) {
        if (is_own(operand, f.tap)) {
          fill_rows.template operator()<true>(f);
          return;
        }
      }
      fill_rows.template operator()<false>(f);
    };

    Cursor cursor(tiles, team, operand.slices);
    Fetched next;  // the indices of the next tap are under way while one is gathered
    fetch(operand, cursor, first_row, group, next);
    if (!operand.input_is_older) ptx::wait_for_predecessor();  // the map always is older
    if (warp == 0) ptx::allow_successor();
    if constexpr (Config::kSettlesIndices) {
      const int zero = static_cast<int>(operand.neighbour_pitch >> 31);
      while (next.tap >= 0) {
        const Fetched now = settled(next, zero);
        fetch(operand, cursor, first_row, group, next);
        fill(now);
      }
    } else {
      Fetched after;
      while (next.tap >= 0) {
        fetch(operand, cursor, first_row, group, after);
        fill(next);
        if (after.tap < 0) break;
        fetch(operand, cursor, first_row, group, next);
        fill(after);
      }
    }
    ptx::wait_all_copies();
  }

  // --- consumer warpgroups -----------------------------------------------------------------------
  __device__ __forceinline__ void release(int stage, int lane) const {
    if (lane == 0) ptx::barrier_arrive(empty(stage));
  }

  // Stages of a tile.
  __device__ __forceinline__ int steps_of(const TileRecord& tile,
                                          const GatherOperand& operand) const {
    const std::uint32_t taps = tile.masks[0] | tile.masks[1];
    const std::uint32_t own_tap = Config::kTakesOwnRows ? operand.own_tap : 0;
    return __popc(taps & ~own_tap) * operand.slices +
           ((taps & own_tap) != 0 ? operand.own.slices : 0);
  }

  // acc = the tile's sum for the 64 rows of `group`; zeros where none of them has a tap. Calls
  // `at_last` once, when the last product is under way and no stage is waited for any more.
  template <class AtLast>
  __device__ __forceinline__ void multiply_tile(const TileRecord& tile,
                                                const GatherOperand& operand, int group, int lane,
                                                Position& at,
                                                typename Mma::Sum (&acc)[Mma::kAccumulators],
                                                const AtLast& at_last) const {
    const std::uint64_t a =
        wgmma_descriptor<Config::kFirstBytes>(stages + group * kSlotGroup * Config::kFirstBytes);
    const std::uint64_t last_a = wgmma_descriptor<Config::kSpanBytes>(
        stages + 2 * Config::kSpanBytesA + group * kSlotGroup * Config::kSpanBytes);
    const std::uint64_t b = wgmma_descriptor<Config::kSpanBytes>(stages + Config::kStageBytesA);
    std::uint32_t left = tile.masks[0] | tile.masks[1];
    const std::uint32_t mine = group == 0 ? tile.masks[0] : tile.masks[1];
    int accumulate = 0, in_flight = -1;  // the stage that the WGMMAs not waited for read
    if (left == 0) at_last();
    while (left != 0) {
      const std::uint32_t tap = left & (0 - left);
      const bool active = Config::kGroups == 1 || (mine & tap) != 0;
      const bool is_own = Config::kTakesOwnRows && (tap & operand.own_tap) != 0;
      const int slices = is_own ? operand.own.slices : operand.slices;
      left &= left - 1;
#pragma unroll 1
      for (int slice = 0; slice < slices; ++slice) {
        ptx::barrier_wait(full(at.stage), at.parity);
        if (active) {
          ptx::fence_proxy_async();
          ptx::wgmma_fence();
          const std::uint32_t offset = at.stage * (Config::kStageBytes >> 4);
#pragma unroll
          for (int span = 0; span < Config::kSpans; ++span) {
#pragma unroll
            for (int k = 0; k < Config::kUsedK / Mma::kK; ++k) {
              const std::uint64_t of_a =
                  !Config::kPairsSpans
                      ? moved_descriptor(a, offset + span * (Config::kSpanBytesA >> 4) + 2 * k)
                  : span < 2
                      ? moved_descriptor(a, offset + span * (Config::kSpanBytes >> 4) + 2 * k)
                      : moved_descriptor(last_a, offset + 2 * k);
              Mma::issue(acc, of_a,
                         moved_descriptor(b, offset + span * (Config::kSpanBytesB >> 4) + 2 * k),
                         accumulate);
              accumulate = 1;
            }
          }
          ptx::wgmma_commit();
          if (left == 0 && slice + 1 == slices) at_last();
          if constexpr (Config::kReleasesEarly) {
            ptx::wgmma_wait<0>();
            release(at.stage, lane);
          } else {
            ptx::wgmma_wait<1>();
            if (in_flight >= 0) release(in_flight, lane);
            in_flight = at.stage;
          }
        } else {
          if (left == 0 && slice + 1 == slices) at_last();
          if (in_flight >= 0) {
            ptx::wgmma_wait<0>();
            release(in_flight, lane);
            in_flight = -1;
          }
          release(at.stage, lane);
        }
        at.advance();
      }
    }
    ptx::wgmma_wait<0>();
    if (in_flight >= 0) release(in_flight, lane);
    if (mine == 0) {
#pragma unroll
      for (auto& value : acc) value = 0;
    }
  }
};

}  // namespace gemm_core

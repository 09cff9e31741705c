// Steps that bring the rows of kernel maps into the order of the gather kernels (device_map.cuh):
// tap masks and how often each tap occurs, sorting keys, and, after one sort for all maps of a
// frame, slots and neighbours.
#pragma once
#include "gemm_core/collective/gather_table.hpp"
#include "sparseconv/cuda/map_source.cuh"

namespace sparseconv::cuda {

using gemm_core::kMaxMaskedTaps;

// Segments are runs of sorted rows: one a map in single order, four in planes (below, above, centre
// rows without a partial sum, centre rows with). A sorting key is segment << kSegmentShift |
// Gray-decoded mask.
inline constexpr int kMaxSegments = 31, kSegmentShift = 27, kPlaneSegments = 4;
inline constexpr std::uint32_t kLastKey = ~0u;  // of items that stand for no row

struct OrderJob {
  MapSource source;
  std::int32_t is_planes = 0, first_segment = 0;
  std::int64_t first_item =
      0;  // of its sorting items: capacity of the output, three times that in planes
  std::uint32_t* masks = nullptr;  // [output capacity]
  std::int32_t* counters =
      nullptr;  // [kCounters] rows with each tap, then rows of each segment; cleared
  std::int32_t* positions = nullptr;  // [32] place of a tap's bit in the sorting key
  // The result: gather_table.hpp.
  std::int64_t capacity = 0;
  std::int32_t *neighbours = nullptr, *rows = nullptr, *plane_begin = nullptr;
  std::uint32_t* group_masks = nullptr;  // cleared
};

struct FindMasks {
  const OrderJob* jobs;
  SPARSECONV_DEVICE std::int32_t* counters(int job) const { return jobs[job].counters; }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return jobs[job].source.output.size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active,
                                    std::int32_t* tally) const {
    const OrderJob& order = jobs[job];
    std::uint32_t mask = 0, segments = 0;
    if (is_active) {
      const std::int32_t taps = order.source.taps;
      with_finder(order.source, i, kAllPlanes, [&](auto& find) {
        if (taps == 27) {
          SPARSECONV_UNROLL
          for (int tap = 0; tap < 27; ++tap) mask |= (find.has(tap) ? 1u : 0u) << tap;
        } else {
          for (int tap = 0; tap < taps; ++tap) mask |= (find.has(tap) ? 1u : 0u) << tap;
        }
      });
      order.masks[i] = mask;
      segments = 1;
      if (order.is_planes != 0) {
        const bool has_below = (mask & plane_taps(0)) != 0, has_above = (mask & plane_taps(1)) != 0;
        segments =
            (has_below ? 1u : 0u) | (has_above ? 2u : 0u) | (has_below || has_above ? 8u : 4u);
      }
    }
    tally_bits(tally, mask);
    tally_bits(tally + kWarp, segments);
  }
};

// One warp a job. Places of taps by falling frequency, lower taps first among equals; in planes
// within the plane. And where the job's segments and planes begin.
struct Arrange {
  const OrderJob* jobs;
  std::int32_t count;
  std::int32_t* segment_begin;  // [kMaxSegments] in the sorted items
  SPARSECONV_DEVICE std::int32_t size(int) const { return count * kWarp; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const OrderJob& order = jobs[i / kWarp];
    const int lane = i % kWarp;
    if (lane < order.source.taps) place_tap(order, lane);
    // The last lane has no tap, or a tap of 32 and a little more to do.
    if (lane == kWarp - 1) place_segments(i / kWarp);
  }

 private:
  SPARSECONV_DEVICE static void place_tap(const OrderJob& order, int tap) {
    const std::int32_t frequency = order.counters[tap];
    int place = 0;
    SPARSECONV_UNROLL
    for (int other = 0; other < kWarp; ++other) {
      const std::int32_t f = order.counters[other];
      const bool is_rival =
          other < order.source.taps && (order.is_planes == 0 || other % 3 == tap % 3);
      place += is_rival && (f > frequency || (f == frequency && other < tap)) ? 1 : 0;
    }
    order.positions[tap] = place;
  }
  SPARSECONV_DEVICE static std::int32_t aligned(std::int32_t slot) {
    return (slot + gemm_core::kSlotAlignment - 1) / gemm_core::kSlotAlignment *
           gemm_core::kSlotAlignment;
  }
  SPARSECONV_DEVICE void place_segments(std::int32_t job) const {
    std::int32_t item = 0;
    for (std::int32_t j = 0; j < job; ++j) {
      SPARSECONV_UNROLL
      for (int s = 0; s < kPlaneSegments; ++s) item += jobs[j].counters[kWarp + s];
    }
    const OrderJob& order = jobs[job];
    std::int32_t rows[kPlaneSegments];
    for (int s = 0; s < kPlaneSegments; ++s) {
      rows[s] = order.counters[kWarp + s];
      if (order.is_planes != 0 || s == 0) segment_begin[order.first_segment + s] = item;
      item += rows[s];
    }
    std::int32_t* begin = order.plane_begin;
    begin[0] = 0;
    begin[1] = order.is_planes != 0 ? aligned(rows[0]) : 0;
    begin[2] = order.is_planes != 0 ? begin[1] + aligned(rows[1]) : 0;
    begin[3] = order.is_planes != 0 ? begin[2] + rows[2] : rows[0];
    begin[4] = order.is_planes != 0 ? begin[3] + rows[3] : rows[0];
  }
};

struct MakeSortingKeys {
  const OrderJob* jobs;
  std::uint32_t* keys;
  std::int32_t* items;
  SPARSECONV_DEVICE std::int32_t size(int job) const { return jobs[job].source.output.capacity; }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const OrderJob& order = jobs[job];
    const bool is_row = i < order.source.output.size();
    const std::uint32_t mask = is_row ? order.masks[i] : 0;
    if (order.is_planes == 0) {
      put(order, 0, i, is_row ? key_of(order, mask, ~0u, 0) : kLastKey);
      return;
    }
    const bool is_late = (mask & (plane_taps(0) | plane_taps(1))) != 0;
    for (int plane = 0; plane < 3; ++plane) {
      const bool is_kept = is_row && (plane == 2 || (mask & plane_taps(plane)) != 0);
      const int segment = plane == 2 && is_late ? 3 : plane;
      put(order, plane, i, is_kept ? key_of(order, mask, plane_taps(plane), segment) : kLastKey);
    }
  }

 private:
  SPARSECONV_DEVICE void put(const OrderJob& order, int part, std::int32_t i,
                             std::uint32_t key) const {
    const std::int64_t at =
        order.first_item + static_cast<std::int64_t>(part) * order.source.output.capacity + i;
    keys[at] = key;
    items[at] = i;
  }
  SPARSECONV_DEVICE static std::uint32_t key_of(const OrderJob& order, std::uint32_t mask,
                                                std::uint32_t taps, int segment) {
    std::uint32_t renumbered = 0;
    for (int tap = 0; tap < order.source.taps; ++tap) {
      renumbered |= ((mask & taps) >> tap & 1) << order.positions[tap];
    }
    for (int step = 1; step < kWarp; step *= 2) renumbered ^= renumbered >> step;
    // More than 27 taps: the most frequent ones tell rows apart the least.
    const int excess = order.source.taps > kSegmentShift ? order.source.taps - kSegmentShift : 0;
    return static_cast<std::uint32_t>(order.first_segment + segment) << kSegmentShift |
           renumbered >> excess;
  }
};

struct FillSlots {
  const OrderJob* jobs;
  const std::int32_t* items;  // sorted
  const std::int32_t* segment_begin;
  SPARSECONV_DEVICE std::int32_t size(int job) const {
    return static_cast<std::int32_t>(jobs[job].capacity);
  }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t slot, bool is_active) const {
    const OrderJob& order = jobs[job];
    std::uint32_t mask = 0;
    if (is_active) mask = fill(order, slot);
    if (is_active) warp_or(order.group_masks + slot / gemm_core::kSlotGroup, mask);
  }

 private:
  SPARSECONV_DEVICE std::uint32_t fill(const OrderJob& order, std::int32_t slot) const {
    const std::int32_t* begin = order.plane_begin;
    const int plane = slot < begin[1] ? 0 : slot < begin[2] ? 1 : 2;
    const std::int32_t within = slot - begin[plane];
    const std::int32_t rows = plane == 2 ? begin[4] - begin[2] : order.counters[kWarp + plane];
    const std::uint32_t taps = order.is_planes != 0 ? plane_taps(plane) : ~0u;
    if (within >= rows) {
      order.rows[slot] = -1;
      const bool is_padding = slot < begin[4] + gemm_core::kSlotAlignment;
      for (int tap = 0; tap < order.source.taps && is_padding; ++tap) {
        if ((taps >> tap & 1) != 0) order.neighbours[tap * order.capacity + slot] = -1;
      }
      return 0;
    }
    const std::int32_t i =
        items[segment_begin[order.first_segment + (order.is_planes != 0 ? plane : 0)] + within];
    const std::uint32_t mask = order.masks[i];
    std::int32_t entry = order.source.output_row(i);
    if (order.is_planes != 0 && plane == 2) {
      if ((mask & plane_taps(0)) != 0) entry |= gemm_core::kSlotBelow;
      if ((mask & plane_taps(1)) != 0) entry |= gemm_core::kSlotAbove;
    }
    order.rows[slot] = entry;
    std::int32_t* const column = order.neighbours + slot;
    const std::int64_t pitch = order.capacity;
    const std::int32_t count = order.source.taps;
    with_finder(order.source, i, order.is_planes != 0 ? plane : kAllPlanes, [&](auto& find) {
      if (count == 27) {
        SPARSECONV_UNROLL
        for (int tap = 0; tap < 27; ++tap) {
          if ((taps >> tap & 1) != 0) column[tap * pitch] = find(tap);
        }
      } else {
        for (int tap = 0; tap < count; ++tap) column[tap * pitch] = find(tap);
      }
    });
    return mask & taps;
  }
};

// Tables by output row.
struct CanonicalJob {
  MapSource source;
  std::int32_t* table = nullptr;  // [taps][pitch]
  std::int64_t pitch = 0;
};

struct FillCanonical {
  const CanonicalJob* jobs;
  SPARSECONV_DEVICE std::int32_t size(int job) const { return jobs[job].source.output.size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const CanonicalJob& canonical = jobs[job];
    std::int32_t* const column = canonical.table + canonical.source.output_row(i);
    const std::int64_t pitch = canonical.pitch;
    const std::int32_t count = canonical.source.taps;
    with_finder(canonical.source, i, kAllPlanes, [&](auto& find) {
      for (int tap = 0; tap < count; ++tap) column[tap * pitch] = find(tap);
    });
  }
};

// Pair (in, out, tap) of a table becomes (out, in, tap); the result holds -1 before.
struct InvertJob {
  const std::int32_t* forward = nullptr;
  std::int64_t forward_pitch = 0;
  CoordinateView output;  // of the forward map
  std::int32_t taps = 0;
  std::int32_t* inverse = nullptr;
  std::int64_t inverse_pitch = 0;
};

struct InvertTables {
  const InvertJob* jobs;
  SPARSECONV_DEVICE std::int32_t size(int job) const { return jobs[job].output.size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t out, bool is_active) const {
    if (!is_active) return;
    const InvertJob& invert = jobs[job];
    for (int tap = 0; tap < invert.taps; ++tap) {
      const std::int32_t in = invert.forward[tap * invert.forward_pitch + out];
      if (in >= 0) invert.inverse[tap * invert.inverse_pitch + in] = out;
    }
  }
};

}  // namespace sparseconv::cuda

// Steps that bring the rows of kernel maps into the order of the gather kernels (device_map.cuh):
// neighbours by row, tap masks and how often each tap occurs, the order itself, and slots. Maps of
// a few hundred thousand rows are ordered by counting, each by itself (counted_order.cuh); larger
// ones by sorting keys of all maps of a frame at once.
#pragma once
#include "gemm_core/collective/gather_table.hpp"
#include "sparseconv/cuda/maps/map_source.cuh"

namespace sparseconv::cuda {

using gemm_core::kMaxMaskedTaps;

// Segments are runs of sorted rows: one a map in single order, four in planes (below, above, centre
// rows without a partial sum, centre rows with). A key is a Gray-decoded mask, a sorting key
// segment
// << kSegmentShift | key.
inline constexpr int kMaxSegments = 31, kSegmentShift = 27, kPlaneSegments = 4;
inline constexpr std::uint32_t kLastKey = ~0u;  // of items that stand for no slot
static_assert(kMaxSegments <= kMaxJobs);
// Bits of a key that a pass of counting looks at; in centre planes one more says which rows are
// late.
inline constexpr int kOrderDigitBits = 9;
// Rows of a map that is counted, at most: counts of a thread block have 16 bits.
inline constexpr std::int64_t kMaxCountedRows = 8 * ((1 << 16) - 1024);

// Planes of 27 taps along z: 0 below (tap % 3 == 0), 1 above (2), 2 centre (1).
SPARSECONV_DEVICE constexpr std::uint32_t plane_taps(int plane) {
  return plane == 0 ? 0x1249249u : plane == 1 ? 0x4924924u : 0x2492492u;
}

// The j-th of a plane's nine taps is 3 j + this.
SPARSECONV_DEVICE constexpr int first_tap_of(int plane) { return plane == 0 ? 0 : 3 - plane; }
inline constexpr int kPlaneQuads = 3;  // that hold nine taps

struct alignas(16) Quad {
  std::int32_t value[4];
};

// A row between two passes of counting.
struct alignas(8) KeyedRank {
  std::uint32_t key;
  std::int32_t rank;
};

struct OrderJob {
  MapSource source;
  std::int32_t is_planes = 0, first_segment = 0;
  // Between the steps. Neighbours by row, all taps of a row together, in planes the taps of each
  // plane in quads of their own: slots fetch them from there.
  Quad* staged = nullptr;  // [output capacity][quads]
  std::int32_t quads = 0;
  std::uint32_t* masks = nullptr;  // [output capacity]
  std::int32_t* counters =
      nullptr;  // [kCounters] rows with each tap, then rows of each segment; cleared
  std::int32_t is_counted = 0;
  // Counted: ranks of the rows in order, part after part. With several passes, what is under way.
  std::int32_t* sorted = nullptr;  // [parts][output capacity]
  KeyedRank* under_way[2] = {};    // [output capacity]
  // Sorted.
  std::uint32_t* key_bits = nullptr;   // [kWarp] what a tap adds (by exclusive or) to a key
  std::int32_t* item_begin = nullptr;  // [1] of the job's sorting items
  // The result: gather_table.hpp.
  std::int64_t capacity = 0;
  std::int32_t *neighbours = nullptr, *rows = nullptr, *plane_begin = nullptr;
  std::uint32_t* group_masks = nullptr;  // cleared

  SPARSECONV_DEVICE std::int32_t parts() const { return is_planes != 0 ? 3 : 1; }
  // Taps that make a key, and passes over its digits.
  SPARSECONV_DEVICE std::int32_t key_taps() const {
    return is_planes != 0 ? 9 : source.taps < kSegmentShift ? source.taps : kSegmentShift;
  }
  SPARSECONV_DEVICE std::int32_t passes() const {
    return (key_taps() + kOrderDigitBits - 1) / kOrderDigitBits;
  }
};
using OrderJobs = JobList<OrderJob>;

// Windows and other sources in kernels of their own: the first need many registers.
template <bool kWindow>
struct FindNeighbours {
  static constexpr int kBlocksPerMultiprocessor = 4;
  static constexpr int kMemoryWords = kWindow ? WindowFinder::kWords : 0;
  OrderJobs orders{};
  SPARSECONV_DEVICE std::int32_t jobs() const { return orders.count; }
  std::int32_t capacity(int job) const { return orders[job].source.output.capacity; }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return orders[job].source.output.size(); }
  SPARSECONV_DEVICE std::int32_t* counters(int job) const { return orders[job].counters; }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active,
                                    const StepContext& context) const {
    const OrderJob& order = orders[job];
    std::uint32_t mask = 0, segments = 0;
    if (is_active) {
      Quad* const staged = order.staged + static_cast<std::int64_t>(i) * order.quads;
      const auto* const rows = order.source.input_rows();
      if constexpr (kWindow) {
        WindowFinder find(order.source, i, context);
        if (order.is_planes != 0) {
          SPARSECONV_UNROLL
          for (int q = 0; q < 3 * kPlaneQuads; ++q)
            mask |= stage(find, q, PlaneTap{}, 27, rows, staged);
        } else {
          SPARSECONV_UNROLL
          for (int q = 0; q < 7; ++q) mask |= stage(find, q, TapInTurn{}, 27, rows, staged);
        }
      } else {
        with_other_finder(order.source, i, [&](auto& find) {
          for (int q = 0; q < order.quads; ++q) {
            mask |= order.is_planes != 0
                        ? stage(find, q, PlaneTap{}, 27, rows, staged)
                        : stage(find, q, TapInTurn{}, order.source.taps, rows, staged);
          }
        });
      }
      order.masks[i] = mask;
      segments = 1;
      if (order.is_planes != 0) {
        const bool has_below = (mask & plane_taps(0)) != 0, has_above = (mask & plane_taps(1)) != 0;
        segments =
            (has_below ? 1u : 0u) | (has_above ? 2u : 0u) | (has_below || has_above ? 8u : 4u);
      }
    }
    tally_bits<kWindow ? 27 : kWarp>(context.tally, mask);
    tally_bits<kPlaneSegments>(context.tally + kWarp, segments);
  }

 private:
  // Which tap the k-th of a quad is; beyond the last: none.
  struct TapInTurn {
    SPARSECONV_DEVICE constexpr int operator()(int q, int k) const { return 4 * q + k; }
  };
  struct PlaneTap {
    SPARSECONV_DEVICE constexpr int operator()(int q, int k) const {
      const int j = 4 * (q % kPlaneQuads) + k;
      return j < 9 ? 3 * j + first_tap_of(q / kPlaneQuads) : 27;
    }
  };
  // Four taps; which of them are there.
  template <class Finder, class TapOf>
  SPARSECONV_DEVICE static std::uint32_t stage(Finder& find, int q, const TapOf& tap_of, int taps,
                                               const std::int32_t* rows, Quad* staged) {
    Quad quad;
    std::uint32_t mask = 0;
    SPARSECONV_UNROLL
    for (int k = 0; k < 4; ++k) {
      const int tap = tap_of(q, k);
      quad.value[k] = tap < taps ? find(tap) : -1;
      mask |= (quad.value[k] >= 0 ? 1u : 0u) << (tap & (kWarp - 1));
    }
    if (rows != nullptr) {
      SPARSECONV_UNROLL
      for (int k = 0; k < 4; ++k) quad.value[k] = quad.value[k] >= 0 ? rows[quad.value[k]] : -1;
    }
    staged[q] = quad;
    return mask;
  }
};

// What a tap adds (by exclusive or) to a key. Taps have places by falling frequency, lower taps
// first among equals; in planes within the plane.
SPARSECONV_DEVICE inline std::uint32_t key_bits_of(const OrderJob& order, int tap) {
  const std::int32_t frequency = order.counters[tap];
  int place = 0;
  SPARSECONV_UNROLL
  for (int other = 0; other < kWarp; ++other) {
    const std::int32_t f = order.counters[other];
    const bool is_rival =
        other < order.source.taps && (order.is_planes == 0 || other % 3 == tap % 3);
    place += is_rival && (f > frequency || (f == frequency && other < tap)) ? 1 : 0;
  }
  // Gray decoding makes a bit invert all bits below it. With more than 27 taps the most frequent
  // ones, which tell rows apart the least, are left out.
  const int excess = order.source.taps > kSegmentShift ? order.source.taps - kSegmentShift : 0;
  return static_cast<std::uint32_t>((std::uint64_t{2} << place) - 1) >> excess;
}
SPARSECONV_DEVICE inline std::uint32_t key_of(const std::uint32_t* key_bits, std::uint32_t mask) {
  std::uint32_t key = 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) key ^= key_bits[lowest_bit(left)];
  return key;
}

// Slots where planes begin.
SPARSECONV_DEVICE inline void write_plane_begin(const OrderJob& order) {
  const auto aligned = [](std::int32_t slot) {
    return (slot + gemm_core::kSlotAlignment - 1) / gemm_core::kSlotAlignment *
           gemm_core::kSlotAlignment;
  };
  const std::int32_t* const rows = order.counters + kWarp;
  std::int32_t* begin = order.plane_begin;
  begin[0] = 0;
  begin[1] = order.is_planes != 0 ? aligned(rows[0]) : 0;
  begin[2] = order.is_planes != 0 ? begin[1] + aligned(rows[1]) : 0;
  begin[3] = order.is_planes != 0 ? begin[2] + rows[2] : rows[0];
  begin[4] = order.is_planes != 0 ? begin[3] + rows[3] : rows[0];
}

// Of the rows of a counted part (below, above, centre; or all): which of them there are, and the
// key that puts them in order.
struct CountedPart {
  std::uint32_t taps = ~0u;
  bool is_outer = false, is_centre = false;
  SPARSECONV_DEVICE static CountedPart of(const OrderJob& order, int part) {
    if (order.is_planes == 0) return {};
    return {plane_taps(part), part < 2, part == 2};
  }
  SPARSECONV_DEVICE bool has(std::uint32_t mask) const { return !is_outer || (mask & taps) != 0; }
  // In a centre plane, rows with partial sums come after those without.
  SPARSECONV_DEVICE bool is_late(std::uint32_t mask) const {
    return is_centre && (mask & (plane_taps(0) | plane_taps(1))) != 0;
  }
};

// One warp a job: what taps add to keys, and where the job's items, segments and planes begin.
struct Arrange {
  OrderJobs orders;
  std::int32_t* segment_begin;  // [kMaxSegments] in the sorted items
  std::int32_t* items;          // [1] of all jobs
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return orders.count * kWarp; }
  SPARSECONV_DEVICE std::int32_t size(int) const { return orders.count * kWarp; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const int job = i / kWarp, lane = i % kWarp;
    if (lane < orders[job].source.taps) orders[job].key_bits[lane] = key_bits_of(orders[job], lane);
    if (lane == kWarp - 1) place_segments(job);
  }

 private:
  SPARSECONV_DEVICE void place_segments(int job) const {
    std::int32_t sorted = 0, item = 0;  // before this job
    for (int j = 0; j < job; ++j) {
      SPARSECONV_UNROLL
      for (int s = 0; s < kPlaneSegments; ++s) sorted += orders[j].counters[kWarp + s];
      item += orders[j].source.output.size() * orders[j].parts();
    }
    const OrderJob& order = orders[job];
    *order.item_begin = item;
    if (job + 1 == orders.count) *items = item + order.source.output.size() * order.parts();
    for (int s = 0; s < kPlaneSegments; ++s) {
      if (order.is_planes != 0 || s == 0) segment_begin[order.first_segment + s] = sorted;
      sorted += order.counters[kWarp + s];
    }
    write_plane_begin(order);
  }
};

struct MakeSortingKeys {
  OrderJobs orders;
  std::uint32_t* keys;
  std::int32_t* values;
  SPARSECONV_DEVICE std::int32_t jobs() const { return orders.count; }
  std::int32_t capacity(int job) const { return orders[job].source.output.capacity; }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return orders[job].source.output.size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const OrderJob& order = orders[job];
    const std::uint32_t mask = order.masks[i];
    const std::int32_t rows = order.source.output.size(), at = *order.item_begin + i;
    if (order.is_planes == 0) {
      put(at, sorting_key(order, mask, 0), i);
      return;
    }
    const bool is_late = (mask & (plane_taps(0) | plane_taps(1))) != 0;
    for (int plane = 0; plane < 3; ++plane) {
      const bool is_kept = plane == 2 || (mask & plane_taps(plane)) != 0;
      const int segment = plane == 2 && is_late ? 3 : plane;
      put(at + plane * rows,
          is_kept ? sorting_key(order, mask & plane_taps(plane), segment) : kLastKey, i);
    }
  }

 private:
  SPARSECONV_DEVICE void put(std::int32_t at, std::uint32_t key, std::int32_t value) const {
    keys[at] = key;
    values[at] = value;
  }
  SPARSECONV_DEVICE static std::uint32_t sorting_key(const OrderJob& order, std::uint32_t mask,
                                                     int segment) {
    return static_cast<std::uint32_t>(order.first_segment + segment) << kSegmentShift |
           key_of(order.key_bits, mask);
  }
};

// Slots of a job, as steps visit them.
struct OrderSlots {
  OrderJobs orders;
  const std::int32_t* items;  // of orders that were sorted
  const std::int32_t* segment_begin;

  SPARSECONV_DEVICE std::int32_t jobs() const { return orders.count; }
  std::int32_t capacity(int job) const { return static_cast<std::int32_t>(orders[job].capacity); }
  // What a kernel may look at: padding up to the alignment, and one group more.
  SPARSECONV_DEVICE std::int32_t size(int job) const {
    const std::int64_t end = orders[job].plane_begin[4] + 2 * gemm_core::kSlotAlignment - 1;
    const std::int64_t aligned = end / gemm_core::kSlotAlignment * gemm_core::kSlotAlignment;
    return static_cast<std::int32_t>(aligned < orders[job].capacity ? aligned
                                                                    : orders[job].capacity);
  }

  // Adds a row's taps to those of its group.
  SPARSECONV_DEVICE static void join(const OrderJob& order, std::int32_t slot, std::uint32_t mask) {
    warp_or(order.group_masks + slot / gemm_core::kSlotGroup, mask);
  }

  struct Place {
    int plane;
    std::int32_t rank;  // of the row as steps visit them; -1: padding
    std::uint32_t taps;
  };
  SPARSECONV_DEVICE Place place(const OrderJob& order, std::int32_t slot) const {
    const std::int32_t* begin = order.plane_begin;
    const int plane = slot < begin[1] ? 0 : slot < begin[2] ? 1 : 2;
    const std::int32_t within = slot - begin[plane];
    const std::int32_t rows = plane == 2 ? begin[4] - begin[2] : order.counters[kWarp + plane];
    const int part = order.is_planes != 0 ? plane : 0;
    Place at{plane, -1, order.is_planes != 0 ? plane_taps(plane) : ~0u};
    if (within >= rows) return at;
    at.rank = order.is_counted != 0
                  ? order.sorted[std::int64_t{part} * order.source.output.capacity + within]
                  : items[segment_begin[order.first_segment + part] + within];
    return at;
  }
};

// Which taps the rows of each group of slots have, before the slots are filled.
struct JoinMasks {
  OrderSlots slots;
  SPARSECONV_DEVICE std::int32_t jobs() const { return slots.jobs(); }
  std::int32_t capacity(int job) const { return slots.capacity(job); }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return slots.size(job); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t slot, bool is_active) const {
    if (!is_active) return;  // sizes are whole groups
    const OrderJob& order = slots.orders[job];
    const OrderSlots::Place at = slots.place(order, slot);
    slots.join(order, slot, at.rank < 0 ? 0 : order.masks[at.rank] & at.taps);
  }
};

// Reads nothing of the launch before it (tile schedules, or JoinMasks), whose start says that all
// before that one are done: so it goes on beside that launch, and ends after it.
template <bool kIsBeside>
struct FillSlots {
  static constexpr int kBlocksPerMultiprocessor = 5;
  static constexpr bool kWaitsLast = kIsBeside;
  OrderSlots slots;
  SPARSECONV_DEVICE std::int32_t jobs() const { return slots.jobs(); }
  std::int32_t capacity(int job) const { return slots.capacity(job); }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return slots.size(job); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t slot, bool is_active) const {
    if (!is_active) return;
    const OrderJob& order = slots.orders[job];
    const auto [plane, i, taps] = slots.place(order, slot);
    const std::uint32_t mask = i < 0 ? 0 : order.masks[i];
    if (!kIsBeside) slots.join(order, slot, mask & taps);
    std::int32_t* const column = order.neighbours + slot;
    if (i < 0) {
      order.rows[slot] = -1;
      for (int tap = 0; tap < order.source.taps; ++tap) {
        if ((taps >> tap & 1) != 0) column[tap * order.capacity] = -1;
      }
      return;
    }
    const Quad* const staged = order.staged + static_cast<std::int64_t>(i) * order.quads;
    if (order.is_planes != 0) {
      Quad quads[kPlaneQuads];
      SPARSECONV_UNROLL
      for (int q = 0; q < kPlaneQuads; ++q) quads[q] = staged[plane * kPlaneQuads + q];
      std::int32_t* const first = column + first_tap_of(plane) * order.capacity;
      SPARSECONV_UNROLL
      for (int j = 0; j < 9; ++j) first[3 * j * order.capacity] = quads[j / 4].value[j % 4];
    } else if (order.source.taps == 27) {
      Quad quads[7];
      SPARSECONV_UNROLL
      for (int q = 0; q < 7; ++q) quads[q] = staged[q];
      SPARSECONV_UNROLL
      for (int tap = 0; tap < 27; ++tap)
        column[tap * order.capacity] = quads[tap / 4].value[tap % 4];
    } else {
      for (int q = 0; q < order.quads; ++q) {
        const Quad quad = staged[q];
        SPARSECONV_UNROLL
        for (int k = 0; k < 4; ++k) {
          if (4 * q + k < order.source.taps) column[(4 * q + k) * order.capacity] = quad.value[k];
        }
      }
    }
    std::int32_t entry = order.source.output_row(i);
    if (order.is_planes != 0 && plane == 2) {
      if ((mask & plane_taps(0)) != 0) entry |= gemm_core::kSlotBelow;
      if ((mask & plane_taps(1)) != 0) entry |= gemm_core::kSlotAbove;
    }
    order.rows[slot] = entry;
  }
};

}  // namespace sparseconv::cuda

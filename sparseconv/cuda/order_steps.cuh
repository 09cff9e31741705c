// Steps that bring the rows of kernel maps into the order of the gather kernels (device_map.cuh):
// neighbours by row, tap masks and how often each tap occurs, sorting keys, and, after one sort for
// all maps of a frame, slots.
#pragma once
#include "gemm_core/collective/gather_table.hpp"
#include "sparseconv/cuda/map_source.cuh"

namespace sparseconv::cuda {

using gemm_core::kMaxMaskedTaps;

// Segments are runs of sorted rows: one a map in single order, four in planes (below, above, centre
// rows without a partial sum, centre rows with). A sorting key is segment << kSegmentShift |
// Gray-decoded mask.
inline constexpr int kMaxSegments = 31, kSegmentShift = 27, kPlaneSegments = 4;
inline constexpr std::uint32_t kLastKey = ~0u;  // of items that stand for no slot
static_assert(kMaxSegments <= kMaxJobs);

// Planes of 27 taps along z: 0 below (tap % 3 == 0), 1 above (2), 2 centre (1).
SPARSECONV_DEVICE constexpr std::uint32_t plane_taps(int plane) {
  return plane == 0 ? 0x1249249u : plane == 1 ? 0x4924924u : 0x2492492u;
}

struct alignas(16) Quad {
  std::int32_t value[4];
};

struct OrderJob {
  MapSource source;
  std::int32_t is_planes = 0, first_segment = 0;
  // Between the steps. Neighbours by row, all taps of a row together: slots fetch them from there.
  Quad* staged = nullptr;  // [output capacity][quads]
  std::int32_t quads = 0;
  std::uint32_t* masks = nullptr;  // [output capacity]
  std::int32_t* counters =
      nullptr;  // [kCounters] rows with each tap, then rows of each segment; cleared
  std::uint32_t* key_bits = nullptr;   // [kWarp] what a tap adds (by exclusive or) to a sorting key
  std::int32_t* item_begin = nullptr;  // [1] of the job's sorting items
  // The result: gather_table.hpp.
  std::int64_t capacity = 0;
  std::int32_t *neighbours = nullptr, *rows = nullptr, *plane_begin = nullptr;
  std::uint32_t* group_masks = nullptr;  // cleared

  SPARSECONV_DEVICE std::int32_t parts() const { return is_planes != 0 ? 3 : 1; }
};
using OrderJobs = JobList<OrderJob>;

// Adjacent sources and others in kernels of their own: the first need many registers.
template <bool kAdjacent>
struct FindNeighbours {
  static constexpr int kBlocksPerMultiprocessor = 4;
  static constexpr int kMemoryWords = kAdjacent ? AdjacentFinder::kWords : 0;
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
      if constexpr (kAdjacent) {
        AdjacentFinder find(order.source, i, context);
        SPARSECONV_UNROLL
        for (int q = 0; q < 7; ++q) mask |= stage(find, q, 27, order.source.input_rows(), staged);
      } else {
        with_other_finder(order.source, i, [&](auto& find) {
          for (int q = 0; q < order.quads; ++q) {
            mask |= stage(find, q, order.source.taps, order.source.input_rows(), staged);
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
    tally_bits<kAdjacent ? 27 : kWarp>(context.tally, mask);
    tally_bits<kPlaneSegments>(context.tally + kWarp, segments);
  }

 private:
  // Four taps; which of them are there.
  template <class Finder>
  SPARSECONV_DEVICE static std::uint32_t stage(Finder& find, int q, int taps,
                                               const std::int32_t* rows, Quad* staged) {
    Quad quad;
    std::uint32_t mask = 0;
    SPARSECONV_UNROLL
    for (int k = 0; k < 4; ++k) {
      const int tap = 4 * q + k;
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

// One warp a job. Places of taps by falling frequency, lower taps first among equals; in planes
// within the plane. And where the job's items, segments and planes begin.
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
    if (lane < orders[job].source.taps) place_tap(orders[job], lane);
    if (lane == kWarp - 1) place_segments(job);
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
    // Gray decoding makes a bit invert all bits below it. With more than 27 taps the most frequent
    // ones, which tell rows apart the least, are left out.
    const int excess = order.source.taps > kSegmentShift ? order.source.taps - kSegmentShift : 0;
    order.key_bits[tap] = static_cast<std::uint32_t>((std::uint64_t{2} << place) - 1) >> excess;
  }
  SPARSECONV_DEVICE static std::int32_t aligned(std::int32_t slot) {
    return (slot + gemm_core::kSlotAlignment - 1) / gemm_core::kSlotAlignment *
           gemm_core::kSlotAlignment;
  }
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
    std::int32_t rows[kPlaneSegments];
    for (int s = 0; s < kPlaneSegments; ++s) {
      rows[s] = order.counters[kWarp + s];
      if (order.is_planes != 0 || s == 0) segment_begin[order.first_segment + s] = sorted;
      sorted += rows[s];
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
      put(at, key_of(order, mask, ~0u, 0), i);
      return;
    }
    const bool is_late = (mask & (plane_taps(0) | plane_taps(1))) != 0;
    for (int plane = 0; plane < 3; ++plane) {
      const bool is_kept = plane == 2 || (mask & plane_taps(plane)) != 0;
      const int segment = plane == 2 && is_late ? 3 : plane;
      put(at + plane * rows, is_kept ? key_of(order, mask, plane_taps(plane), segment) : kLastKey,
          i);
    }
  }

 private:
  SPARSECONV_DEVICE void put(std::int32_t at, std::uint32_t key, std::int32_t value) const {
    keys[at] = key;
    values[at] = value;
  }
  SPARSECONV_DEVICE static std::uint32_t key_of(const OrderJob& order, std::uint32_t mask,
                                                std::uint32_t taps, int segment) {
    std::uint32_t bits = 0;
    for (std::uint32_t left = mask & taps; left != 0; left &= left - 1)
      bits ^= order.key_bits[lowest_bit(left)];
    return static_cast<std::uint32_t>(order.first_segment + segment) << kSegmentShift | bits;
  }
};

struct FillSlots {
  static constexpr int kBlocksPerMultiprocessor = 5;
  OrderJobs orders;
  const std::int32_t* items;  // sorted
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
  SPARSECONV_DEVICE void operator()(int job, std::int32_t slot, bool is_active) const {
    const OrderJob& order = orders[job];
    std::uint32_t mask = 0;
    if (is_active) mask = fill(order, slot);
    if (is_active)
      warp_or(order.group_masks + slot / gemm_core::kSlotGroup, mask);  // sizes are whole groups
  }

 private:
  SPARSECONV_DEVICE std::uint32_t fill(const OrderJob& order, std::int32_t slot) const {
    const std::int32_t* begin = order.plane_begin;
    const int plane = slot < begin[1] ? 0 : slot < begin[2] ? 1 : 2;
    const std::int32_t within = slot - begin[plane];
    const std::int32_t rows = plane == 2 ? begin[4] - begin[2] : order.counters[kWarp + plane];
    const std::uint32_t taps = order.is_planes != 0 ? plane_taps(plane) : ~0u;
    std::int32_t* const column = order.neighbours + slot;
    if (within >= rows) {
      order.rows[slot] = -1;
      for (int tap = 0; tap < order.source.taps; ++tap) {
        if ((taps >> tap & 1) != 0) column[tap * order.capacity] = -1;
      }
      return 0;
    }
    const std::int32_t i =
        items[segment_begin[order.first_segment + (order.is_planes != 0 ? plane : 0)] + within];
    const std::uint32_t mask = order.masks[i];
    const Quad* const staged = order.staged + static_cast<std::int64_t>(i) * order.quads;
    if (order.source.taps == 27) {
      Quad quads[7];
      SPARSECONV_UNROLL
      for (int q = 0; q < 7; ++q) quads[q] = staged[q];
      SPARSECONV_UNROLL
      for (int tap = 0; tap < 27; ++tap) {
        if ((taps >> tap & 1) != 0) column[tap * order.capacity] = quads[tap / 4].value[tap % 4];
      }
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
  static constexpr int kMemoryWords = AdjacentFinder::kWords;
  JobList<CanonicalJob> tables;
  SPARSECONV_DEVICE std::int32_t jobs() const { return tables.count; }
  std::int32_t capacity(int job) const { return tables[job].source.output.capacity; }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return tables[job].source.output.size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active,
                                    const StepContext& context) const {
    if (!is_active) return;
    const CanonicalJob& canonical = tables[job];
    std::int32_t* const column = canonical.table + canonical.source.output_row(i);
    const std::int32_t* const rows = canonical.source.input_rows();
    with_finder(canonical.source, i, context, [&](auto& find) {
      const auto put = [&](int tap) {
        std::int32_t in = find(tap);
        if (rows != nullptr && in >= 0) in = rows[in];
        column[tap * canonical.pitch] = in;
      };
      if (canonical.source.taps == 27) {
        SPARSECONV_UNROLL
        for (int tap = 0; tap < 27; ++tap) put(tap);
      } else {
        for (int tap = 0; tap < canonical.source.taps; ++tap) put(tap);
      }
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
  JobList<InvertJob> tables;
  SPARSECONV_DEVICE std::int32_t jobs() const { return tables.count; }
  std::int32_t capacity(int job) const { return tables[job].output.capacity; }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return tables[job].output.size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t out, bool is_active) const {
    if (!is_active) return;
    const InvertJob& invert = tables[job];
    for (int tap = 0; tap < invert.taps; ++tap) {
      const std::int32_t in = invert.forward[tap * invert.forward_pitch + out];
      if (in >= 0) invert.inverse[tap * invert.inverse_pitch + in] = out;
    }
  }
};

}  // namespace sparseconv::cuda

// Steps that bring the rows of kernel maps into the order of the gather kernels (device_map.cuh):
// neighbours by row, tap masks and how often each tap occurs, and the order itself; slots follow in
// slot_steps.cuh. Maps of
// a few hundred thousand rows are ordered by counting, each by itself (bucket_order.cuh); larger
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
// Keys of at most so many bits are counted; in centre planes one more says which rows are late.
// Longer ones are sampled: buckets between splitters, and buckets of their own for keys that equal
// one.
inline constexpr int kOrderDigitBits = 9;
inline constexpr int kSplitters = 1024, kOrderBuckets = 2 * kSplitters, kNoBucket = 0xffff;
static_assert(2 << kOrderDigitBits <= kOrderBuckets);
// Rows of a map that a thread block of 512 moves: those of a thread stay in registers.
inline constexpr int kHeldRows = 12, kUsualBlockRows = 3072, kMostBlockRows = 512 * kHeldRows;
// Rows of a map that is counted, at most: every block adds the counts of all.
inline constexpr std::int64_t kMaxCountedRows = std::int64_t{1} << 19;
constexpr std::int32_t order_blocks(std::int64_t rows) {
  const std::int64_t usual = (rows + kUsualBlockRows - 1) / kUsualBlockRows,
                     least = (rows + kMostBlockRows - 1) / kMostBlockRows;
  const std::int64_t blocks = usual < 40 ? usual : least < 40 ? 40 : least;
  return static_cast<std::int32_t>(blocks > 0 ? blocks : 1);
}

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

// A row in a bucket that is to be sorted.
struct alignas(8) KeyedRank {
  std::uint32_t key;
  std::int32_t rank;
};

struct OrderJob {
  MapSource source;
  std::int32_t is_planes = 0, first_segment = 0;
  // Between the steps. Neighbours by row, all taps of a row together, in planes the taps of each
  // plane in quads of their own: slots fetch them from there. An even number of quads.
  Quad* staged = nullptr;  // [output capacity][quads]
  std::int32_t quads = 0;
  std::uint32_t* masks = nullptr;  // [output capacity]
  std::int32_t* counters =
      nullptr;  // [kCounters] rows with each tap, then rows of each segment; cleared
  std::int32_t is_counted = 0;
  // Counted: ranks of the rows in order, part after part; buckets of the rows, and of how many rows
  // of each thread block.
  std::int32_t* sorted = nullptr;    // [parts][output capacity]
  std::uint16_t* buckets = nullptr;  // [parts][output capacity]
  std::uint16_t* counts = nullptr;   // [parts][blocks][kOrderBuckets]
  std::int32_t blocks = 1;
  std::uint32_t* key_table = nullptr;  // [4][256] keys of the bytes of masks
  // Sampled.
  std::uint32_t *keys = nullptr, *splitters = nullptr;  // [output capacity], [kSplitters]
  std::int32_t* bucket_begin = nullptr;                 // [kOrderBuckets + 1]
  KeyedRank* under_way = nullptr;                       // [output capacity]
  // Sorted.
  std::uint32_t* key_bits = nullptr;   // [kWarp] what a tap adds (by exclusive or) to a key
  std::int32_t* item_begin = nullptr;  // [1] of the job's sorting items
  // The result: gather_table.hpp.
  std::int64_t capacity = 0;
  std::int32_t *neighbours = nullptr, *rows = nullptr, *plane_begin = nullptr;
  std::uint32_t* group_masks = nullptr;  // cleared

  SPARSECONV_DEVICE std::int32_t parts() const { return is_planes != 0 ? 3 : 1; }
  SPARSECONV_DEVICE bool is_sampled() const {
    return is_planes == 0 && source.taps > kOrderDigitBits;
  }
};
using OrderJobs = JobList<OrderJob>;

// Two neighbouring quads of the thread's row, stored. Threads of a warp call it together, with rows
// next to each other: two of them store 32 bytes of one row, then of the other, as halves of
// sectors cost as much as whole ones.
SPARSECONV_DEVICE inline void store_quads(Quad* to, [[maybe_unused]] std::int32_t quads,
                                          const Quad (&pair)[2], bool is_active) {
#if defined(__CUDA_ARCH__)
  const bool is_odd = threadIdx.x % 2 != 0;
  Quad mine, theirs;  // of the even row, of the odd one
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::int32_t sent = is_odd ? pair[0].value[k] : pair[1].value[k];
    const std::int32_t got = __shfl_xor_sync(~0u, sent, 1);
    mine.value[k] = is_odd ? got : pair[0].value[k];
    theirs.value[k] = is_odd ? pair[1].value[k] : got;
  }
  const bool is_other_active = __shfl_xor_sync(~0u, is_active ? 1 : 0, 1) != 0;
  Quad* const even = is_odd ? to - quads + 1 : to;
  if (is_odd ? is_other_active : is_active) *even = mine;
  if (is_odd ? is_active : is_other_active) even[quads] = theirs;
#else
  if (!is_active) return;
  to[0] = pair[0];
  to[1] = pair[1];
#endif
}

// Windows and other sources in kernels of their own: the first need many registers. `kIsBeside`:
// the launch before is that of windows, of which it reads nothing, and goes on beside it.
template <bool kWindow, bool kIsBeside = false>
struct FindNeighbours {
  static constexpr int kBlocksPerMultiprocessor = 4;
  static constexpr int kMemoryWords = kWindow ? WindowFinder::kWords : 0;
  static constexpr bool kWaitsLast = kIsBeside;
  OrderJobs orders{};
  SPARSECONV_DEVICE std::int32_t jobs() const { return orders.count; }
  std::int32_t capacity(int job) const { return orders[job].source.output.capacity; }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return orders[job].source.output.size(); }
  SPARSECONV_DEVICE std::int32_t* counters(int job) const { return orders[job].counters; }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active,
                                    const StepContext& context) const {
    const OrderJob& order = orders[job];
    // A warp's threads stay together: those beyond the last row do it again.
    const std::int32_t row = is_active ? i : size(job) - 1;
    const Row to{order.staged + static_cast<std::int64_t>(i) * order.quads,
                 order.source.input_rows(), order.quads, is_active};
    std::uint32_t mask = 0, segments = 0;
    if constexpr (kWindow) {
      WindowFinder find(order.source, row, context);
      if (order.is_planes != 0) {
        SPARSECONV_UNROLL
        for (int q = 0; q < 3 * kPlaneQuads; q += 2) mask |= stage(find, q, PlaneTap{}, 27, to);
      } else {
        SPARSECONV_UNROLL
        for (int q = 0; q < 7; q += 2) mask |= stage(find, q, TapInTurn{}, 27, to);
      }
    } else {
      with_other_finder(order.source, row, [&](auto& find) {
        for (int q = 0; q < order.quads; q += 2) mask |= stage_in_turn(find, q, order, to);
      });
    }
    if (is_active) {
      order.masks[i] = mask;
      segments = 1;
      if (order.is_planes != 0) {
        const bool has_below = (mask & plane_taps(0)) != 0, has_above = (mask & plane_taps(1)) != 0;
        segments =
            (has_below ? 1u : 0u) | (has_above ? 2u : 0u) | (has_below || has_above ? 8u : 4u);
      }
    } else {
      mask = 0;
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
      return j < 9 && q < 3 * kPlaneQuads ? 3 * j + first_tap_of(q / kPlaneQuads) : 27;
    }
  };
  // Where a row's neighbours go.
  struct Row {
    Quad* to;
    const std::int32_t* rows;  // of ranks; null: the same
    std::int32_t quads;
    bool is_active;
  };
  // Eight taps one by one, by code that is long; which of them are there.
  template <class Finder>
  SPARSECONV_DEVICE static std::uint32_t stage_in_turn(Finder& find, int q, const OrderJob& order,
                                                       const Row& row) {
    Quad pair[2] = {};
    std::uint32_t mask = 0;
    SPARSECONV_NO_UNROLL
    for (int k = 0; k < 8; ++k) {
      const int tap = order.is_planes != 0 ? PlaneTap{}(q + k / 4, k % 4) : 4 * q + k;
      const std::int32_t in = tap < order.source.taps ? find(tap) : -1;
      mask |= (in >= 0 ? 1u : 0u) << (tap & (kWarp - 1));
      SPARSECONV_UNROLL
      for (int v = 0; v < 7; ++v) pair[v / 4].value[v % 4] = pair[(v + 1) / 4].value[(v + 1) % 4];
      pair[1].value[3] = row.rows != nullptr && in >= 0 ? row.rows[in] : in;
    }
    store_quads(row.to + q, row.quads, pair, row.is_active);
    return mask;
  }
  // Eight taps; which of them are there.
  template <class Finder, class TapOf>
  SPARSECONV_DEVICE static std::uint32_t stage(Finder& find, int q, const TapOf& tap_of, int taps,
                                               const Row& row) {
    Quad pair[2];
    std::uint32_t mask = 0;
    SPARSECONV_UNROLL
    for (int k = 0; k < 8; ++k) {
      const int tap = tap_of(q + k / 4, k % 4);
      std::int32_t& value = pair[k / 4].value[k % 4];
      value = tap < taps ? find(tap) : -1;
      mask |= (value >= 0 ? 1u : 0u) << (tap & (kWarp - 1));
    }
    if (row.rows != nullptr) {
      SPARSECONV_UNROLL
      for (int k = 0; k < 8; ++k) {
        std::int32_t& value = pair[k / 4].value[k % 4];
        value = value >= 0 ? row.rows[value] : -1;
      }
    }
    store_quads(row.to + q, row.quads, pair, row.is_active);
    return mask;
  }
};

// What the tap at a place adds (by exclusive or) to a key: Gray decoding makes a bit invert all
// bits below it. With more than 27 taps the most frequent ones, which tell rows apart the least,
// are left out.
SPARSECONV_DEVICE inline std::uint32_t key_bits_at(const OrderJob& order, int place) {
  const int excess = order.source.taps > kSegmentShift ? order.source.taps - kSegmentShift : 0;
  return static_cast<std::uint32_t>((std::uint64_t{2} << place) - 1) >> excess;
}
// Taps have places by falling frequency, lower taps first among equals; in planes within the plane.
SPARSECONV_DEVICE inline bool is_before(const OrderJob& order, int other, std::int32_t others,
                                        int tap, std::int32_t frequency) {
  const bool is_rival = other < order.source.taps && (order.is_planes == 0 || other % 3 == tap % 3);
  return is_rival && (others > frequency || (others == frequency && other < tap));
}
SPARSECONV_DEVICE inline std::uint32_t key_bits_of(const OrderJob& order, int tap) {
  const std::int32_t frequency = order.counters[tap];
  int place = 0;
  SPARSECONV_UNROLL
  for (int other = 0; other < kWarp; ++other)
    place += is_before(order, other, order.counters[other], tap, frequency) ? 1 : 0;
  return key_bits_at(order, place);
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

}  // namespace sparseconv::cuda

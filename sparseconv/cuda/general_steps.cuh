// Steps that make general strided, generative and merged coordinates: cells are marked in the new
// set's own table of blocks; then the blocks are put in the order of their ids, which numbers the
// rows. Sets of a few hundred thousand rows do that by counting: blocks of a group of 64 share a
// word, and a group starts after the cells of all groups with smaller ids, added up for each group:
// two short launches, where a sort takes three for every eight bits. The work grows with the square
// of the groups, so larger sets are sorted.
#pragma once
#include "sparseconv/cuda/block_table.cuh"

namespace sparseconv::cuda {

enum CoordinateError : std::int32_t { kOutsideKeyRange = 1 };
inline constexpr std::int32_t kTooMany = 0x7fffffff;  // rows of a set whose table was full

struct MarkOutputs {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return source.capacity; }
  CoordinateView source, set;
  ConvGeometry geometry;
  std::int64_t shape[3];  // bounds of the new set; 0 <= output < shape where `is_bounded`
  bool is_bounded, is_strided;
  std::int32_t *errors, *full;

  SPARSECONV_DEVICE std::int32_t size(int) const { return source.size(); }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const Key key = source.keys[i];
    const Coord c = unpack(key);
    const Key batch = key >> (3 * kAxisBits) << (3 * kAxisBits);
    const Outputs along_z = outputs(c.z, 2), along_y = outputs(c.y, 1), along_x = outputs(c.x, 0);
    if (along_z.is_none || along_y.is_none || along_x.is_none) return;
    if (along_z.is_outside || along_y.is_outside || along_x.is_outside) *errors = kOutsideKeyRange;
    // Neighbours are mostly of one block: their bits go there together.
    Key id = kFreeSlot;
    std::uint64_t bits = 0;
    for (std::int64_t z = along_z.first; z <= along_z.last; z += along_z.step) {
      const Key of_z = batch | axis_bits(z, 2);
      for (std::int64_t y = along_y.first; y <= along_y.last; y += along_y.step) {
        const Key of_y = of_z | axis_bits(y, 1);
        for (std::int64_t x = along_x.first; x <= along_x.last; x += along_x.step) {
          const Key out = of_y | axis_bits(x, 0);
          if (out == kNoKey) {
            *errors = kOutsideKeyRange;
            continue;
          }
          if (out >> kBlockBits != id) {
            if (bits != 0) mark(id, bits);
            id = out >> kBlockBits;
            bits = 0;
          }
          bits |= std::uint64_t{1} << (out & 63);
        }
      }
    }
    if (bits != 0) mark(id, bits);
  }

 private:
  // Outputs along an axis that has bounds: first, first + step ... last. `is_outside`: some more
  // are beyond the key range.
  struct Outputs {
    std::int64_t first, last, step;
    bool is_none, is_outside;
  };

  SPARSECONV_DEVICE static std::int32_t floor_div(std::int32_t a, std::int32_t b) {
    const std::int32_t quotient = a / b;
    return a % b < 0 ? quotient - 1 : quotient;
  }
  SPARSECONV_DEVICE static Key axis_bits(std::int64_t out, int axis) {
    return spread_bits(static_cast<std::uint32_t>(out + kAxisBias)) << axis;
  }

  SPARSECONV_DEVICE Outputs outputs(std::int32_t value, int axis) const {
    const std::int32_t stride = geometry.stride[axis], dilation = geometry.dilation[axis];
    const std::int32_t reach = (geometry.kernel[axis] - 1) * dilation;
    Outputs along{};
    if (is_strided) {
      // value = out * stride - padding + tap * dilation, 0 <= tap < kernel. Where the dilation is
      // not 1, outputs repeat after as many strides as the dilation needs.
      const std::int32_t above = value + geometry.padding[axis];
      if (dilation == 1 || reach == 0) {
        along.first = -floor_div(reach - above, stride);
        along.last = floor_div(above, stride);
        along.step = 1;
      } else {
        along = dilated(above, stride, dilation, geometry.kernel[axis]);
      }
    } else {
      along.first = std::int64_t{value} * stride - geometry.padding[axis];
      along.last = along.first + reach;
      along.step = dilation;
    }
    return clipped(along, axis);
  }

  // Taps whose remainder by the stride is that of `above`, if there are any, are evenly spaced.
  SPARSECONV_DEVICE static Outputs dilated(std::int32_t above, std::int32_t stride,
                                           std::int32_t dilation, std::int32_t kernel) {
    std::int32_t first_tap = -1, second_tap = -1, last_tap = -1;
    for (std::int32_t tap = 0; tap < kernel; ++tap) {
      if ((above - tap * dilation) % stride != 0) continue;
      if (first_tap < 0) {
        first_tap = tap;
      } else if (second_tap < 0) {
        second_tap = tap;
      }
      last_tap = tap;
    }
    if (first_tap < 0) return {0, -1, 1, false, false};
    const auto out = [&](std::int32_t tap) { return floor_div(above - tap * dilation, stride); };
    return {out(last_tap), out(first_tap), second_tap < 0 ? 1 : out(first_tap) - out(second_tap),
            false, false};
  }

  SPARSECONV_DEVICE static void clip(Outputs& along, std::int64_t low, std::int64_t high) {
    while (along.first <= along.last && along.first < low) along.first += along.step;
    while (along.first <= along.last && along.last > high) along.last -= along.step;
  }
  SPARSECONV_DEVICE Outputs clipped(Outputs along, int axis) const {
    if (is_bounded) clip(along, 0, shape[axis] - 1);
    along.is_none = along.first > along.last;
    along.is_outside = along.first < kAxisMin || along.last > kAxisMax;
    clip(along, kAxisMin, kAxisMax);
    return along;
  }

  SPARSECONV_DEVICE void mark(Key id, std::uint64_t bits) const {
    const std::int32_t slot = set.table.insert(id);
    if (slot < 0) {
      *full = 1;
      return;
    }
    atomic_clear(&set.table.entries[slot].head.mask, bits);
  }
};

// Groups of 64 neighbouring blocks, in a table of their own: a free entry is all ones, numbers are
// zeros before.
struct GroupTable {
  Key* ids = nullptr;
  std::uint64_t* blocks = nullptr;  // which of its blocks there are
  std::int32_t* cells = nullptr;    // of all of them
  std::int32_t* first = nullptr;    // row of the first
  std::int32_t* list = nullptr;     // slots in use, in any order
  std::int32_t* count = nullptr;    // their number
  std::int32_t slots = 0;           // power of two
  std::int32_t shift = 0;           // 64 - log2(slots / 8)

  // Slot of `id`, taken where it is new. There is one: a table has a slot for every block.
  SPARSECONV_DEVICE std::int32_t insert(Key id) const {
    std::int32_t slot = static_cast<std::int32_t>(detail::home_slot(id, shift));
    for (;;) {
      const Key before = compare_and_swap(&ids[slot], kFreeSlot, id);
      if (before == kFreeSlot) list[atomic_add(count, 1)] = slot;
      if (before == kFreeSlot || before == id) return slot;
      slot = (slot + 1) & (slots - 1);
    }
  }
  SPARSECONV_DEVICE std::int32_t find(Key id) const {
    std::int32_t slot = static_cast<std::int32_t>(detail::home_slot(id, shift));
    while (ids[slot] != id) slot = (slot + 1) & (slots - 1);
    return slot;
  }
};

// Counts the cells of each block, group and of the set.
struct GroupBlocks {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return table.slots; }
  BlockTable table;
  GroupTable groups;
  std::int32_t* rows;  // of the set, 0 before
  SPARSECONV_DEVICE std::int32_t size(int) const { return table.slots; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    std::int32_t cells = 0;
    if (is_active && table.entries[i].head.id != kFreeSlot) {
      BlockEntry& block = table.entries[i];
      cells = bit_count(~block.head.mask);
      block.cells = cells;
      const std::int32_t slot = groups.insert(block.head.id >> 6);
      atomic_or(&groups.blocks[slot], std::uint64_t{1} << (block.head.id & 63));
      atomic_add(&groups.cells[slot], cells);
    }
    warp_add(rows, cells);
  }
};

// First row of each group: a warp compares it with all others.
struct RankGroups {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  static constexpr std::int32_t kAtOnce = 4096;
  std::int32_t capacity(int) const {
    return (groups.slots < kAtOnce ? groups.slots : kAtOnce) * kWarp;
  }
  GroupTable groups;
  SPARSECONV_DEVICE std::int32_t size(int) const {
    return (*groups.count < kAtOnce ? *groups.count : kAtOnce) * kWarp;
  }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool) const {
    const std::int32_t count = *groups.count;
    for (std::int32_t group = i / kWarp; group < count; group += kAtOnce) {
      const std::int32_t slot = groups.list[group];
      const Key id = groups.ids[slot];
      std::int32_t before = 0;
      SPARSECONV_UNROLL_BY_4
      for (std::int32_t other = i % kWarp; other < count; other += kWarp) {
        const std::int32_t at = groups.list[other];
        before += groups.ids[at] < id ? groups.cells[at] : 0;
      }
      warp_add(&groups.first[slot], before);
    }
  }
};

// Writes the keys of a marked block from row `rank` on; the block keeps those that have room.
SPARSECONV_DEVICE inline void expand(const CoordinateView& set, BlockEntry& block,
                                     std::int32_t rank) {
  block.first = rank;
  std::uint64_t kept = 0;
  for (std::uint64_t left = ~block.head.mask; left != 0 && rank < set.capacity; left &= left - 1) {
    set.keys[rank++] = block.head.id << kBlockBits | static_cast<Key>(lowest_bit(left));
    kept |= left & (~left + 1);
  }
  block.head.mask = kept;
}

// Rows of each block.
struct ExpandGroups {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return set.table.slots; }
  CoordinateView set;
  GroupTable groups;
  const std::int32_t* full;  // the table could not take all blocks
  SPARSECONV_DEVICE std::int32_t size(int) const { return set.table.slots; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    if (i == 0 && *full != 0) *set.count = kTooMany;
    BlockEntry& block = set.table.entries[i];
    const Key id = block.head.id;
    if (id == kFreeSlot) return;
    const std::int32_t group = groups.find(id >> 6);
    std::int32_t rank = groups.first[group];
    const std::uint64_t earlier = groups.blocks[group] & ((std::uint64_t{1} << (id & 63)) - 1);
    for (std::uint64_t left = earlier; left != 0; left &= left - 1)
      rank += set.table.entries[set.table.slot_of((id & ~Key{63}) + lowest_bit(left))].cells;
    expand(set, block, rank);
  }
};

// The blocks there are, in any order: to be sorted.
struct ListBlocks {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return table.slots; }
  BlockTable table;
  Key* ids;
  std::int32_t* slots;
  std::int32_t* blocks;  // their number
  SPARSECONV_DEVICE std::int32_t size(int) const { return table.slots; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active || table.entries[i].head.id == kFreeSlot) return;
    const std::int32_t at = atomic_add(blocks, 1);
    ids[at] = table.entries[i].head.id;
    slots[at] = i;
  }
};

// Cells of the i-th block in the order of ids.
struct CountCells {
  BlockTable table;
  const std::int32_t* slots;
  const std::int32_t* blocks;
  SPARSECONV_DEVICE std::int32_t operator()(std::int32_t i) const {
    return i < *blocks ? bit_count(~table.entries[slots[i]].head.mask) : 0;
  }
};

struct ExpandBlocks {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return set.table.slots; }
  CoordinateView set;
  CountCells cells;
  const std::int32_t* sums;  // inclusive, of cells
  const std::int32_t* full;  // the table could not take all blocks
  SPARSECONV_DEVICE std::int32_t size(int) const { return *cells.blocks; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    expand(set, set.table.entries[cells.slots[i]], sums[i] - cells(i));
    if (i + 1 == *cells.blocks) *set.count = *full != 0 ? kTooMany : sums[i];
  }
};

}  // namespace sparseconv::cuda

// Steps that make coordinate sets and their hash tables.
#pragma once
#include "sparseconv/cuda/block_table.cuh"
#include "sparseconv/halving.hpp"

namespace sparseconv::cuda {

// Input keys in any order: what sorting takes. Keys beyond the count sort to the end.
struct NumberInput {
  Key* keys;
  std::int32_t* ranks;
  const std::int32_t* count;
  std::int32_t capacity;
  SPARSECONV_DEVICE std::int32_t size(int) const { return capacity; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    ranks[i] = i;
    if (i >= *count) keys[i] = kNoKey;
  }
};

struct SetCount {
  std::int32_t* count;
  std::int32_t value;
  SPARSECONV_DEVICE std::int32_t size(int) const { return 1; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t, bool is_active) const {
    if (is_active) *count = value;
  }
};

// Levels made from one set by halving again and again: one scan numbers the rows of all of them.
inline constexpr int kMaxHalvings = 4;
struct LevelRows {
  std::int32_t row[kMaxHalvings];
  friend SPARSECONV_DEVICE LevelRows operator+(const LevelRows& a, const LevelRows& b) {
    LevelRows sum{};
    for (int l = 0; l < kMaxHalvings; ++l) sum.row[l] = a.row[l] + b.row[l];
    return sum;
  }
};

struct Pyramid {
  CoordinateView source;
  CoordinateView level[kMaxHalvings];
  // Of level l: rank of the first child in the level below (0: the source); of the level below l:
  // rank of the parent or -1.
  std::int32_t* first_child[kMaxHalvings];
  std::int32_t* parent[kMaxHalvings];
  detail::KeyLimits limits[kMaxHalvings];
  std::int32_t depth;

  // 1 where rank i of the source is the first below a row of a level.
  SPARSECONV_DEVICE LevelRows first_of_rows(std::int32_t i) const {
    LevelRows is_first{};
    if (i >= source.size()) return is_first;
    Key key = source.keys[i], before = i == 0 ? key : source.keys[i - 1];
    for (int l = 0; l < depth; ++l) {
      key = detail::halved(key);
      before = detail::halved(before);
      if (!limits[l].admits(key)) break;  // then no coarser level admits it
      is_first.row[l] = i == 0 || key != before ? 1 : 0;
    }
    return is_first;
  }
};

struct BuildPyramid {
  Pyramid pyramid;
  const LevelRows* rows;  // inclusive sums of first_of_rows
  SPARSECONV_DEVICE std::int32_t size(int) const { return pyramid.source.size(); }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const LevelRows is_first = pyramid.first_of_rows(i), sums = rows[i];
    Key key = pyramid.source.keys[i];
    std::int32_t below = i;
    bool is_first_below = true;
    std::int32_t capacity_below = pyramid.source.capacity;
    for (int l = 0; l < pyramid.depth; ++l) {
      const CoordinateView& level = pyramid.level[l];
      key = detail::halved(key);
      const std::int32_t row = sums.row[l] - 1;
      const bool is_inside = pyramid.limits[l].admits(key),
                 is_kept = is_inside && row < level.capacity;
      if (is_first_below && below < capacity_below) pyramid.parent[l][below] = is_kept ? row : -1;
      if (!is_inside) break;
      if (is_kept && is_first.row[l] != 0) {
        level.keys[row] = key;
        pyramid.first_child[l][row] = below;
      }
      is_first_below = is_first.row[l] != 0;
      below = row;
      capacity_below = level.capacity;
    }
    if (i + 1 == pyramid.source.size()) {
      for (int l = 0; l < pyramid.depth; ++l) *pyramid.level[l].count = sums.row[l];
    }
  }
};

// Table of sets whose keys are sorted: the first key of each block inserts it.
struct InsertBlocks {
  const CoordinateView* sets;
  SPARSECONV_DEVICE std::int32_t size(int job) const { return sets[job].size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const CoordinateView& set = sets[job];
    const Key id = set.keys[i] >> kBlockBits;
    if (i > 0 && set.keys[i - 1] >> kBlockBits == id) return;
    std::uint64_t mask = 0;
    const std::int32_t end = set.size();
    for (std::int32_t j = i; j < end && set.keys[j] >> kBlockBits == id; ++j) {
      mask |= std::uint64_t{1} << (set.keys[j] & 63);
    }
    const std::int32_t slot = set.table.insert(id);
    if (slot >= 0) {
      set.table.entries[slot].head.mask = mask;
      set.table.entries[slot].first = i;
    }
  }
};

// General strided and generative coordinates: cells are marked in the new set's own table, then its
// blocks are sorted.
enum CoordinateError : std::int32_t { kOutsideKeyRange = 1 };

struct MarkOutputs {
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
    for (int rz = 0; rz < geometry.kernel[2]; ++rz) {
      Key z = 0, y = 0, x = 0;
      if (!axis_output(c.z, 2, rz, z)) continue;
      for (int ry = 0; ry < geometry.kernel[1]; ++ry) {
        if (!axis_output(c.y, 1, ry, y)) continue;
        for (int rx = 0; rx < geometry.kernel[0]; ++rx) {
          if (axis_output(c.x, 0, rx, x)) mark(batch | z | y | x);
        }
      }
    }
  }

 private:
  SPARSECONV_DEVICE bool axis_output(std::int64_t value, int axis, int r, Key& bits) const {
    const std::int64_t stride = geometry.stride[axis], padding = geometry.padding[axis];
    const std::int64_t reach = static_cast<std::int64_t>(r) * geometry.dilation[axis];
    std::int64_t out = value * stride - padding + reach;
    if (is_strided) {
      const std::int64_t scaled = value + padding - reach;
      if (scaled % stride != 0) return false;
      out = scaled / stride;
    }
    if (is_bounded && (out < 0 || out >= shape[axis])) return false;
    if (out < kAxisMin || out > kAxisMax) {
      *errors = kOutsideKeyRange;
      return false;
    }
    bits = spread_bits(static_cast<std::uint32_t>(out + kAxisBias)) << axis;
    return true;
  }
  SPARSECONV_DEVICE void mark(Key key) const {
    if (key == kNoKey) {
      *errors = kOutsideKeyRange;
      return;
    }
    const std::int32_t slot = set.table.insert(key >> kBlockBits);
    if (slot < 0) {
      *full = 1;
      return;
    }
    atomic_clear(&set.table.entries[slot].head.mask, std::uint64_t{1} << (key & 63));
  }
};

// The blocks there are, in any order; the rest of `ids` is all ones and sorts to the end.
struct ListBlocks {
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
  CoordinateView set;
  CountCells cells;
  const Key* ids;            // sorted
  const std::int32_t* sums;  // inclusive, of cells
  const std::int32_t* full;  // the table could not take all blocks
  SPARSECONV_DEVICE std::int32_t size(int) const { return *cells.blocks; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    BlockEntry& block = set.table.entries[cells.slots[i]];
    std::int32_t rank = sums[i] - cells(i);
    const std::uint64_t mask = ~block.head.mask;
    block.first = rank;
    std::uint64_t kept = 0;
    for (int cell = 0; cell < 64; ++cell) {
      if ((mask >> cell & 1) == 0) continue;
      if (rank < set.capacity) {
        set.keys[rank++] = ids[i] << kBlockBits | static_cast<Key>(cell);
        kept |= std::uint64_t{1} << cell;
      }
    }
    block.head.mask = kept;  // of rows that are stored
    if (i + 1 == *cells.blocks) *set.count = *full != 0 ? kTooMany : sums[i];
  }
  static constexpr std::int32_t kTooMany = 0x7fffffff;
};

}  // namespace sparseconv::cuda

// Steps that make coordinate sets and their hash tables.
#pragma once
#include "sparseconv/cuda/maps/block_table.cuh"
#include "sparseconv/halving.hpp"

namespace sparseconv::cuda {

// Numbers the rows of an input in any order: what sorting takes along.
struct NumberInput {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t* ranks;
  const std::int32_t* count;
  std::int32_t max_count;
  std::int32_t capacity(int) const { return max_count; }
  SPARSECONV_DEVICE std::int32_t size(int) const { return *count < max_count ? *count : max_count; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (is_active) ranks[i] = i;
  }
};

// Rows of the input: a number that the host knows, or one on the device.
struct SetCount {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t* count;
  std::int32_t value;
  const std::int32_t* device_value;  // null: `value`
  std::int32_t capacity(int) const { return 1; }
  SPARSECONV_DEVICE std::int32_t size(int) const { return 1; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t, bool is_active) const {
    if (is_active) *count = device_value == nullptr ? value : *device_value;
  }
};

// One cell a batch entry.
struct FillGlobal {
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  CoordinateView set;
  std::int32_t batch_size;
  std::int32_t capacity(int) const { return set.capacity; }
  SPARSECONV_DEVICE std::int32_t size(int) const {
    return batch_size <= set.capacity ? batch_size : set.capacity;
  }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    Key key = static_cast<Key>(i) << (3 * kAxisBits);
    for (int axis = 0; axis < 3; ++axis)
      key |= spread_bits(static_cast<std::uint32_t>(kAxisBias)) << axis;
    set.keys[i] = key;
    if (i == 0) *set.count = batch_size;
  }
};

// Levels made from one set by halving again and again. A bit for each row of the source says
// whether it is the first below a row of a level; one scan over the words of bits numbers the rows
// of all levels.
inline constexpr int kMaxHalvings = 4;
struct alignas(16) LevelRows {
  std::int32_t row[kMaxHalvings];
  friend SPARSECONV_DEVICE LevelRows operator+(const LevelRows& a, const LevelRows& b) {
    LevelRows sum{};
    for (int l = 0; l < kMaxHalvings; ++l) sum.row[l] = a.row[l] + b.row[l];
    return sum;
  }
};
struct alignas(16) LevelBits {
  std::uint32_t word[kMaxHalvings];  // of kWarp rows
};

struct Pyramid {
  CoordinateView source;
  CoordinateView level[kMaxHalvings];
  // Of level l: rank of the first child in the level below (0: the source); of the level below l:
  // rank of the parent or -1.
  std::int32_t* first_child[kMaxHalvings];
  std::int32_t* parent[kMaxHalvings];
  detail::KeyLimits limits[kMaxHalvings];
  LevelBits* bits;  // [source capacity / kWarp], cleared
  std::int32_t depth;
};

struct MarkLevels {
  Pyramid pyramid;
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return pyramid.source.capacity; }
  SPARSECONV_DEVICE std::int32_t size(int) const { return pyramid.source.size(); }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    bool is_inside = is_active;
    Key key = is_active ? pyramid.source.keys[i] : 0,
        before = is_active && i > 0 ? pyramid.source.keys[i - 1] : key;
    for (int l = 0; l < pyramid.depth; ++l) {
      key = detail::halved(key);
      before = detail::halved(before);
      is_inside =
          is_inside && pyramid.limits[l].admits(key);  // then no coarser level admits it either
      store_bits(&pyramid.bits[i / kWarp].word[l], i % kWarp,
                 is_inside && (i == 0 || key != before));
    }
  }
};

// Rows of levels that begin in the i-th word.
struct CountLevels {
  Pyramid pyramid;
  SPARSECONV_DEVICE LevelRows operator()(std::int32_t i) const {
    LevelRows rows{};
    for (int l = 0; l < pyramid.depth; ++l) rows.row[l] = bit_count(pyramid.bits[i].word[l]);
    return rows;
  }
};

struct BuildPyramid {
  Pyramid pyramid;
  const LevelRows* sums;  // inclusive, of CountLevels
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return pyramid.source.capacity; }
  SPARSECONV_DEVICE std::int32_t size(int) const { return pyramid.source.size(); }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const LevelBits bits = pyramid.bits[i / kWarp];
    const LevelRows through = sums[i / kWarp];
    Key key = pyramid.source.keys[i];
    std::int32_t below = i, capacity_below = pyramid.source.capacity;
    bool is_first_below = true;
    const bool is_last = i + 1 == pyramid.source.size();
    for (int l = 0; l < pyramid.depth; ++l) {
      const CoordinateView& level = pyramid.level[l];
      if (is_last) *level.count = through.row[l];
      key = detail::halved(key);
      // Rows that begin after this one, in its word, are not counted.
      const std::uint32_t later = bits.word[l] & ~((2u << (i % kWarp)) - 1);
      const std::int32_t row = through.row[l] - bit_count(later) - 1;
      const bool is_first = (bits.word[l] >> (i % kWarp) & 1) != 0;
      const bool is_inside = pyramid.limits[l].admits(key),
                 is_kept = is_inside && row < level.capacity;
      if (is_first_below && below < capacity_below) pyramid.parent[l][below] = is_kept ? row : -1;
      if (is_kept && is_first) {
        level.keys[row] = key;
        pyramid.first_child[l][row] = below;
      }
      if (!is_inside) {
        // No coarser level has this row; only the counts are left to write.
        for (int coarser = l + 1; coarser < pyramid.depth && is_last; ++coarser) {
          *pyramid.level[coarser].count = through.row[coarser];
        }
        break;
      }
      is_first_below = is_first;
      below = row;
      capacity_below = level.capacity;
    }
  }
};

// Table of sets whose keys are sorted: the first key of each block inserts it.
struct InsertBlocks {
  static constexpr int kBlocksPerMultiprocessor = 8;
  JobList<CoordinateView> sets;
  SPARSECONV_DEVICE std::int32_t jobs() const { return sets.count; }
  std::int32_t capacity(int job) const { return sets[job].capacity; }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return sets[job].size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const CoordinateView& set = sets[job];
    const Key id = set.keys[i] >> kBlockBits;
    if (i > 0 && set.keys[i - 1] >> kBlockBits == id) return;
    const std::uint64_t mask = cells_of_block(set.keys, i, set.size());
    const std::int32_t slot = set.table.insert(id);
    if (slot >= 0) {
      set.table.entries[slot].head.mask = mask;
      set.table.entries[slot].first = i;
    }
  }
};

}  // namespace sparseconv::cuda

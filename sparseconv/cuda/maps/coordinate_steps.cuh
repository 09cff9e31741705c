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
// whether it is the first below a row of a level; sums over words of bits number the rows of all
// levels.
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
  std::uint64_t* counts;  // [source capacity / kLevelRows, rounded up], cleared
  std::int32_t depth;

  // take(l, whether row i of the source, if it is one, is the first below a row of level l).
  template <class Take>
  SPARSECONV_DEVICE void mark(std::int32_t i, bool is_active, const Take& take) const {
    bool is_inside = is_active;
    Key key = is_active ? source.keys[i] : 0,
        before = is_active && i > 0 ? source.keys[i - 1] : key;
    SPARSECONV_UNROLL
    for (int l = 0; l < kMaxHalvings; ++l) {
      if (l == depth) break;
      key = detail::halved(key);
      before = detail::halved(before);
      // What no level admits, no coarser one does.
      is_inside = is_inside && limits[l].admits(key);
      take(l, is_inside && (i == 0 || key != before));
    }
  }
  // What row i of the source gives all levels. `bits`: of its word; `through`: rows of levels that
  // begin in that word and those before.
  SPARSECONV_DEVICE void build(std::int32_t i, const LevelBits& bits,
                               const LevelRows& through) const {
    Key key = source.keys[i];
    std::int32_t below = i, capacity_below = source.capacity;
    bool is_first_below = true;
    const bool is_last = i + 1 == source.size();
    SPARSECONV_UNROLL
    for (int l = 0; l < kMaxHalvings; ++l) {
      if (l == depth) break;
      if (is_last) *level[l].count = through.row[l];
      key = detail::halved(key);
      // Rows that begin after this one, in its word, are not counted.
      const std::uint32_t later = bits.word[l] & ~((2u << (i % kWarp)) - 1);
      const std::int32_t row = through.row[l] - bit_count(later) - 1;
      const bool is_first = (bits.word[l] >> (i % kWarp) & 1) != 0;
      const bool is_inside = limits[l].admits(key), is_kept = is_inside && row < level[l].capacity;
      if (is_first_below && below < capacity_below) parent[l][below] = is_kept ? row : -1;
      if (is_kept && is_first) {
        level[l].keys[row] = key;
        first_child[l][row] = below;
      }
      if (!is_inside) {
        // No coarser level has this row; only the counts are left to write.
        for (int coarser = l + 1; coarser < depth && is_last; ++coarser)
          *level[coarser].count = through.row[coarser];
        break;
      }
      is_first_below = is_first;
      below = row;
      capacity_below = level[l].capacity;
    }
  }
};
// Rows of the source that a thread block of the device numbers (build_levels.cuh).
inline constexpr int kLevelRows = 1024;

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

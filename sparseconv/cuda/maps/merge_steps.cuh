// Steps that say which rows fall on each row of a merged set: items, one a row of a part, parts in
// order, sorted by the row they fall on.
#pragma once
#include "sparseconv/cuda/maps/block_table.cuh"

namespace sparseconv::cuda {

inline constexpr int kMaxMergedParts = 31;
static_assert(kMaxMergedParts <= kMaxJobs);

struct MergedSet {
  CoordinateView set;
  CoordinateView part[kMaxMergedParts];
  std::int32_t scale[kMaxMergedParts][3];
  std::int32_t count = 0;
};

// What is known once a set was merged. Item i of part p is rank i - part_begin[p].
struct MergeView {
  const std::int32_t* items = nullptr;       // sorted by row, then by part and rank
  const std::int32_t* begin = nullptr;       // [rows + 1] of a row's items
  const std::int32_t* part_begin = nullptr;  // [parts + 1]
};

// Where the items of each part begin, and how many there are.
struct ArrangeMerged {
  MergedSet merged;
  std::int32_t *part_begin, *item_count;
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return merged.count + 1; }
  SPARSECONV_DEVICE std::int32_t size(int) const { return merged.count + 1; }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    std::int32_t before = 0;
    for (int p = 0; p < i; ++p) before += merged.part[p].size();
    part_begin[i] = before;
    if (i == merged.count) *item_count = before;
  }
};

struct ListMerged {
  MergedSet merged;
  const std::int32_t* part_begin;
  std::uint32_t* keys;
  std::int32_t* values;
  SPARSECONV_DEVICE std::int32_t jobs() const { return merged.count; }
  std::int32_t capacity(int job) const { return merged.part[job].capacity; }
  SPARSECONV_DEVICE std::int32_t size(int job) const { return merged.part[job].size(); }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const Key key = merged.part[job].keys[i];
    const Coord c = unpack(key);
    Key scaled = key >> (3 * kAxisBits) << (3 * kAxisBits);
    for (int a = 0; a < 3; ++a) {
      const std::int64_t at = static_cast<std::int64_t>(c[a]) * merged.scale[job][a];
      scaled |= spread_bits(static_cast<std::uint32_t>(at + kAxisBias)) << a;
    }
    const std::int32_t rank =
        rank_in(merged.set.table.find(scaled >> kBlockBits), static_cast<int>(scaled & 63));
    const std::int32_t item = part_begin[job] + i;
    keys[item] = rank < 0 ? 0 : static_cast<std::uint32_t>(rank);  // absent where memory ran out
    values[item] = item;
  }
};

struct FillMerged {
  CoordinateView set;
  const std::uint32_t* keys;   // sorted
  const std::int32_t* values;  // sorted with them
  ItemCount number;
  std::int32_t *items, *begin;
  SPARSECONV_DEVICE static constexpr std::int32_t jobs() { return 1; }
  std::int32_t capacity(int) const { return static_cast<std::int32_t>(number.capacity); }
  SPARSECONV_DEVICE std::int32_t size(int) const { return number.items(); }
  SPARSECONV_DEVICE void operator()(int, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    items[i] = values[i];
    if (i == 0 || keys[i] != keys[i - 1]) begin[keys[i]] = i;
    if (i + 1 == number.items()) begin[set.size()] = i + 1;
  }
};

}  // namespace sparseconv::cuda

#include "tests/cuda/frame_maps_oracle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace cuda_tests {
namespace {

using namespace sparseconv;
using cuda::MapSpec;
using cuda::RowOrder;
using cuda::SetSpec;

CoordinatesPtr union_or_global(const FrameCase& c, const SetSpec& set,
                               const std::vector<CoordinatesPtr>& sets) {
  std::set<Key> keys;
  for (std::int32_t b = 0; b < c.batch_size && set.parts.empty(); ++b)
    keys.insert(pack({b, 0, 0, 0}));
  for (const SetSpec::Part& part : set.parts) {
    const auto& scale = part.geometry.stride;
    for (const Coord& at : sets[static_cast<std::size_t>(part.source)]->coords())
      keys.insert(pack({at.batch, at.x * scale[0], at.y * scale[1], at.z * scale[2]}));
  }
  return Coordinates::from_sorted_keys({keys.begin(), keys.end()},
                                       {.batch_size = c.batch_size, .spatial_shape = std::nullopt});
}

std::int32_t neighbour(const KernelMap& map, int tap, std::int64_t row) {
  return map.table[static_cast<std::size_t>(tap * map.output->size() + row)];
}

std::uint32_t mask_of(const KernelMap& map, std::int64_t row, std::uint32_t taps) {
  std::uint32_t mask = 0;
  for (int t = 0; t < map.geometry.taps(); ++t) {
    if ((taps >> t & 1) != 0 && neighbour(map, t, row) >= 0) mask |= 1u << t;
  }
  return mask;
}

// Taps among `taps`, the most frequent first.
std::vector<int> by_frequency(const KernelMap& map, std::uint32_t taps) {
  std::vector<int> order;
  for (int t = 0; t < map.geometry.taps(); ++t) {
    if ((taps >> t & 1) != 0) order.push_back(t);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return map.pairs_per_tap[static_cast<std::size_t>(a)] >
           map.pairs_per_tap[static_cast<std::size_t>(b)];
  });
  return order;
}

// Key of a row as device_map.cuh words it.
std::uint32_t order_key(const KernelMap& map, std::int64_t row, const std::vector<int>& taps) {
  std::uint32_t key = 0;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    if (neighbour(map, taps[i], row) >= 0) key |= 1u << i;
  }
  for (int step = 1; step < 32; step *= 2) key ^= key >> step;
  return map.geometry.taps() > 27 ? key >> (map.geometry.taps() - 27) : key;
}

struct Slot {
  std::int32_t entry;
  std::uint32_t mask;
};

// Rows that `keep` accepts, by key and, among equals, in the order of `rows`.
template <class Keep, class Entry>
std::vector<Slot> ordered(const KernelMap& map, const std::vector<std::int64_t>& rows,
                          std::uint32_t taps, const Keep& keep, const Entry& entry) {
  std::vector<std::int64_t> kept;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(kept), keep);
  std::vector<std::pair<std::uint32_t, std::int64_t>> keyed;
  const std::vector<int> frequent = by_frequency(map, taps);
  for (const std::int64_t row : kept) keyed.emplace_back(order_key(map, row, frequent), row);
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Slot> slots;
  for (const auto& [key, row] : keyed) slots.push_back({entry(row), mask_of(map, row, taps)});
  return slots;
}

void expect_slots(const BuiltMap& built, const KernelMap& map, std::int64_t begin,
                  const std::vector<Slot>& slots, std::uint32_t taps) {
  const auto end = static_cast<std::int64_t>((slots.size() + 127) / 128 * 128);
  for (std::int64_t i = 0; i < end; ++i) {
    const std::int64_t slot = begin + i;
    const bool is_row = i < static_cast<std::int64_t>(slots.size());
    ASSERT_EQ(built.rows[static_cast<std::size_t>(slot)],
              is_row ? slots[static_cast<std::size_t>(i)].entry : -1)
        << slot;
    for (int t = 0; t < built.taps; ++t) {
      if ((taps >> t & 1) == 0) continue;
      const std::int32_t expected =
          is_row ? neighbour(map, t, slots[static_cast<std::size_t>(i)].entry & gemm_core::kSlotRow)
                 : -1;
      ASSERT_EQ(built.neighbours[static_cast<std::size_t>(t * built.capacity + slot)], expected)
          << slot << " tap " << t;
    }
  }
  for (std::int64_t group = 0; group < end / 64; ++group) {
    std::uint32_t mask = 0;
    for (std::int64_t i = group * 64;
         i < std::min<std::int64_t>((group + 1) * 64, static_cast<std::int64_t>(slots.size()));
         ++i) {
      mask |= slots[static_cast<std::size_t>(i)].mask;
    }
    ASSERT_EQ(built.group_masks[static_cast<std::size_t>(begin / 64 + group)], mask)
        << "group " << group;
  }
}

void expect_order(const BuiltMap& built, const KernelMap& map, RowOrder order,
                  const std::vector<std::int64_t>& rows) {
  const auto all = [](std::int64_t) { return true; };
  const auto itself = [](std::int64_t row) { return static_cast<std::int32_t>(row); };
  const auto count = static_cast<std::int32_t>(rows.size());
  if (order == RowOrder::single) {
    EXPECT_EQ(built.plane_begin, (std::vector<std::int32_t>{0, 0, 0, count, count}));
    expect_slots(built, map, 0, ordered(map, rows, ~0u, all, itself), ~0u);
    return;
  }
  std::uint32_t taps[3] = {};  // below, above, centre
  for (int t = 0; t < 27; ++t) taps[t % 3 == 0 ? 0 : t % 3 == 2 ? 1 : 2] |= 1u << t;
  std::int32_t begin = 0;
  for (std::size_t p = 0; p < 2; ++p) {
    const auto slots = ordered(
        map, rows, taps[p], [&](std::int64_t r) { return mask_of(map, r, taps[p]) != 0; }, itself);
    EXPECT_EQ(built.plane_begin[p], begin);
    expect_slots(built, map, begin, slots, taps[p]);
    begin += static_cast<std::int32_t>((slots.size() + 127) / 128 * 128);
  }
  const auto flags = [&](std::int64_t r) {
    return (mask_of(map, r, taps[0]) != 0 ? gemm_core::kSlotBelow : 0) |
           (mask_of(map, r, taps[1]) != 0 ? gemm_core::kSlotAbove : 0);
  };
  const auto entry = [&](std::int64_t r) { return static_cast<std::int32_t>(r) | flags(r); };
  auto centre = ordered(
      map, rows, taps[2], [&](std::int64_t r) { return flags(r) == 0; }, entry);
  const auto late = ordered(
      map, rows, taps[2], [&](std::int64_t r) { return flags(r) != 0; }, entry);
  EXPECT_EQ(built.plane_begin[2], begin);
  EXPECT_EQ(built.plane_begin[3], begin + static_cast<std::int32_t>(centre.size()));
  EXPECT_EQ(built.plane_begin[4], begin + count);
  centre.insert(centre.end(), late.begin(), late.end());
  expect_slots(built, map, begin, centre, taps[2]);
}

}  // namespace

Expected expected_of(const FrameCase& c) {
  Expected e;
  std::vector<Coord> coords;
  for (const Key key : c.keys) coords.push_back(unpack(key));
  e.sets.push_back(
      Coordinates::create(coords, {.batch_size = c.batch_size, .spatial_shape = c.spatial_shape}));
  for (std::size_t s = 1; s < c.spec.sets.size(); ++s) {
    const SetSpec& set = c.spec.sets[s];
    if (set.kind == SetSpec::Kind::global || set.kind == SetSpec::Kind::merged) {
      e.sets.push_back(union_or_global(c, set, e.sets));
      continue;
    }
    const auto& source = e.sets[static_cast<std::size_t>(set.source)];
    e.sets.push_back(set.kind == SetSpec::Kind::strided
                         ? strided_coordinates(source, set.geometry)
                         : generative_coordinates(source, set.geometry));
  }
  for (const MapSpec& map : c.spec.maps) {
    const auto& in = e.sets[static_cast<std::size_t>(map.input)];
    const auto& out = e.sets[static_cast<std::size_t>(map.output)];
    if (map.kind == KernelMap::Kind::inverse)
      e.maps.push_back(invert(e.maps[static_cast<std::size_t>(map.forward)]));
    else if (map.kind == KernelMap::Kind::transposed)
      e.maps.push_back(build_transposed_map(in, out, map.geometry));
    else
      e.maps.push_back(build_kernel_map(in, out, map.geometry));
  }
  return e;
}

void expect_frame(const FrameCase& c, const BuiltFrame& built) {
  const Expected e = expected_of(c);
  ASSERT_FALSE(built.sizes.exceeds);
  for (std::size_t s = 0; s < e.sets.size(); ++s) {
    std::vector<Key> keys(e.sets[s]->keys().begin(), e.sets[s]->keys().end());
    std::sort(keys.begin(), keys.end());
    ASSERT_EQ(built.sizes.rows[s], e.sets[s]->size()) << "set " << s;
    ASSERT_EQ(built.keys[s], keys) << "set " << s;
  }
  std::vector<std::int64_t> by_rank(c.keys.size());
  std::iota(by_rank.begin(), by_rank.end(), 0);
  std::sort(by_rank.begin(), by_rank.end(), [&](std::int64_t a, std::int64_t b) {
    return c.keys[static_cast<std::size_t>(a)] < c.keys[static_cast<std::size_t>(b)];
  });
  for (std::size_t m = 0; m < e.maps.size(); ++m) {
    SCOPED_TRACE("map " + std::to_string(m) + " " + to_string(c.spec.maps[m].geometry));
    const KernelMap& map = *e.maps[m];
    const BuiltMap& made = built.maps[m];
    const std::int64_t rows = map.output->size();
    if (c.spec.maps[m].needs_canonical) {
      for (int t = 0; t < made.taps; ++t) {
        for (std::int64_t r = 0; r < rows; ++r) {
          ASSERT_EQ(made.canonical[static_cast<std::size_t>(t * made.row_capacity + r)],
                    neighbour(map, t, r))
              << t << " " << r;
        }
      }
    }
    if (c.spec.maps[m].order == RowOrder::none) continue;
    std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    // Steps visit the input by rank, but a map read from a table by row.
    const bool is_table =
        c.spec.maps[m].kind == KernelMap::Kind::inverse &&
        c.spec.maps[m].geometry != ConvGeometry{.kernel = {2, 2, 2}, .stride = {2, 2, 2}};
    if (c.spec.maps[m].output == 0 && !is_table) order = by_rank;
    expect_order(made, map, c.spec.maps[m].order, order);
    if (testing::Test::HasFatalFailure()) return;
  }
}

void expect_merge(const FrameCase& c, const BuiltFrame& built) {
  const auto set = static_cast<std::size_t>(merged_set(c.spec));
  std::map<Key, std::vector<std::pair<std::size_t, std::int32_t>>> expected;
  const auto& parts = c.spec.sets[set].parts;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto& scale = parts[p].geometry.stride;
    const auto& keys = built.keys[static_cast<std::size_t>(parts[p].source)];
    for (std::size_t rank = 0; rank < keys.size(); ++rank) {
      const Coord at = unpack(keys[rank]);
      expected[pack({at.batch, at.x * scale[0], at.y * scale[1], at.z * scale[2]})].emplace_back(
          p, static_cast<std::int32_t>(rank));
    }
  }
  ASSERT_EQ(built.keys[set].size(), expected.size());
  std::size_t row = 0;
  for (const auto& [key, sources] : expected) {
    ASSERT_EQ(built.keys[set][row], key);
    std::vector<std::pair<std::size_t, std::int32_t>> got;
    for (std::int32_t j = built.merge_begin[row]; j < built.merge_begin[row + 1]; ++j) {
      const std::int32_t item = built.merge_items[static_cast<std::size_t>(j)];
      std::size_t p = 0;
      while (item >= built.part_begin[p + 1]) ++p;
      got.emplace_back(p, item - built.part_begin[p]);
    }
    ASSERT_EQ(got, sources) << "row " << row;
    ++row;
  }
}

}  // namespace cuda_tests

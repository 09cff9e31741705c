// Frames of random sets and maps against the CPU's coordinates, kernel maps and an order worked out
// plainly: on the host, where the same steps run one after the other, and on the device where there
// is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "gemm_core/base/cuda/resources.hpp"
#include "tests/cuda/frame_maps_case.hpp"
#include "tests/cuda/require_device.hpp"
#include "tests/sparseconv/map_oracle.hpp"

namespace cuda_tests {
namespace {

using namespace sparseconv;
using cuda::FrameSpec;
using cuda::MapSpec;
using cuda::RowOrder;
using cuda::SetSpec;

class FrameMapsOn : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && base::cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
  static BuiltFrame build(const FrameCase& frame, int builds = 1) {
    return GetParam() ? build_on_device(frame, builds) : build_on_host(frame, builds);
  }
};

struct Expected {
  std::vector<CoordinatesPtr> sets;
  std::vector<KernelMapPtr> maps;
};

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

std::vector<Key> keys_of(const std::vector<Coord>& coords) {
  std::vector<Key> keys;
  for (const Coord& c : coords) keys.push_back(pack(c));
  return keys;
}

constexpr ConvGeometry kHalving{.kernel = {2, 2, 2}, .stride = {2, 2, 2}};

// A segmentation network's sets and maps: levels by halving, k3 on each, down and up between them.
FrameSpec unet_spec(int levels) {
  FrameSpec spec;
  spec.sets.push_back({});
  const auto k3 = ConvGeometry::submanifold({3, 3, 3});
  for (int l = 0; l < levels; ++l) {
    if (l > 0) {
      spec.sets.push_back({SetSpec::Kind::strided, l - 1, kHalving});
      const int down = static_cast<int>(spec.maps.size());
      spec.maps.push_back({.geometry = kHalving, .input = l - 1, .output = l});
      spec.maps.push_back(
          {KernelMap::Kind::inverse, kHalving, l, l - 1, down, RowOrder::single, l % 2 == 0});
    }
    spec.maps.push_back({.geometry = k3,
                         .input = l,
                         .output = l,
                         .order = RowOrder::single,
                         .needs_canonical = l == 1});
    spec.maps.push_back({.geometry = k3, .input = l, .output = l, .order = RowOrder::planes});
  }
  return spec;
}

FrameCase unet_case(unsigned seed, int levels, int points) {
  std::mt19937 random(seed);
  FrameCase c;
  c.spec = unet_spec(levels);
  c.batch_size = map_oracle::pick(random, 1, 3);
  std::set<Coord> coords;
  for (int i = 0; i < points; ++i) {
    const int x = map_oracle::pick(random, -40, 40), y = map_oracle::pick(random, -40, 40);
    coords.insert({map_oracle::pick(random, 0, c.batch_size - 1), x, y,
                   (x * y) / 100 + map_oracle::pick(random, 0, 2)});
  }
  auto sorted = map_oracle::in_order(coords);
  c.capacity.is_input_sorted = seed % 2 == 0;
  if (!c.capacity.is_input_sorted) std::shuffle(sorted.begin(), sorted.end(), random);
  c.keys = keys_of(sorted);
  c.capacity.rows.assign(c.spec.sets.size(), static_cast<std::int64_t>(c.keys.size()) +
                                                 static_cast<std::int64_t>(seed % 3) * 70);
  return c;
}

// One general layer of each kind on random coordinates.
FrameCase general_case(unsigned seed) {
  const auto random = map_oracle::random_case(seed);
  FrameCase c;
  c.keys = keys_of(random.coords);
  c.batch_size = random.batch_size;
  c.spatial_shape = random.shape;
  c.capacity.is_input_sorted = random.is_sorted;
  c.spec.sets = {{},
                 {SetSpec::Kind::strided, 0, random.geometry},
                 {SetSpec::Kind::generative, 0, random.geometry}};
  const RowOrder order = random.geometry.taps() <= 32 ? RowOrder::single : RowOrder::none;
  const auto submanifold = ConvGeometry::submanifold({5, 3, 1}, {1, 2, 1});
  c.spec.maps = {{.geometry = random.geometry,
                  .input = 0,
                  .output = 1,
                  .order = order,
                  .needs_canonical = true},
                 {KernelMap::Kind::inverse, random.geometry, 1, 0, 0, order, true},
                 {KernelMap::Kind::transposed, random.geometry, 0, 2, -1, order, true},
                 {.geometry = submanifold, .input = 0, .output = 0, .needs_canonical = true},
                 {.geometry = ConvGeometry::submanifold({3, 3, 3}),
                  .input = 1,
                  .output = 1,
                  .order = RowOrder::planes}};
  const Expected sizes =
      expected_of({FrameSpec{c.spec.sets, {}}, {}, c.keys, c.batch_size, c.spatial_shape});
  for (const auto& set : sizes.sets) c.capacity.rows.push_back(set->size());
  return c;
}

TEST_P(FrameMapsOn, LevelsByHalvingEqualTheCpu) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const FrameCase c = unet_case(seed, 1 + static_cast<int>(seed % 6), seed == 7 ? 1 : 3000);
    expect_frame(c, build(c, 2));
    if (HasFatalFailure()) return;
  }
}

TEST_P(FrameMapsOn, GeneralSetsAndMapsEqualTheCpu) {
  const unsigned cases = GetParam() ? 2000 : 150;
  for (unsigned seed = 0; seed < cases; ++seed) {
    SCOPED_TRACE(seed);
    const FrameCase c = general_case(seed);
    expect_frame(c, build(c, seed % 7 == 0 ? 2 : 1));
    if (HasFatalFailure()) return;
  }
}

// Which ranks of each part fall on each row of a merged set.
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

// A union of levels at their scales, and one cell a batch entry: sets, which rows fall on which,
// layers upon both.
TEST_P(FrameMapsOn, MergedAndGlobalSetsEqualTheCpus) {
  const auto scaled = [](int x, int y, int z) {
    return ConvGeometry{.kernel = {1, 1, 1}, .stride = {x, y, z}};
  };
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    FrameCase c = unet_case(seed, 3, 2000);
    c.spec.maps.clear();
    SetSpec merged{.kind = SetSpec::Kind::merged};
    merged.parts = {{1, scaled(1, 1, 1)}, {2, scaled(2, 2, 0)}, {0, scaled(3, 1, 1)}};
    if (seed % 2 == 1) merged.parts = {{0, scaled(1, 1, 0)}, {1, scaled(2, 2, 0)}};
    c.spec.sets.push_back(merged);
    c.spec.sets.push_back({.kind = SetSpec::Kind::global});
    for (const int set : {3, 4}) {
      c.spec.maps.push_back({.geometry = ConvGeometry::submanifold({3, 3, 3}),
                             .input = set,
                             .output = set,
                             .needs_canonical = true});
    }
    const auto rows = static_cast<std::int64_t>(c.keys.size());
    c.capacity.rows = {rows, rows, rows, 3 * rows, 3};
    const BuiltFrame built = build(c, 2);
    expect_frame(c, built);
    expect_merge(c, built);
    if (HasFatalFailure()) return;
  }
}

TEST_P(FrameMapsOn, BoundedOddSizesDropTheLastCells) {
  FrameCase c;
  c.spec = unet_spec(4);
  c.spatial_shape = SpatialShape{11, 13, 7};
  std::vector<Coord> coords;
  for (int x = 0; x < 11; ++x) {
    for (int y = 0; y < 13; ++y) coords.push_back({0, x, y, (x + y) % 7});
  }
  c.keys = keys_of(map_oracle::in_order({coords.begin(), coords.end()}));
  c.capacity.rows.assign(4, 200);
  expect_frame(c, build(c));
}

TEST_P(FrameMapsOn, EmptyInputGivesEmptySets) {
  for (const bool is_sorted : {true, false}) {
    FrameCase c;
    c.spec = unet_spec(3);
    c.spec.sets.push_back({SetSpec::Kind::strided,
                           0,
                           {.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}}});
    c.capacity = {.rows = {0, 0, 10, 10}, .is_input_sorted = is_sorted};
    expect_frame(c, build(c));
  }
}

TEST_P(FrameMapsOn, EndsOfTheKeyRangeMeetNobody) {
  FrameCase c;
  c.spec = unet_spec(2);
  c.batch_size = 2;
  c.keys = keys_of(map_oracle::in_order({{0, kAxisMax, kAxisMax, kAxisMax},
                                         {1, kAxisMin, kAxisMin, kAxisMin},
                                         {0, kAxisMin, 0, kAxisMax},
                                         {0, kAxisMax, 0, kAxisMax},
                                         {0, kAxisMax, 1, kAxisMax}}));
  c.capacity.rows.assign(2, 5);
  expect_frame(c, build(c));
}

TEST_P(FrameMapsOn, TooSmallACapacityIsSaidAndHarmless) {
  FrameCase c = unet_case(2, 3, 3000);
  c.capacity.rows[1] = 128;
  const BuiltFrame built = build(c);
  EXPECT_TRUE(built.sizes.exceeds);
  EXPECT_EQ(
      built.sizes.rows[1],
      expected_of({FrameSpec{c.spec.sets, {}}, {}, c.keys, c.batch_size, {}}).sets[1]->size());
  FrameCase general = general_case(6);
  general.capacity.rows[2] = 1;
  general.capacity.rows[1] = 1;
  EXPECT_NO_THROW(build(general));
}

TEST_P(FrameMapsOn, OutputsBeyondTheKeyRangeAreAnError) {
  FrameCase c;
  c.spec.sets = {{}, {SetSpec::Kind::strided, 0, {.kernel = {3, 3, 3}, .padding = {1, 1, 1}}}};
  c.keys = keys_of({{0, 0, kAxisMax, 0}});
  c.capacity.rows = {1, 64};
  EXPECT_THROW(build(c), base::Error);
}

TEST(FrameMaps, ReplayedAsAGraphEqualTheCpu) {
  REQUIRE_DEVICE();
  for (const unsigned seed : {2u, 5u}) {
    const FrameCase c = unet_case(seed, 5, 20000);
    expect_frame(c, build_as_graph(c, 3));
  }
  for (unsigned seed = 0; seed < 20; ++seed) {
    const FrameCase c = general_case(seed);
    expect_frame(c, build_as_graph(c, 2));
  }
}

TEST(FrameMaps, OfTwoThreadsOnTwoStreamsDoNotMix) {
  REQUIRE_DEVICE();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t) {
    threads.emplace_back([t] {
      for (unsigned round = 0; round < 10; ++round) {
        const FrameCase c = unet_case(2 * round + t, 4, 5000 + 3000 * static_cast<int>(t));
        expect_frame(c, build_on_device(c, 20));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Backends, FrameMapsOn, testing::Bool(), [](const auto& param) {
  return param.param ? std::string("device") : std::string("host");
});

TEST(FrameSpec, MistakesAreNamed) {
  const auto expect = [](const FrameSpec& spec, const char* word) {
    try {
      cuda::FrameMaps maps(spec);
      ADD_FAILURE() << "no error";
    } catch (const base::Error& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  expect({}, "no coordinate sets");
  expect({.sets = {{}, {SetSpec::Kind::strided, 1, kHalving}}, .maps = {}}, "set 1");
  expect({.sets = {{}}, .maps = {{.geometry = kHalving, .input = 0, .output = 2}}}, "set 0 to 2");
  expect({.sets = {{}}, .maps = {{.geometry = ConvGeometry::submanifold({5, 5, 5})}}}, "125 taps");
  expect({.sets = {{}}, .maps = {{.geometry = kHalving, .order = RowOrder::planes}}}, "planes");
  expect({.sets = {{}}, .maps = {{KernelMap::Kind::inverse, kHalving, 0, 0, 3}}}, "map 3");
}

}  // namespace
}  // namespace cuda_tests

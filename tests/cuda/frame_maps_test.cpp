// Frames of random sets and maps against the CPU's coordinates, kernel maps and an order worked out
// plainly: on the host, where the same steps run one after the other, and on the device where there
// is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "gemm_core/base/cuda/resources.hpp"
#include "tests/cuda/frame_maps_oracle.hpp"
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
  if (seed % 3 == 0) c.capacity.counted_rows = 0;
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

// Cells far apart: each is a group of blocks of its own, more of them than are compared at once.
TEST_P(FrameMapsOn, SetsOfManyGroupsEqualTheCpu) {
  std::mt19937 random(4);
  std::set<Coord> coords;
  while (coords.size() < 6000) {
    Coord c{map_oracle::pick(random, 0, 1), 0, 0, 0};
    for (std::int32_t* axis : {&c.x, &c.y, &c.z}) *axis = map_oracle::pick(random, -9000, 9000);
    coords.insert(c);
  }
  FrameCase c;
  c.keys = keys_of(map_oracle::in_order(coords));
  c.batch_size = 2;
  c.spec.sets = {{}};
  const auto k3 = ConvGeometry{.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}};
  for (int set = 0; set < 2; ++set) {
    c.spec.sets.push_back({SetSpec::Kind::strided, set, k3});
    c.spec.maps.push_back(
        {.geometry = k3, .input = set, .output = set + 1, .needs_canonical = true});
  }
  for (const std::int64_t rows : {1, 4, 8})
    c.capacity.rows.push_back(rows * static_cast<std::int64_t>(c.keys.size()));
  for (const std::int64_t counted_rows : {0, 1 << 18}) {
    c.capacity.counted_rows = counted_rows;
    expect_frame(c, build(c, 2));
  }
}

// Sets that are marked one from the other and numbered together, a level by halving on top of them
// and another general set on top of that: layers of every order between them.
TEST_P(FrameMapsOn, ChainsOfGeneralSetsEqualTheCpu) {
  const ConvGeometry k3{.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}};
  const ConvGeometry flat{.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 0}};
  const ConvGeometry squeeze{.kernel = {1, 1, 3}, .stride = {1, 1, 2}};
  const ConvGeometry wide{.kernel = {5, 2, 3}, .stride = {3, 1, 2}, .padding = {2, 0, 1}};
  for (unsigned seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    FrameCase c = unet_case(seed, 1, 1200);
    c.spec = {};
    if (seed % 2 == 1) {
      c.spatial_shape = SpatialShape{81, 81, 45};
      for (Key& key : c.keys) {
        const Coord at = unpack(key);
        key = pack({at.batch, at.x + 40, at.y + 40, at.z + 20});
      }
      if (c.capacity.is_input_sorted) std::sort(c.keys.begin(), c.keys.end());
    }
    c.spec.sets = {{},
                   {SetSpec::Kind::strided, 0, k3},
                   {SetSpec::Kind::strided, 1, flat},
                   {SetSpec::Kind::strided, 2, kHalving},
                   {SetSpec::Kind::strided, 3, wide},
                   {SetSpec::Kind::strided, 2, squeeze}};
    const auto layer = [&](const ConvGeometry& geometry, int input, int output, RowOrder order) {
      c.spec.maps.push_back({.geometry = geometry,
                             .input = input,
                             .output = output,
                             .order = order,
                             .needs_canonical = seed % 4 == 0});
    };
    layer(k3, 0, 1, RowOrder::planes);
    layer(flat, 1, 2, RowOrder::single);
    layer(kHalving, 2, 3, RowOrder::single);
    layer(wide, 3, 4, RowOrder::single);
    layer(squeeze, 2, 5, RowOrder::single);
    for (const int set : {1, 2, 4, 5})
      layer(ConvGeometry::submanifold({3, 3, 3}), set, set,
            set == 2 ? RowOrder::single : RowOrder::planes);
    layer(ConvGeometry::submanifold({3, 3, 3}, {2, 2, 2}), 1, 1, RowOrder::planes);
    layer(ConvGeometry::submanifold({5, 3, 1}), 1, 1, RowOrder::single);
    if (seed % 3 == 0) c.capacity.counted_rows = 0;
    if (seed % 3 == 1) c.capacity.counted_rows = 2000;
    c.capacity.rows.clear();
    for (const auto& set :
         expected_of({FrameSpec{c.spec.sets, {}}, {}, c.keys, c.batch_size, c.spatial_shape}).sets)
      c.capacity.rows.push_back(set->size() + 10);
    expect_frame(c, build(c, 2));
    if (HasFatalFailure()) return;
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
    if (seed % 3 == 0) c.capacity.counted_rows = 0;
    const BuiltFrame built = build(c, 2);
    expect_frame(c, built);
    expect_merge(c, built);
    if (HasFatalFailure()) return;
  }
}

// Every kernel of the above on so little that racecheck gets through it: sorted and counted orders,
// levels by halving and general sets upon each other.
TEST_P(FrameMapsOn, FewRowsForSanitizers) {
  for (unsigned seed = 0; seed < 2; ++seed) {
    SCOPED_TRACE(seed);
    FrameCase c = unet_case(seed, 2, 150);
    if (seed == 0) c.capacity.counted_rows = 0;
    expect_frame(c, build(c));
    expect_frame(general_case(seed), build(general_case(seed)));
    if (HasFatalFailure()) return;
  }
}

// As many rows as a scan has, most of which see the same neighbours: several thread blocks count
// them, keys of a sample are often equal, and buckets between them are of very different sizes.
TEST_P(FrameMapsOn, OrdersOfManyRowsEqualTheCpus) {
  std::mt19937 random(8);
  std::set<Coord> coords;
  for (int i = 0; i < 260 * 260; ++i)
    coords.insert({0, i / 260, i % 260, (i / 260 / 7 + i % 260 / 9) % 3});
  for (int i = 0; i < 70000; ++i) {
    coords.insert({0, map_oracle::pick(random, 0, 259), map_oracle::pick(random, 0, 259),
                   map_oracle::pick(random, 0, map_oracle::pick(random, 1, 60))});
  }
  FrameCase c;
  c.keys = keys_of(map_oracle::in_order(coords));
  c.spec.sets = {{}, {SetSpec::Kind::strided, 0, kHalving}};
  c.spec.maps = {{.geometry = kHalving, .input = 0, .output = 1},
                 {KernelMap::Kind::inverse, kHalving, 1, 0, 0, RowOrder::single}};
  for (const auto& kernel : {std::array{3, 3, 3}, {3, 3, 1}, {5, 3, 1}})
    c.spec.maps.push_back({.geometry = ConvGeometry::submanifold(kernel), .input = 0, .output = 0});
  c.spec.maps.push_back(c.spec.maps[2]);
  c.spec.maps.back().order = RowOrder::planes;
  const auto rows = static_cast<std::int64_t>(c.keys.size());
  for (const std::int64_t room : {rows, 3 * rows}) {
    c.capacity.rows = {room, room};
    expect_frame(c, build(c, 2));
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
  for (const std::int64_t counted_rows : {0, 1 << 18}) {
    general.capacity.counted_rows = counted_rows;
    EXPECT_NO_THROW(build(general));
  }
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

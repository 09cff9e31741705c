#include "sparseconv/coordinates.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "gemm_core/base/parallel.hpp"
#include "map_oracle.hpp"
#include "sparseconv/hash_map.hpp"
#include "tests/support/error_message.hpp"

namespace sparseconv {
namespace {

std::vector<Coord> to_vector(const CoordinatesPtr& c) {
  return {c->coords().begin(), c->coords().end()};
}

using test_support::message_of;

#define EXPECT_MESSAGE(expression, ...)                                                 \
  do {                                                                                  \
    const std::string message = message_of([&] { (void)(expression); });                \
    for (const char* part : {__VA_ARGS__}) {                                            \
      EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part; \
    }                                                                                   \
  } while (0)

TEST(Key, PackAndUnpackAreInverseAtTheEndsOfTheRange) {
  for (const Coord& c :
       {Coord{0, 0, 0, 0}, Coord{0, -1, 0, 1}, Coord{kBatchMax, kAxisMin, kAxisMax, 5},
        Coord{1, kAxisMax, kAxisMax, kAxisMax}, Coord{0, kAxisMin, kAxisMin, kAxisMin}}) {
    EXPECT_EQ(unpack(pack(c)), c);
    EXPECT_TRUE(is_in_key_range(c));
  }
  EXPECT_FALSE(is_in_key_range({kBatchMax, kAxisMax, kAxisMax, kAxisMax}));
  EXPECT_FALSE(is_in_key_range({kBatchMax + 1, 0, 0, 0}));
  EXPECT_FALSE(is_in_key_range({0, kAxisMax + 1, 0, 0}));
}

TEST(Key, OrderIsBatchThenMorton) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const auto coord = [&] {
      return Coord{map_oracle::pick(random, 0, 2), map_oracle::pick(random, -5, 5),
                   map_oracle::pick(random, -5, 5), map_oracle::pick(random, -5, 5)};
    };
    const Coord a = coord(), b = coord();
    EXPECT_EQ(pack(a) < pack(b), map_oracle::is_before(a, b));
  }
}

TEST(HashMap, FindsEveryKeyAndNoOther) {
  for (const std::int64_t count : {0, 1, 63, 64, 65, 5000}) {
    std::mt19937_64 random(static_cast<std::uint64_t>(count));
    std::map<Key, std::int32_t> truth;
    while (static_cast<std::int64_t>(truth.size()) < count)
      truth[random() % 20000 << (random() % 2 * 30)] = 0;
    std::vector<Key> keys;
    for (auto& [key, row] : truth) {
      row = static_cast<std::int32_t>(keys.size());
      keys.push_back(key);
    }
    const HashMap map(keys);
    HashMap::Cursor cursor(map);
    for (Key key = 0; key < 20100; ++key) {
      for (const Key k : {key, key << 30}) {
        const auto found = truth.find(k);
        const std::int32_t row = found == truth.end() ? -1 : found->second;
        ASSERT_EQ(map.find(k), row) << k;
        ASSERT_EQ(cursor.find(k), row) << k;
      }
    }
    EXPECT_EQ(map.find(kNoKey), -1);
  }
}

TEST(BlockSet, GrowsAndGivesTheDistinctKeysInOrder) {
  std::mt19937_64 random(3);
  BlockSet set;
  std::set<Key> truth;
  for (int i = 0; i < 20000; ++i) {
    const Key key = random() % 30000 * 17 << (random() % 2 * 20);
    EXPECT_EQ(set.insert(key), truth.insert(key).second);
    EXPECT_TRUE(set.contains(key));
  }
  EXPECT_FALSE(set.contains(1));
  EXPECT_EQ(set.size(), static_cast<std::int64_t>(truth.size()));
  const auto [keys, map] = std::move(set).finish();
  EXPECT_EQ(keys, std::vector<Key>(truth.begin(), truth.end()));
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    EXPECT_EQ(map.find(keys[rank]), static_cast<std::int32_t>(rank));
  }
  EXPECT_EQ(map.find(1), -1);
  EXPECT_EQ(HashMap().find(0), -1);
}

// Keys of cells near `centre` on every axis, or anywhere.
std::vector<Key> random_keys(std::size_t count, std::int32_t reach, std::int32_t centre) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<Key> keys;
  while (keys.size() < count) {
    const auto axis = [&] {
      return std::clamp(map_oracle::pick(random, centre - reach, centre + reach), kAxisMin,
                        kAxisMax);
    };
    keys.push_back(pack({map_oracle::pick(random, 0, 3), axis(), axis(), axis()}));
  }
  return keys;
}

TEST(BlockSet, SortsKeysWhateverBitsTheyDifferIn) {
  // The last ones: bits of blocks and of their slots together exceed a word.
  for (const auto& [count, reach, centre] : std::vector<std::array<int, 3>>{{1, 0, 0},
                                                                            {500, 2, 0},
                                                                            {500, 2, -1000},
                                                                            {5000, 300, 0},
                                                                            {5000, 300, kAxisMax},
                                                                            {5000, 300, kAxisMin},
                                                                            {300, kAxisMax, 0},
                                                                            {60000, kAxisMax, 0}}) {
    const auto keys = random_keys(static_cast<std::size_t>(count), reach, centre);
    BlockSet set;
    for (const Key key : keys) set.insert(key);
    const std::set<Key> truth(keys.begin(), keys.end());
    const auto [sorted, map] = std::move(set).finish();
    EXPECT_EQ(sorted, std::vector<Key>(truth.begin(), truth.end())) << count << ' ' << reach;
    for (std::size_t rank = 0; rank < sorted.size(); ++rank) {
      ASSERT_EQ(map.find(sorted[rank]), static_cast<std::int32_t>(rank));
    }
  }
}

TEST(BlockSet, InsertingManyIsInsertingEach) {
  for (const std::size_t count : {0, 1, 63, 64, 65, 3000}) {
    auto keys = random_keys(count, 12, 0);
    for (std::size_t i = 5; i < count; i += 17) keys[i] = kNoKey;
    for (const std::int64_t expected : {std::int64_t{0}, std::int64_t{4096}}) {
      BlockSet set(expected);
      std::vector<std::uint32_t> slots(count);
      set.insert_all(keys, slots.data());
      std::set<Key> truth(keys.begin(), keys.end());
      truth.erase(kNoKey);
      EXPECT_EQ(set.size(), static_cast<std::int64_t>(truth.size()));
      const bool has_grown = set.growths() > 0;
      EXPECT_EQ(has_grown, expected == 0 && count > 8);
      const auto [sorted, map] = std::move(set).finish();
      EXPECT_EQ(sorted, std::vector<Key>(truth.begin(), truth.end())) << count;
      for (std::size_t i = 0; i < count && !has_grown; ++i) {
        if (keys[i] == kNoKey) continue;
        ASSERT_EQ(map.find_in_slot(slots[i], keys[i]), map.find(keys[i]));
        ASSERT_EQ(sorted[static_cast<std::size_t>(map.find(keys[i]))], keys[i]);
      }
    }
  }
}

TEST(Coordinates, KeepTheOrderGivenAndFindTheirRows) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto c = map_oracle::random_case(seed);
    const auto set =
        Coordinates::create(c.coords, {.batch_size = c.batch_size, .spatial_shape = c.shape});
    EXPECT_EQ(to_vector(set), c.coords);
    EXPECT_EQ(set->is_sorted(),
              std::is_sorted(c.coords.begin(), c.coords.end(), map_oracle::is_before));
    for (std::size_t i = 0; i < c.coords.size(); ++i) {
      EXPECT_EQ(set->hash_map().find(set->keys()[i]), static_cast<std::int32_t>(i));
    }
    EXPECT_GE(set->nbytes(), static_cast<std::int64_t>(c.coords.size() * sizeof(Coord)));
  }
}

TEST(Coordinates, EmptyIsLegal) {
  const auto set = Coordinates::create({}, {.batch_size = 2});
  EXPECT_EQ(set->size(), 0);
  EXPECT_EQ(set->batch_size(), 2);
  EXPECT_EQ(set->hash_map().find(0), -1);
  const ConvGeometry k3s2{.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}};
  for (const auto& made : {strided_coordinates(set, k3s2), generative_coordinates(set, k3s2),
                           strided_coordinates(set, {.kernel = {2, 2, 2}, .stride = {2, 2, 2}})}) {
    EXPECT_EQ(made->size(), 0);
    EXPECT_EQ(made->batch_size(), 2);
  }
  EXPECT_EQ(Coordinates::create({}, {})->batch_size(), 0);
}

TEST(Coordinates, MissingBatchIdsCount) {
  EXPECT_EQ(Coordinates::create({{0, 1, 1, 1}, {2, 1, 1, 1}}, {})->batch_size(), 3);
  EXPECT_EQ(Coordinates::create({{0, 1, 1, 1}, {2, 1, 1, 1}}, {.batch_size = 5})->batch_size(), 5);
}

TEST(Coordinates, OutsideRowsAreErrorsThatNameRowAxisAndLimit) {
  const SpatialShape shape{8, 9, 10};
  const auto make = [&](const Coord& c) {
    return Coordinates::create({{0, 1, 1, 1}, c}, {.batch_size = 2, .spatial_shape = shape});
  };
  EXPECT_MESSAGE(make({0, -1, 0, 0}), "row 1", "x = -1", "0..7");
  EXPECT_MESSAGE(make({0, 0, 9, 0}), "row 1", "y = 9", "0..8");
  EXPECT_MESSAGE(make({1, 0, 0, 10}), "row 1", "z = 10", "0..9");
  EXPECT_MESSAGE(make({2, 0, 0, 0}), "row 1", "batch 2", "0..1");
  EXPECT_MESSAGE(make({-1, 0, 0, 0}), "row 1", "batch -1");
  EXPECT_MESSAGE(Coordinates::create({{0, 0, 0, kAxisMax + 1}}, {}), "row 0", "z = 131072",
                 "-131072..131071");
  EXPECT_MESSAGE(Coordinates::create({{1024, 0, 0, 0}}, {}), "row 0", "batch 1024", "0..1023");
  EXPECT_MESSAGE(Coordinates::create({{kBatchMax, kAxisMax, kAxisMax, kAxisMax}}, {}), "row 0",
                 "reserved");
  EXPECT_EQ(make({1, 7, 8, 9})->size(), 2);
}

TEST(Coordinates, OutsideRowsAreDroppedAndCountedWhereAsked) {
  const std::vector<Coord> coords{
      {0, -1, 0, 0}, {0, 3, 3, 3}, {1, 8, 0, 0}, {2, 0, 0, 0}, {1, 7, 7, 7}};
  const auto selection =
      Coordinates::create_within(coords, {.batch_size = 2, .spatial_shape = SpatialShape{8, 8, 8}});
  EXPECT_EQ(to_vector(selection.coordinates), (std::vector<Coord>{{0, 3, 3, 3}, {1, 7, 7, 7}}));
  EXPECT_EQ(selection.kept_rows, (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(selection.dropped, 3);
}

TEST(Coordinates, DuplicatesAreAnErrorThatNamesBothRows) {
  EXPECT_MESSAGE(Coordinates::create({{0, 5, 6, 7}, {0, 1, 1, 1}, {0, 2, 2, 2}, {0, 1, 1, 1}}, {}),
                 "rows 1 and 3", "[0, 1, 1, 1]");
  EXPECT_MESSAGE(Coordinates::create({{0, 1, 1, 1}, {0, 1, 1, 1}}, {}), "rows 0 and 1");
  EXPECT_EQ(Coordinates::create({{0, 1, 1, 1}, {1, 1, 1, 1}}, {})->size(), 2);
}

TEST(StridedCoordinates, EqualTheNaiveSetInCanonicalOrder) {
  for (unsigned seed = 0; seed < 1200; ++seed) {
    const auto c = map_oracle::random_case(seed);
    const auto input =
        Coordinates::create(c.coords, {.batch_size = c.batch_size, .spatial_shape = c.shape});
    const auto output = strided_coordinates(input, c.geometry);
    ASSERT_EQ(to_vector(output), map_oracle::strided(c.coords, c.shape, c.geometry))
        << seed << to_string(c.geometry);
    EXPECT_TRUE(output->is_sorted());
    EXPECT_EQ(output->batch_size(), c.batch_size);
    EXPECT_EQ(output->spatial_shape().has_value(), c.shape.has_value());
  }
}

TEST(GenerativeCoordinates, EqualTheNaiveSetInCanonicalOrder) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    const auto c = map_oracle::random_case(seed);
    const auto input =
        Coordinates::create(c.coords, {.batch_size = c.batch_size, .spatial_shape = c.shape});
    ASSERT_EQ(to_vector(generative_coordinates(input, c.geometry)),
              map_oracle::generative(c.coords, c.shape, c.geometry))
        << seed << to_string(c.geometry);
  }
}

TEST(StridedCoordinates, NegativeCoordinatesAreFloorDivided) {
  const auto input = Coordinates::create({{0, -1, -2, -3}, {0, 1, 2, 3}}, {});
  EXPECT_EQ(to_vector(strided_coordinates(input, {.kernel = {2, 2, 2}, .stride = {2, 2, 2}})),
            (std::vector<Coord>{{0, -1, -1, -2}, {0, 0, 1, 1}}));
}

TEST(StridedCoordinates, VoxelAtTheUnreachableEndGivesNoOutput) {
  const ConvGeometry g{.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 0}};
  const auto at = [&](std::int64_t size) {
    return strided_coordinates(
        Coordinates::create({{0, 4, 4, 7}}, {.spatial_shape = SpatialShape{8, 8, size}}), g);
  };
  EXPECT_EQ(at(8)->size(), 0);
  EXPECT_EQ(*at(8)->spatial_shape(), (SpatialShape{4, 4, 3}));
  EXPECT_EQ(to_vector(at(9)), (std::vector<Coord>{{0, 2, 2, 3}}));
}

TEST(StridedCoordinates, OnePlaneAndCellOwnership) {
  std::vector<Coord> plane;
  for (int x = 0; x < 8; ++x) plane.push_back({0, x, 0, 3});
  const auto input = Coordinates::create(plane, {});
  EXPECT_EQ(strided_coordinates(input, {.kernel = {2, 2, 2}, .stride = {2, 2, 2}})->size(), 4);
  EXPECT_EQ(to_vector(strided_coordinates(input, {.kernel = {4, 4, 4}, .stride = {4, 4, 4}})),
            (std::vector<Coord>{{0, 0, 0, 0}, {0, 1, 0, 0}}));
}

TEST(StridedCoordinates, RegularStrideOneOfOneVoxelGives27Outputs) {
  const auto input = Coordinates::create({{0, 4, 4, 4}}, {});
  const ConvGeometry g{.kernel = {3, 3, 3}, .padding = {1, 1, 1}};
  EXPECT_EQ(strided_coordinates(input, g)->size(), 27);
}

TEST(GeneratedCoordinates, BeyondTheKeyRangeAreAnErrorThatNamesTheAxis) {
  const ConvGeometry k3{.kernel = {3, 3, 3}, .padding = {1, 1, 1}};
  const auto edge = Coordinates::create({{0, 0, kAxisMax, 0}}, {});
  EXPECT_MESSAGE(strided_coordinates(edge, k3), "y = 131072", "-131072..131071");
  EXPECT_MESSAGE(generative_coordinates(edge, {.kernel = {1, 1, 1}, .stride = {2, 2, 2}}),
                 "y = 262142");
}

TEST(GeneratedCoordinates, AreTheSameForAnyNumberOfThreads) {
  std::mt19937 random(2);
  std::set<Coord> coords;
  while (coords.size() < 30000) {
    coords.insert({0, map_oracle::pick(random, -60, 60), map_oracle::pick(random, 0, 60), 0});
    coords.insert({1, map_oracle::pick(random, -60, 60), 7, map_oracle::pick(random, 0, 60)});
    coords.insert({1, map_oracle::pick(random, -60, 60), 9, map_oracle::pick(random, 0, 200)});
  }
  const ConvGeometry g{.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}};
  std::vector<std::vector<Coord>> made;
  for (const int count : {1, 2, 4}) {
    base::Threads(count).run([&] {
      const auto input = Coordinates::create({coords.begin(), coords.end()}, {});
      made.push_back(to_vector(generative_coordinates(input, g)));
      made.push_back(to_vector(strided_coordinates(input, g)));
    });
  }
  for (std::size_t i = 2; i < made.size(); ++i) EXPECT_EQ(made[i], made[i % 2]);
}

TEST(ConvGeometry, ChecksNameTheFieldAndTheLimits) {
  EXPECT_MESSAGE((ConvGeometry{.kernel = {3, 0, 3}}.check("conv")), "conv", "kernel", "axis y");
  EXPECT_MESSAGE((ConvGeometry{.stride = {1, 1, 0}}.check("conv")), "stride", "axis z");
  EXPECT_MESSAGE((ConvGeometry{.padding = {-1, 0, 0}}.check("conv")), "padding", "axis x");
  EXPECT_MESSAGE((ConvGeometry{.dilation = {1, 0, 1}}.check("conv")), "dilation", "axis y");
  EXPECT_MESSAGE((ConvGeometry{.kernel = {64, 64, 64}}.check("conv")), "taps");
  EXPECT_MESSAGE(ConvGeometry::submanifold({3, 2, 3}), "even", "axis y");
}

TEST(ConvGeometry, ShapesFollowTheFormulas) {
  const ConvGeometry g{
      .kernel = {3, 3, 2}, .stride = {2, 2, 2}, .padding = {1, 1, 0}, .dilation = {1, 2, 1}};
  EXPECT_EQ(g.coarse_shape({41, 8, 1}), (std::array<std::int64_t, 3>{21, 3, 0}));
  EXPECT_EQ(g.fine_shape({21, 3, 4}), (std::array<std::int64_t, 3>{41, 7, 8}));
  EXPECT_EQ(g.fine_shape({0, 3, 4})[0], 0);
}

}  // namespace
}  // namespace sparseconv

#include "sparseconv/kernel_map.hpp"

#include <gtest/gtest.h>

#include "gemm_core/base/parallel.hpp"
#include "map_oracle.hpp"

namespace sparseconv {
namespace {

using map_oracle::Pair;

std::vector<Pair> pairs_of(const KernelMap& map) {
  std::vector<Pair> all;
  const std::int64_t rows = map.output->size();
  for (int tap = 0; tap < map.geometry.taps(); ++tap) {
    for (std::int64_t out = 0; out < rows; ++out) {
      const std::int32_t in = map.table[static_cast<std::size_t>(tap * rows + out)];
      if (in >= 0) all.push_back({tap, in, static_cast<std::int32_t>(out)});
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

// What holds for every map: table size, rows in range, each row at most once a tap, counts.
void expect_invariants(const KernelMap& map) {
  const std::int64_t rows = map.output->size();
  ASSERT_EQ(static_cast<std::int64_t>(map.table.size()), map.geometry.taps() * rows);
  ASSERT_EQ(map.pairs_per_tap.size(), static_cast<std::size_t>(map.geometry.taps()));
  std::int64_t total = 0;
  std::vector<bool> is_met(static_cast<std::size_t>(map.input->size()));
  for (int tap = 0; tap < map.geometry.taps(); ++tap) {
    std::set<std::int32_t> seen;
    std::int64_t present = 0;
    for (std::int64_t out = 0; out < rows; ++out) {
      const std::int32_t in = map.table[static_cast<std::size_t>(tap * rows + out)];
      if (in < 0) continue;
      ASSERT_LT(in, map.input->size());
      ASSERT_TRUE(seen.insert(in).second) << "input row " << in << " twice under tap " << tap;
      is_met[static_cast<std::size_t>(in)] = true;
      ++present;
    }
    EXPECT_EQ(map.pairs_per_tap[static_cast<std::size_t>(tap)], present);
    total += present;
  }
  EXPECT_EQ(map.pairs(), total);
  EXPECT_EQ(map.inputs_without_pair(), std::count(is_met.begin(), is_met.end(), false));
}

CoordinatesPtr make(const map_oracle::RandomCase& c) {
  return Coordinates::create(c.coords, {.batch_size = c.batch_size, .spatial_shape = c.shape});
}

std::vector<Coord> to_vector(const CoordinatesPtr& c) {
  return {c->coords().begin(), c->coords().end()};
}

TEST(KernelMap, EqualsTheNaivePairsForRandomGeometries) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const auto c = map_oracle::random_case(seed);
    const auto input = make(c);
    const auto output = seed % 4 == 2 ? input : strided_coordinates(input, c.geometry);
    const auto map = build_kernel_map(input, output, c.geometry);
    expect_invariants(*map);
    ASSERT_EQ(pairs_of(*map), map_oracle::pairs(c.coords, to_vector(output), c.geometry))
        << seed << to_string(c.geometry);
    EXPECT_EQ(map->kind, KernelMap::Kind::convolution);
  }
}

TEST(KernelMap, EqualsTheNaivePairsForOutputsThatAreNotGenerated) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const auto c = map_oracle::random_case(seed), other = map_oracle::random_case(seed + 5000);
    const auto input = make(c), output = make(other);
    const auto map = build_kernel_map(input, output, c.geometry);
    expect_invariants(*map);
    ASSERT_EQ(pairs_of(*map), map_oracle::pairs(c.coords, other.coords, c.geometry))
        << seed << to_string(c.geometry);
  }
}

TEST(KernelMap, SubmanifoldOfAnUnsortedSetPermutesWithItsRows) {
  auto c = map_oracle::random_case(6);
  c.geometry = ConvGeometry::submanifold({3, 3, 3});
  const auto sorted =
      build_kernel_map(make(c), make(c), c.geometry);  // other pointers: searched in full
  std::mt19937 random(1);
  std::shuffle(c.coords.begin(), c.coords.end(), random);
  const auto input = make(c);
  const auto map = build_kernel_map(input, input, c.geometry);
  EXPECT_EQ(map->pairs_per_tap, sorted->pairs_per_tap);
  EXPECT_EQ(pairs_of(*map), map_oracle::pairs(c.coords, c.coords, c.geometry));
}

TEST(KernelMap, NothingLeaksAcrossAxisEndsOrBatches) {
  const SpatialShape shape{5, 6, 7};
  const auto input = Coordinates::create({{0, 4, 5, 6}, {1, 0, 0, 0}}, {.spatial_shape = shape});
  const auto map = build_kernel_map(input, input, ConvGeometry::submanifold({3, 3, 3}));
  EXPECT_EQ(pairs_of(*map), (std::vector<Pair>{{13, 0, 0}, {13, 1, 1}}));
  const auto ends =
      Coordinates::create({{0, kAxisMin, kAxisMax, 0}, {0, kAxisMax, kAxisMin, 0}}, {});
  EXPECT_EQ(build_kernel_map(ends, ends, ConvGeometry::submanifold({7, 7, 7}, {3, 3, 3}))->pairs(),
            2);
}

TEST(KernelMap, DilationTwoMeetsNeighboursAtDistanceTwoOnly) {
  const auto input = Coordinates::create({{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 3, 0, 0}}, {});
  const auto map = build_kernel_map(input, input, ConvGeometry::submanifold({3, 3, 3}, {2, 2, 2}));
  EXPECT_EQ(pairs_of(*map),
            (std::vector<Pair>{{4, 1, 2}, {13, 0, 0}, {13, 1, 1}, {13, 2, 2}, {22, 2, 1}}));
}

TEST(KernelMap, InverseUsesThePairsOfTheForwardMap) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto c = map_oracle::random_case(seed);
    const auto input = make(c);
    const auto output = strided_coordinates(input, c.geometry);
    const auto forward = build_kernel_map(input, output, c.geometry), inverse = invert(forward);
    expect_invariants(*inverse);
    EXPECT_EQ(inverse->kind, KernelMap::Kind::inverse);
    EXPECT_EQ(inverse->input, output);
    EXPECT_EQ(inverse->output, input);
    auto swapped = pairs_of(*forward);
    for (Pair& p : swapped) std::swap(p.in, p.out);
    std::sort(swapped.begin(), swapped.end());
    ASSERT_EQ(pairs_of(*inverse), swapped);
    EXPECT_EQ(invert(inverse)->table, forward->table);
  }
}

TEST(KernelMap, TransposedMapFollowsTheRelationOnGeneratedAndOnGivenCoordinates) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const auto c = map_oracle::random_case(seed);
    const auto input = make(c);
    const auto output = seed % 2 == 0 ? generative_coordinates(input, c.geometry)
                                      : make(map_oracle::random_case(seed + 9));
    const auto map = build_transposed_map(input, output, c.geometry);
    expect_invariants(*map);
    EXPECT_EQ(map->kind, KernelMap::Kind::transposed);
    auto truth =
        map_oracle::pairs(to_vector(output), c.coords, c.geometry);  // fine rows meet coarse rows
    for (Pair& p : truth) std::swap(p.in, p.out);
    std::sort(truth.begin(), truth.end());
    ASSERT_EQ(pairs_of(*map), truth) << seed << to_string(c.geometry);
  }
}

TEST(KernelMap, EmptySetsGiveEmptyTables) {
  const auto none = Coordinates::create({}, {.batch_size = 2});
  const auto some = Coordinates::create({{0, 1, 2, 3}}, {});
  const auto k3 = ConvGeometry::submanifold({3, 3, 3});
  EXPECT_EQ(build_kernel_map(none, none, k3)->table.size(), 0u);
  EXPECT_EQ(build_kernel_map(none, some, k3)->pairs(), 0);
  EXPECT_EQ(build_kernel_map(some, none, k3)->inputs_without_pair(), 1);
  EXPECT_EQ(invert(build_kernel_map(some, none, k3))->table, std::vector<std::int32_t>(27, -1));
}

TEST(KernelMap, IsTheSameForAnyNumberOfThreads) {
  std::mt19937 random(5);
  std::set<Coord> coords;
  while (coords.size() < 20000) {
    coords.insert({0, map_oracle::pick(random, -30, 30), map_oracle::pick(random, -30, 30),
                   map_oracle::pick(random, 0, 9)});
  }
  const auto input = Coordinates::create(map_oracle::in_order(coords), {});
  for (const ConvGeometry& g :
       {ConvGeometry::submanifold({3, 3, 3}),
        ConvGeometry{.kernel = {2, 2, 2}, .stride = {2, 2, 2}},
        ConvGeometry{.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}}}) {
    std::vector<base::Buffer<std::int32_t>> tables;
    for (const int count : {1, 2, 4}) {
      base::Threads(count).run([&] {
        const auto output = g.stride[0] == 1 ? input : strided_coordinates(input, g);
        tables.push_back(build_kernel_map(input, output, g)->table);
      });
    }
    EXPECT_EQ(tables[0], tables[1]);
    EXPECT_EQ(tables[0], tables[2]);
  }
}

TEST(KernelMap, ReuseForAnotherGeometryOrOtherCoordinatesIsAnError) {
  const auto a = Coordinates::create({{0, 1, 2, 3}}, {}),
             b = Coordinates::create({{0, 1, 2, 4}}, {});
  const auto k3 = ConvGeometry::submanifold({3, 3, 3});
  const auto map = build_kernel_map(a, a, k3);
  EXPECT_NO_THROW(map->require(k3, a, "conv"));
  EXPECT_THROW(map->require(ConvGeometry::submanifold({5, 3, 3}), a, "conv"), base::Error);
  EXPECT_THROW(map->require(ConvGeometry::submanifold({3, 3, 3}, {2, 2, 2}), a, "conv"),
               base::Error);
  EXPECT_THROW(
      map->require({.kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}}, a, "conv"),
      base::Error);
  EXPECT_THROW(map->require({.kernel = {3, 3, 3}}, a, "conv"), base::Error);
  EXPECT_THROW(map->require(k3, b, "conv"), base::Error);
}

}  // namespace
}  // namespace sparseconv

#include "sparseconv/voxelize.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "gemm_core/base/parallel.hpp"
#include "map_oracle.hpp"

namespace sparseconv {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T = double>
io::Cloud make_cloud(const std::vector<std::array<double, 4>>& points) {
  io::Cloud cloud(static_cast<std::int64_t>(points.size()));
  const std::array names{"x", "y", "z", "intensity"};
  for (std::size_t a = 0; a < 4; ++a) {
    std::vector<T> values;
    for (const auto& p : points) values.push_back(static_cast<T>(p[a]));
    cloud.add(names[a], std::span<const T>(values));
  }
  return cloud;
}

std::vector<Coord> coords_of(const Voxels& v) {
  return {v.tensor.coordinates->coords().begin(), v.tensor.coordinates->coords().end()};
}

float feature(const Voxels& v, std::int64_t row, const std::string& name) {
  const auto& names = v.feature_names;
  const auto column = std::find(names.begin(), names.end(), name) - names.begin();
  return v.tensor.features.data<float>()[row * v.tensor.channels() + column];
}

bool mentions(const std::vector<std::string>& warnings, const std::string& text) {
  return std::any_of(warnings.begin(), warnings.end(),
                     [&](const std::string& w) { return w.find(text) != std::string::npos; });
}

std::string message_of(const io::Cloud& cloud, const VoxelizeOptions& options) {
  try {
    voxelize(cloud, options);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "no error";
}

// Cells, limits and sums as DESIGN states them, with a std::map.
struct Oracle {
  std::map<Coord, std::vector<std::size_t>> voxels;  // points kept, in file order
  Oracle(const std::vector<std::array<double, 4>>& points, const VoxelizeOptions& o) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      Coord c;
      bool is_kept = true;
      std::array<std::int32_t, 3> cell{};
      for (std::size_t a = 0; a < 3; ++a) {
        const double p = points[i][a], origin = o.range ? (*o.range)[a] : o.origin[a];
        if (!std::isfinite(p) || (o.range && !(p >= (*o.range)[a] && p < (*o.range)[a + 3]))) {
          is_kept = false;
          break;
        }
        cell[a] = static_cast<std::int32_t>(std::floor((p - origin) / o.voxel_size[a]));
        if (o.spatial_shape && (cell[a] < 0 || cell[a] >= (*o.spatial_shape)[a])) is_kept = false;
      }
      c = {0, cell[0], cell[1], cell[2]};
      if (!is_kept) continue;
      if (o.max_voxels > 0 && static_cast<std::int64_t>(voxels.size()) == o.max_voxels &&
          !voxels.contains(c)) {
        continue;
      }
      auto& kept = voxels[c];
      if (o.max_points == 0 || static_cast<std::int64_t>(kept.size()) < o.max_points)
        kept.push_back(i);
    }
  }
};

TEST(Voxelize, EqualsANaiveMapForRandomCloudsAndOptions) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto coin = [&] { return map_oracle::pick(random, 0, 2) == 0; };
    std::normal_distribution<double> place(0, 2);
    std::vector<std::array<double, 4>> points;
    for (int i = map_oracle::pick(random, 0, 3000); i > 0; --i) {
      points.push_back({place(random), place(random), place(random) / 4, place(random)});
      if (i % 100 == 7)
        points.back()[static_cast<std::size_t>(i / 100 % 3)] = i % 200 == 7 ? kNaN : -kInf;
      if (i % 50 == 3)
        points.back() = {0.5 * (i % 7), -0.25 * (i % 5), 0.125 * (i % 3), 1};  // on cell edges
    }
    VoxelizeOptions options{.voxel_size = {0.25, 0.5, 0.125}};
    if (coin()) options.origin = {0.1, -0.2, 0.3};
    if (coin()) options.range = {-3, -2, -0.5, 2.5, 2.25, 0.75};
    if (coin()) options.spatial_shape = SpatialShape{9, 7, 5};
    if (coin()) options.max_points = map_oracle::pick(random, 1, 4);
    if (coin()) options.max_voxels = map_oracle::pick(random, 1, 200);
    options.reduce = static_cast<Reduce>(seed % 4);
    const Oracle truth(points, options);
    const Voxels made = voxelize(make_cloud(points), options);

    std::set<Coord> keys;
    for (const auto& [c, kept] : truth.voxels) keys.insert(c);
    ASSERT_EQ(coords_of(made), map_oracle::in_order(keys)) << seed;
    EXPECT_TRUE(made.tensor.coordinates->is_sorted());
    EXPECT_EQ(made.feature_names, (std::vector<std::string>{"x", "y", "z", "intensity"}));
    std::vector<std::int64_t> rows(points.size(), -1);
    std::int64_t kept_points = 0;
    for (std::int64_t row = 0; row < made.tensor.rows(); ++row) {
      const auto& kept = truth.voxels.at(coords_of(made)[static_cast<std::size_t>(row)]);
      kept_points += static_cast<std::int64_t>(kept.size());
      for (std::size_t f = 0; f < 4; ++f) {
        double value = options.reduce == Reduce::max ? -kInf : 0;
        for (const std::size_t i : kept) {
          rows[i] = row;
          value =
              options.reduce == Reduce::max ? std::max(value, points[i][f]) : value + points[i][f];
        }
        if (options.reduce == Reduce::mean) value /= static_cast<double>(kept.size());
        if (options.reduce == Reduce::first) value = points[kept.front()][f];
        ASSERT_EQ(made.tensor.features.data<float>()[row * 4 + static_cast<std::int64_t>(f)],
                  static_cast<float>(value))
            << seed << " row " << row << " feature " << f;
      }
    }
    EXPECT_EQ(made.point_to_voxel, rows);
    EXPECT_EQ(made.points, static_cast<std::int64_t>(points.size()));
    EXPECT_EQ(made.dropped, made.points - kept_points);
    EXPECT_EQ(made.dropped,
              made.non_finite + made.out_of_range + made.over_max_points + made.over_max_voxels);
  }
}

TEST(Voxelize, CellsAreFlooredAlsoBelowZero) {
  std::vector<std::array<double, 4>> points;
  for (const double x : {-0.5, -0.26, -0.25, -0.01, 0.0, 0.24, 0.25})
    points.push_back({x, 0, 0, 0});
  const Voxels v = voxelize(make_cloud(points), {.voxel_size = {0.25, 0.25, 0.25}});
  EXPECT_EQ(coords_of(v),
            (std::vector<Coord>{{0, -2, 0, 0}, {0, -1, 0, 0}, {0, 0, 0, 0}, {0, 1, 0, 0}}));
  EXPECT_EQ(v.point_to_voxel, (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 3}));
}

TEST(Voxelize, LowerBoundOfTheRangeIsInAndUpperIsOut) {
  const VoxelizeOptions options{.voxel_size = {0.05, 0.05, 0.1},
                                .range = {{0, -40, -3, 70.4, 40, 1}}};
  const std::vector<std::array<double, 4>> points{{0, -40, -3, 0},
                                                  {70.4, 0, 0, 0},
                                                  {0, 40, 0, 0},
                                                  {0, 0, 1, 0},
                                                  {std::nextafter(70.4, 0), 39.9999, 0.9999, 0}};
  const Voxels v = voxelize(make_cloud(points), options);
  EXPECT_EQ(v.out_of_range, v.points - v.tensor.rows());
  for (const Coord& c : coords_of(v)) {
    EXPECT_TRUE(c.x >= 0 && c.x < 1408 && c.y >= 0 && c.y < 1600 && c.z >= 0 && c.z < 40);
  }
  EXPECT_EQ(coords_of(v).front(), (Coord{0, 0, 0, 0}));
  EXPECT_EQ(v.origin, (std::array<double, 3>{0, -40, -3}));
}

TEST(Voxelize, DoublesOneMillimetreApartAtUtmSizeStayApart) {
  const io::Cloud cloud =
      make_cloud({{431234.567, 5412345.678, 100.0, 1}, {431234.568, 5412345.678, 100.0, 2}});
  const Voxels v = voxelize(cloud, {.voxel_size = {0.001, 0.001, 0.001}});
  EXPECT_EQ(coords_of(v), (std::vector<Coord>{{0, 0, 0, 0}, {0, 1, 0, 0}}));
  EXPECT_TRUE(mentions(v.warnings, "origin"));
  EXPECT_NEAR(v.origin[0], 431234.567, 1e-9);
  EXPECT_NEAR(v.origin[1], 5412345.678, 1e-8);
  EXPECT_NEAR(feature(v, 1, "x") - feature(v, 0, "x"), 0.001,
              1e-8);  // relative to the shift, so precise in float
  EXPECT_NEAR(feature(v, 0, "x"), 0, 1e-9);
}

TEST(Voxelize, ShiftKeepsThePartitionOfPoints) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> place(0, 20);
  std::vector<std::array<double, 4>> far;
  for (int i = 0; i < 2000; ++i)
    far.push_back({3e6 + place(random), place(random), -4e6 + place(random), 0});
  const Voxels v = voxelize(make_cloud(far), {.voxel_size = {0.7, 0.7, 0.7}});
  std::map<std::array<double, 3>, std::int64_t> rows;
  for (std::size_t i = 0; i < far.size(); ++i) {
    const std::array<double, 3> cell{std::floor(far[i][0] / 0.7), std::floor(far[i][1] / 0.7),
                                     std::floor(far[i][2] / 0.7)};
    EXPECT_EQ(rows.emplace(cell, v.point_to_voxel[i]).first->second, v.point_to_voxel[i]);
  }
  EXPECT_EQ(static_cast<std::int64_t>(rows.size()), v.tensor.rows());
  Coord low{0, 1, 1, 1};
  for (const Coord& c : coords_of(v))
    low = {0, std::min(low.x, c.x), std::min(low.y, c.y), std::min(low.z, c.z)};
  EXPECT_EQ(low, (Coord{0, 0, 0, 0}));
}

TEST(Voxelize, OnlyAnExtentBeyondTheKeyRangeIsAnError) {
  const auto pair = [](double far) { return make_cloud({{0, 0, 0, 0}, {0, far, 0, 0}}); };
  const VoxelizeOptions options{.voxel_size = {1, 1, 1}};
  EXPECT_TRUE(voxelize(pair(131071), options).warnings.empty());
  const Voxels wide = voxelize(pair(262143), options);
  EXPECT_EQ(coords_of(wide).front(), (Coord{0, 0, kAxisMin, 0}));
  EXPECT_EQ(coords_of(wide).back().y - coords_of(wide).front().y, 262143);
  const std::string message = message_of(pair(262144), options);
  EXPECT_NE(message.find("extent on axis y is 262145 cells"), std::string::npos) << message;
  EXPECT_NE(message.find("262144"), std::string::npos);
  EXPECT_NE(message_of(pair(1e300), options).find("extent on axis y"), std::string::npos);
}

TEST(Voxelize, NonFinitePointsAreCountedAndNamedAndNeverVoxels) {
  const Voxels v =
      voxelize(make_cloud({{kNaN, 0, 0, 1}, {1, 1, 1, 2}, {0, kInf, 0, 3}, {0, 0, -kInf, 4}}), {});
  EXPECT_EQ(v.point_to_voxel, (std::vector<std::int64_t>{-1, 0, -1, -1}));
  EXPECT_EQ(v.non_finite, 3);
  EXPECT_EQ(v.dropped, 3);
  EXPECT_TRUE(mentions(v.warnings, "3 of 4 points have a non-finite coordinate"));
}

TEST(Voxelize, OtherNonFiniteValuesCountAsZeroAndAreNamed) {
  const Voxels v = voxelize(
      make_cloud({{0, 0, 0, kNaN}, {0, 0, 0, 3}, {1, 0, 0, 1e200}, {kNaN, 0, 0, kNaN}}), {});
  EXPECT_EQ(feature(v, 0, "intensity"), 1.5F);
  EXPECT_EQ(feature(v, 1, "intensity"), 0.0F);
  EXPECT_TRUE(mentions(v.warnings, "2 values of intensity"));
}

TEST(Voxelize, FeaturesByName) {
  io::Cloud cloud = make_cloud<float>({{0.25, 0.5, 0.75, 7}, {1.25, 2.5, -0.25, 9}});
  cloud.add("r", std::span<const std::uint8_t>(std::vector<std::uint8_t>{255, 51}));
  cloud.add("g", std::span<const std::uint16_t>(std::vector<std::uint16_t>{65535, 0}));
  cloud.add("b", std::span<const float>(std::vector<float>{0.5F, 1}));
  const Voxels v =
      voxelize(cloud, {.voxel_size = {1, 1, 1},
                       .features = {"one", "dx", "dz", "r", "g", "b", "time", "intensity", "y"},
                       .defaults = {{"time", 2.5}, {"intensity", 100}}});
  const std::int64_t row = v.point_to_voxel[0], other = v.point_to_voxel[1];
  EXPECT_EQ(feature(v, row, "one"), 1.0F);
  EXPECT_EQ(feature(v, row, "dx"), -0.25F);
  EXPECT_EQ(feature(v, row, "dz"), 0.25F);
  EXPECT_EQ(feature(v, other, "dz"), 0.25F);
  EXPECT_EQ(feature(v, row, "r"), 1.0F);
  EXPECT_EQ(feature(v, other, "r"), 0.2F);
  EXPECT_EQ(feature(v, row, "g"), 1.0F);
  EXPECT_EQ(feature(v, row, "b"), 0.5F);
  EXPECT_EQ(feature(v, row, "time"), 2.5F);
  EXPECT_EQ(feature(v, row, "intensity"), 7.0F);  // a default does not replace what the cloud has
  EXPECT_EQ(feature(v, other, "y"), 2.5F);
}

TEST(Voxelize, AMissingFeatureIsAnErrorThatListsTheFields) {
  const std::string message = message_of(make_cloud({{0, 0, 0, 0}}), {.features = {"x", "time"}});
  EXPECT_NE(message.find("time"), std::string::npos) << message;
  EXPECT_NE(message.find("x, y, z, intensity"), std::string::npos) << message;
}

TEST(Voxelize, ZeroPointsAreLegalAndWarn) {
  const Voxels none = voxelize(io::Cloud(0), {.features = {"x", "intensity"}});
  EXPECT_EQ(none.tensor.rows(), 0);
  EXPECT_EQ(none.tensor.channels(), 2);
  EXPECT_EQ(none.tensor.coordinates->batch_size(), 1);
  EXPECT_TRUE(mentions(none.warnings, "0 points"));
  // Also where the file knows fields, but not all that are asked for.
  const Voxels known = voxelize(make_cloud({}), {.features = {"x", "no such field"}});
  EXPECT_EQ(known.tensor.rows(), 0);
  EXPECT_EQ(known.tensor.channels(), 2);
  EXPECT_TRUE(mentions(known.warnings, "0 points"));
  const Voxels outside = voxelize(make_cloud({{9, 9, 9, 0}}), {.range = {{0, 0, 0, 1, 1, 1}}});
  EXPECT_EQ(outside.tensor.rows(), 0);
  EXPECT_TRUE(mentions(outside.warnings, "0 voxels: 1 of 1 points are out of range"));
}

TEST(Voxelize, BadOptionsAreErrors) {
  const io::Cloud cloud = make_cloud({{0, 0, 0, 0}});
  EXPECT_NE(message_of(cloud, {.voxel_size = {0.1, 0, 0.1}}).find("axis y"), std::string::npos);
  EXPECT_NE(message_of(cloud, {.voxel_size = {0.1, 0.1, kNaN}}).find("axis z"), std::string::npos);
  EXPECT_NE(message_of(cloud, {.range = {{0, 0, 0, 0, 1, 1}}}).find("axis x"), std::string::npos);
  EXPECT_NE(message_of(cloud, {.max_points = -1}).find("max_points -1"), std::string::npos);
  EXPECT_THROW(parse_reduce("median"), base::Error);
  EXPECT_EQ(parse_reduce("first"), Reduce::first);
}

TEST(Voxelize, ABatchIsItsCloudsSideBySide) {
  const io::Cloud a = make_cloud({{0, 0, 0, 1}, {5, 5, 5, 2}, {0, 0, 0, 3}}), empty(0),
                  b = make_cloud({{5e6, 5, 5, 4}, {5e6, 0, 0, 5}});
  const std::array<const io::Cloud*, 3> clouds{&a, &empty, &b};
  const VoxelizeOptions options{.max_voxels = 2, .features = {"x", "intensity"}};
  const Voxels batch = voxelize(clouds, options);
  EXPECT_EQ(batch.tensor.coordinates->batch_size(), 3);
  EXPECT_EQ(batch.tensor.rows(), 4);
  std::int64_t row = 0;
  std::size_t point = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    const Voxels alone = voxelize(*clouds[c], options);
    EXPECT_EQ(batch.origins[c], alone.origin);
    for (const std::int64_t to : alone.point_to_voxel)
      EXPECT_EQ(batch.point_to_voxel[point++], to + row);
    for (std::int64_t r = 0; r < alone.tensor.rows(); ++r, ++row) {
      Coord expected = coords_of(alone)[static_cast<std::size_t>(r)];
      expected.batch = static_cast<std::int32_t>(c);
      EXPECT_EQ(coords_of(batch)[static_cast<std::size_t>(row)], expected);
      for (const char* name : {"x", "intensity"})
        EXPECT_EQ(feature(batch, row, name), feature(alone, r, name));
    }
  }
  EXPECT_TRUE(mentions(batch.warnings, "cloud 2: "));
}

TEST(Voxelize, ThousandPointsInOneVoxelHaveTheExactMeanInEveryRun) {
  std::vector<std::array<double, 4>> points;
  for (int i = 0; i < 1000; ++i)
    points.push_back({0.01 + i * 1e-5, 0.02, 0.03, i % 8 == 0 ? 0.0 : i % 8 * 1.0});
  for (const int threads : {1, 2, 4}) {
    base::Threads(threads).run([&] {
      const Voxels v = voxelize(make_cloud<float>(points), {});
      EXPECT_EQ(v.tensor.rows(), 1);
      EXPECT_EQ(feature(v, 0, "intensity"), 3.5F);
    });
  }
}

// Behaviour 5. Values 5, 1, 9, 1 fall into one voxel and 2 into another.
TEST(Voxelize, PointsOfOneVoxelMergeAsEachModeSaysInEveryRun) {
  const auto cloud = make_cloud<float>(
      {{0.1, 0, 0, 5}, {0.2, 0, 0, 1}, {7, 0, 0, 2}, {0.3, 0, 0, 9}, {0.4, 0, 0, 1}});
  struct Mode {
    Reduce reduce;
    float expected;
  };
  for (const Mode& mode : {Mode{Reduce::first, 5}, Mode{Reduce::sum, 16}, Mode{Reduce::mean, 4},
                           Mode{Reduce::max, 9}}) {
    for (int run = 0; run < 100; ++run) {
      base::Threads(1 + run % 3).run([&] {
        const Voxels v = voxelize(cloud, {.voxel_size = {1, 1, 1}, .reduce = mode.reduce});
        ASSERT_EQ(v.tensor.rows(), 2);
        ASSERT_EQ(v.point_to_voxel, (std::vector<std::int64_t>{0, 0, 1, 0, 0}));
        ASSERT_EQ(feature(v, 0, "intensity"), mode.expected);
        ASSERT_EQ(feature(v, 1, "intensity"), 2.0F);
      });
    }
  }
}

TEST(Voxelize, IsTheSameForAnyNumberOfThreads) {
  std::mt19937 random(8);
  std::normal_distribution<double> place(0, 10);
  std::vector<std::array<double, 4>> points(50000);
  for (auto& p : points) p = {place(random), place(random), place(random) / 9, place(random)};
  std::vector<Voxels> made;
  for (const int threads : {1, 2, 5}) {
    base::Threads(threads).run([&] {
      made.push_back(voxelize(make_cloud(points), {.max_points = 3, .max_voxels = 20000}));
    });
  }
  for (std::size_t i = 1; i < made.size(); ++i) {
    EXPECT_EQ(coords_of(made[i]), coords_of(made[0]));
    EXPECT_EQ(made[i].point_to_voxel, made[0].point_to_voxel);
    const float* values = made[i].tensor.features.data<float>();
    EXPECT_TRUE(std::equal(values, values + made[i].tensor.features.numel(),
                           made[0].tensor.features.data<float>()));
  }
}

}  // namespace
}  // namespace sparseconv

// Clouds made to be hard to voxelise, through the library: the table beside them says what is
// right.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/io.h"
#include "sparseconv/voxelize.hpp"
#include "tests/support/shared_files.hpp"

namespace sparseconv {
namespace {

using Json = nlohmann::json;

VoxelizeOptions options_of(const Json& row) {
  VoxelizeOptions options;
  options.voxel_size = row["voxel_size"].get<std::array<double, 3>>();
  if (row.contains("range")) options.range = row["range"].get<std::array<double, 6>>();
  return options;
}

// The last feature of every voxel, sorted downwards.
std::vector<double> last_features(const Voxels& voxels) {
  std::vector<double> values;
  const std::int64_t channels = voxels.tensor.channels();
  for (std::int64_t row = 0; row < voxels.tensor.rows(); ++row) {
    values.push_back(voxels.tensor.features.data<float>()[row * channels + channels - 1]);
  }
  std::sort(values.rbegin(), values.rend());
  return values;
}

void expect_case(const std::filesystem::path& file, const Json& row) {
  const io::Cloud cloud = io::read(file);
  const VoxelizeOptions options = options_of(row);
  const Voxels voxels = voxelize(cloud, options);
  EXPECT_EQ(voxels.tensor.rows(), row["voxels"].get<std::int64_t>());
  EXPECT_EQ(voxels.points, row["points"].get<std::int64_t>());
  const auto coords = voxels.tensor.coordinates->coords();
  for (std::size_t i = 0; i < coords.size() && row.contains("grid"); ++i) {
    for (int a = 0; a < 3; ++a) {
      EXPECT_TRUE(coords[i][a] >= 0 &&
                  coords[i][a] < row["grid"][static_cast<std::size_t>(a)].get<int>())
          << i;
    }
  }
  if (row.contains("voxel_index_x")) {
    for (std::size_t i = 0; i < row["voxel_index_x"].size(); ++i) {
      const auto voxel = static_cast<std::size_t>(voxels.point_to_voxel[i]);
      EXPECT_EQ(coords[voxel].x, row["voxel_index_x"][i].get<int>()) << "point " << i;
    }
  }
  if (row.contains("mean")) {
    EXPECT_EQ(last_features(voxels), row["mean"].get<std::vector<double>>());
  }
  if (row.contains("mean_intensity")) {
    EXPECT_EQ(last_features(voxels).front(), row["mean_intensity"].get<double>());
  }
  if (row.contains("counts")) {
    auto counting = options;
    counting.features = {"one"};
    counting.reduce = Reduce::sum;
    EXPECT_EQ(last_features(voxelize(cloud, counting)), row["counts"].get<std::vector<double>>());
  }
}

TEST(VoxelCases, HoldWhatTheTableSays) {
  REQUIRE_SHARED(folder, "data/hostile");
  std::ifstream text(folder / "expect.json");
  int cases = 0;
  for (const Json& row : Json::parse(text)) {
    const std::string name = row["file"];
    if (!row.contains("voxels") || name.starts_with("las"))
      continue;  // LAS needs a reader that a build may lack
    SCOPED_TRACE(name);
    expect_case(folder / name, row);
    ++cases;
  }
  EXPECT_GT(cases, 5);
}

TEST(VoxelCases, ABatchOfTwoFilesMixesNothing) {
  REQUIRE_SHARED(folder, "data/hostile/voxel");
  const io::Cloud a = io::read(folder / "batch_a.xyz"), b = io::read(folder / "batch_b.xyz");
  const std::array<const io::Cloud*, 2> clouds{&a, &b};
  const Voxels batch = voxelize(clouds, {.voxel_size = {0.1, 0.1, 0.1}});
  EXPECT_EQ(batch.tensor.rows(), 4);
  std::vector<double> apart;
  for (const io::Cloud* cloud : clouds) {
    for (const double value : last_features(voxelize(*cloud, {.voxel_size = {0.1, 0.1, 0.1}})))
      apart.push_back(value);
  }
  std::sort(apart.rbegin(), apart.rend());
  EXPECT_EQ(last_features(batch), apart);
}

}  // namespace
}  // namespace sparseconv

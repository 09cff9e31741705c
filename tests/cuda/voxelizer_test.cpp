// The device's voxels against voxelize(), bit by bit: on the host, where the same steps run one
// after the other, and on the device where there is one.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "gemm_core/base/cuda/resources.hpp"
#include "sparseconv/cuda/voxels/voxel_build.cuh"
#include "tests/cuda/host_runner.hpp"

namespace cuda_tests {
namespace {

using namespace sparseconv;
using cuda::DeviceVoxelizer;

struct Made {
  std::vector<Key> keys;
  std::vector<float> features;
  std::vector<std::int32_t> point_to_voxel;
  DeviceVoxelizer::Outcome outcome;
};
using Clouds = std::vector<const io::Cloud*>;

std::int64_t points_of(const Clouds& clouds) {
  std::int64_t points = 0;
  for (const io::Cloud* cloud : clouds) points += cloud->size();
  return points;
}

Made make_on_host(const Clouds& clouds, const VoxelizeOptions& options) {
  const DeviceVoxelizer::Capacity capacity{
      .points = points_of(clouds) + 70,  // more than there are: what lies beyond must not matter
      .clouds = static_cast<std::int32_t>(clouds.size()),
      .has_positions = true};
  const auto sizes = cuda::lay_out_voxels(options, capacity, cuda::Arena()).arena.used();
  std::vector<std::uint64_t> memory((sizes[0] + sizes[1] + sizes[2] + sizes[3]) / 8 + 1,
                                    0xa5a5a5a5a5a5a5a5ull);
  const auto v = cuda::lay_out_voxels(
      options, capacity, cuda::Arena(reinterpret_cast<std::uint8_t*>(memory.data()), sizes));
  // What is not sent is not there.
  std::vector<std::uint64_t> staging(sizes[cuda::Arena::constant] / 8 + 1);
  auto* const staged = reinterpret_cast<std::uint8_t*>(staging.data());
  cuda::stage_clouds(
      options, capacity, v, clouds, staged, [&](std::size_t first, std::size_t bytes) {
        std::copy_n(staged + first, bytes, v.arena.begin(cuda::Arena::constant) + first);
      });
  std::fill_n(v.arena.begin(cuda::Arena::zeros), sizes[cuda::Arena::zeros], std::uint8_t{0});
  HostRunner runner;
  cuda::build_voxels(runner, options, v, capacity.clouds);
  Made made;
  made.outcome = cuda::read_voxel_status(options, {v.status, cuda::kVoxelStatus});
  made.keys.assign(v.runs.keys, v.runs.keys + made.outcome.voxels);
  made.features.assign(v.features, v.features + made.outcome.voxels * static_cast<std::int64_t>(
                                                                          options.features.size()));
  made.point_to_voxel.assign(v.point_to_voxel, v.point_to_voxel + points_of(clouds));
  return made;
}

template <class T>
std::vector<T> copy(const T* from, std::int64_t count) {
  std::vector<T> to(static_cast<std::size_t>(count));
  if (count > 0)
    CUDA_CHECK(cudaMemcpy(to.data(), from, to.size() * sizeof(T), cudaMemcpyDeviceToHost));
  return to;
}

Made make_on_device(const Clouds& clouds, const VoxelizeOptions& options) {
  const auto stream = base::cuda::Stream::create();
  DeviceVoxelizer voxelizer(options);
  voxelizer.reserve(
      {.points = points_of(clouds) + 100, .clouds = static_cast<std::int32_t>(clouds.size()) + 1});
  for (int run = 0; run < 2; ++run) voxelizer.run(clouds, stream.get());
  stream.synchronize();
  Made made;
  made.outcome =
      voxelizer.check(copy(voxelizer.status(), static_cast<std::int64_t>(voxelizer.status_size())));
  made.keys = copy(voxelizer.keys(), made.outcome.voxels);
  made.features = copy(voxelizer.features(), made.outcome.voxels * voxelizer.channels());
  made.point_to_voxel = copy(voxelizer.point_to_voxel(), points_of(clouds));
  return made;
}

class VoxelizerOn : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && base::cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
  static Made make(const Clouds& clouds, const VoxelizeOptions& options) {
    return GetParam() ? make_on_device(clouds, options) : make_on_host(clouds, options);
  }
};

template <class T>
io::Cloud random_cloud(unsigned seed, int points) {
  std::mt19937 random(seed);
  std::normal_distribution<double> place(0, 2);
  io::Cloud cloud(points);
  std::size_t column = 0;
  for (const char* name : {"x", "y", "z", "intensity"}) {
    std::vector<T> values(static_cast<std::size_t>(points));
    ++column;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>(place(random));
      if (i % 97 == 13 + column) values[i] = std::numeric_limits<T>::quiet_NaN();
      if (i % 131 == 17)
        values[i] = static_cast<T>(0.25 * static_cast<double>(i % 9));  // on cell edges
    }
    cloud.add(name, std::span<const T>(values));
  }
  std::vector<std::uint8_t> red(static_cast<std::size_t>(points));
  for (auto& r : red) r = static_cast<std::uint8_t>(random());
  cloud.add("r", std::span<const std::uint8_t>(red));
  return cloud;
}

void expect_equal(const Made& made, const Voxels& truth) {
  EXPECT_EQ(made.outcome.misfits, 0);
  EXPECT_EQ(made.outcome.non_finite, truth.non_finite);
  EXPECT_EQ(made.outcome.out_of_range, truth.out_of_range);
  EXPECT_EQ(made.outcome.over_max_points, truth.over_max_points);
  EXPECT_EQ(made.outcome.over_max_voxels, truth.over_max_voxels);
  const auto keys = truth.tensor.coordinates->keys();
  ASSERT_EQ(made.keys, std::vector<Key>(keys.begin(), keys.end()));
  ASSERT_EQ(std::vector<std::int64_t>(made.point_to_voxel.begin(), made.point_to_voxel.end()),
            truth.point_to_voxel);
  if (made.keys.empty()) return;
  const float* features = truth.tensor.features.data<float>();
  for (std::size_t i = 0; i < made.features.size(); ++i)
    ASSERT_EQ(made.features[i], features[i]) << i;
}

TEST_P(VoxelizerOn, EqualsTheCpuBitByBit) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const io::Cloud a = random_cloud<float>(seed, static_cast<int>(random() % 3000)),
                    b = random_cloud<double>(seed + 1000, static_cast<int>(random() % 2000)),
                    empty(0);
    Clouds clouds{&a};
    if (seed % 3 == 1) clouds = {&b, &empty, &a};
    if (seed % 3 == 2) clouds = {&a, &b};
    VoxelizeOptions options{.voxel_size = {0.25, 0.5, 0.125},
                            .features = {"x", "dz", "r", "one", "intensity", "time"},
                            .defaults = {{"time", 1.5}}};
    if (random() % 2 == 0) options.origin = {0.1, -0.2, 0.3};
    if (random() % 3 == 0) options.range = {-3, -2, -0.5, 2.5, 2.25, 0.75};
    if (random() % 3 == 0) options.spatial_shape = SpatialShape{9, 7, 5};
    if (random() % 2 == 0) options.max_points = 1 + static_cast<std::int64_t>(random() % 4);
    if (random() % 2 == 0) options.max_voxels = 1 + static_cast<std::int64_t>(random() % 300);
    options.reduce = static_cast<Reduce>(seed % 4);
    expect_equal(make(clouds, options), voxelize(clouds, options));
    if (HasFatalFailure()) return;
  }
}

// Columns that go through the staging memory, and more points than are sorted by samples.
TEST_P(VoxelizerOn, EqualsTheCpuOverLargeClouds) {
  const io::Cloud a = random_cloud<float>(1, (1 << 20) + 77), b = random_cloud<double>(2, 600000);
  const VoxelizeOptions options{.voxel_size = {0.01, 0.02, 0.01}, .features = {"x", "intensity"}};
  for (const Clouds& clouds : {Clouds{&a}, Clouds{&b, &a}})
    expect_equal(make(clouds, options), voxelize(clouds, options));
}

TEST_P(VoxelizerOn, ReplacedValuesAreCounted) {
  const io::Cloud cloud = random_cloud<float>(3, 1000);
  const VoxelizeOptions options{.features = {"x", "intensity"}};
  const Made made = make({&cloud}, options);
  std::int64_t bad = 0;
  const Voxels truth = voxelize(cloud, options);
  for (std::int64_t i = 0; i < 1000; ++i) {
    bad += truth.point_to_voxel[static_cast<std::size_t>(i)] >= 0 &&
           cloud.get("intensity").at(i) != cloud.get("intensity").at(i);
  }
  EXPECT_GT(bad, 0);
  EXPECT_EQ(made.outcome.replaced, (std::vector<std::int64_t>{0, bad}));
}

TEST_P(VoxelizerOn, CellsThatDoNotFitAreSaid) {
  io::Cloud cloud(2);
  for (const char* name : {"x", "y", "z"})
    cloud.add(name, std::span<const double>(std::vector<double>{1, 1e7}));
  const Made made = make({&cloud}, {.features = {"x"}});
  EXPECT_EQ(made.outcome.misfits, 1);
  EXPECT_EQ(made.outcome.voxels, 1);
}

TEST_P(VoxelizerOn, NoPointsGiveNoVoxels) {
  const io::Cloud empty(0);
  const Made made = make({&empty}, {.max_voxels = 3, .features = {"x", "y"}});
  EXPECT_EQ(made.outcome.voxels, 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, VoxelizerOn, testing::Bool(), [](const auto& param) {
  return param.param ? std::string("device") : std::string("host");
});

}  // namespace
}  // namespace cuda_tests

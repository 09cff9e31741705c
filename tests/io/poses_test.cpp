#include "io/poses.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "io/eigen.hpp"
#include "tests/io/temporary_folder.hpp"

namespace {

io::Pose turn_left(double x, double y, double z) {
  return {.rotation = {{{0, -1, 0}, {1, 0, 0}, {0, 0, 1}}}, .translation = {x, y, z}};
}

TEST(Pose, InverseUndoesIt) {
  const io::Pose pose = turn_left(1, 2, 3), back = io::inverse(pose);
  EXPECT_EQ(pose.apply({10, 0, 0}), (std::array<double, 3>{1, 12, 3}));
  EXPECT_EQ(back.apply({1, 12, 3}), (std::array<double, 3>{10, 0, 0}));
  EXPECT_EQ(io::compose(pose, back).apply({4, 5, 6}), (std::array<double, 3>{4, 5, 6}));
  EXPECT_THROW(io::inverse({.rotation = {{{1, 0, 0}, {1, 0, 0}, {0, 0, 1}}}}), base::Error);
}

TEST(Poses, AreReadAsKittiWritesThem) {
  const test_support::TemporaryFolder folder;
  std::ofstream(folder / "poses.txt") << "1 0 0 0 0 1 0 0 0 0 1 0\n0 -1 0 1e0 1 0 0 2 0 0 1 3\n";
  std::ofstream(folder / "calib.txt") << "P0: 1 2 3\nTr: 0 -1 0 0.5 0 0 -1 0 1 0 0 0\n";
  const auto poses = io::read_poses(folder / "poses.txt");
  ASSERT_EQ(poses.size(), 2u);
  EXPECT_EQ(poses[1].apply({10, 0, 0}), (std::array<double, 3>{1, 12, 3}));
  const auto lidar = io::sensor_poses(poses, io::read_calibration(folder / "calib.txt"));
  EXPECT_EQ(lidar[0].apply({4, 5, 6}), (std::array<double, 3>{4, 5, 6}));
  std::ofstream(folder / "short.txt") << "1 0 0 0 0 1 0 0 0 0 1 0\n1 2 3\n";
  try {
    io::read_poses(folder / "short.txt");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_STREQ(error.what(), "line 2: 3 numbers, a pose has 12");
  }
}

// Two sweeps that see the same places from poses a kilometre from the origin: doubles keep the
// millimetre.
TEST(Accumulate, PutsSweepsIntoTheFrameOfTheReference) {
  io::Cloud a, b, none;
  for (io::Cloud* cloud : {&a, &b}) {
    const bool second = cloud == &b;
    cloud->add<float>("x", std::vector<float>{second ? 2.0f : 1.0f, 0.001f});
    cloud->add<float>("y", std::vector<float>{second ? -1.0f : 2.0f, 0});
    cloud->add<float>("z", std::vector<float>{3, 0});
    cloud->add<float>("intensity", std::vector<float>{0.5f, second ? 0.75f : 0.25f});
  }
  a.add<float>("only_a", std::vector<float>{1, 2});
  for (const char* name : {"x", "y", "z", "intensity"}) none.add<float>(name, std::vector<float>{});
  const std::vector<const io::Cloud*> sweeps{&a, &b, &none};
  const std::vector<io::Pose> poses{
      {.translation = {431234.567, 5412345.678, 0}}, turn_left(431234.567, 5412345.678, 0), {}};
  const io::Cloud joined = io::accumulate(sweeps, poses, 0);
  ASSERT_EQ(joined.size(), 4);
  EXPECT_EQ(joined.find("only_a"), nullptr);
  const Eigen::Matrix3Xd points = io::positions(joined);
  EXPECT_LT((points.col(0) - points.col(2)).norm(), 1e-9);
  EXPECT_NEAR(points(1, 3), 0.001, 1e-9);
  EXPECT_EQ(io::as_eigen<std::int32_t>(joined, "sweep"), (Eigen::Vector4i(0, 0, 1, 1)));
  EXPECT_EQ(joined.get("intensity").at(3), 0.75);
  EXPECT_EQ(joined.clouds, 3);
}

TEST(Eigen, ViewsShareTheColumnsMemory) {
  const Eigen::Matrix3Xf points = Eigen::Matrix3Xf::Random(3, 50);
  const io::Cloud cloud = io::cloud_from(points);
  const auto z = io::as_eigen<float>(cloud, "z");
  EXPECT_EQ(z.data(), cloud.get("z").values.data<float>());
  EXPECT_EQ(z.transpose(), points.row(2));
  EXPECT_EQ(io::positions(cloud), points.cast<double>());
  EXPECT_THROW(io::as_eigen<double>(cloud, "z"), base::Error);
  EXPECT_THROW(io::cloud_from(Eigen::Matrix2Xf(2, 3)), base::Error);
}

TEST(Eigen, AColumnIsComputedInTheMemoryThatTheCloudTakes) {
  io::Cloud cloud = io::cloud_from(Eigen::Matrix3Xf(Eigen::Matrix3Xf::Random(3, 50)));
  const auto z = io::as_eigen<float>(cloud, "z");
  base::Tensor height = base::Tensor::empty({50}, base::DType::f32);
  const float* const memory = height.data<float>();
  io::as_eigen<float>(height) = z.array() - z.minCoeff();
  cloud.add(io::Field{"height"}, std::move(height));
  EXPECT_EQ(cloud.get("height").values.data<float>(), memory);
  EXPECT_EQ(io::as_eigen<float>(cloud, "height").minCoeff(), 0);
  base::Tensor matrix = base::Tensor::empty({5, 2}, base::DType::f32);
  EXPECT_THROW(io::as_eigen<float>(matrix), base::Error);
}

}  // namespace

#include "io/pcl.hpp"

#include <gtest/gtest.h>
#include <pcl/point_types.h>

#include <cmath>

namespace {

TEST(Pcl, PointsGoThereAndBack) {
  io::Cloud cloud;
  cloud.add<float>("x", std::vector<float>{1, 2, NAN});
  cloud.add<float>("y", std::vector<float>{4, 5, 6});
  cloud.add<float>("z", std::vector<float>{7, 8, 9});
  cloud.add<float>("nx", std::vector<float>{0, 0, 1});
  cloud.add<float>("ny", std::vector<float>{0, 1, 0});
  cloud.add<float>("nz", std::vector<float>{1, 0, 0});
  for (const char* name : {"r", "g", "b"})
    cloud.add<std::uint8_t>(name, std::vector<std::uint8_t>{1, 128, 255});
  const auto points = io::to_pcl<pcl::PointXYZRGBNormal>(cloud);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_FALSE(points.is_dense);
  EXPECT_EQ(points[1].g, 128);
  EXPECT_EQ(points[1].normal_y, 1);
  const io::Cloud back = io::from_pcl(points);
  for (const char* name : {"x", "y", "z", "nx", "ny", "nz", "r", "g", "b"}) {
    for (int i = 0; i < 3; ++i) {
      const double before = cloud.get(name).at(i), after = back.get(name).at(i);
      EXPECT_TRUE(before == after || (std::isnan(before) && std::isnan(after))) << name << " " << i;
    }
  }
}

TEST(Pcl, ConvertsTypesAndKeepsTheGrid) {
  pcl::PointCloud<pcl::PointXYZI> points(3, 2);
  for (std::size_t i = 0; i < points.size(); ++i) points[i].intensity = static_cast<float>(i);
  const io::Cloud cloud = io::from_pcl(points);
  EXPECT_EQ(cloud.width, 3);
  EXPECT_EQ(cloud.height, 2);
  EXPECT_EQ(cloud.get("intensity").at(5), 5);
  io::Cloud doubles;
  for (const char* name : {"x", "y", "z"}) doubles.add<double>(name, std::vector<double>{0.5, 1.5});
  EXPECT_EQ(io::to_pcl<pcl::PointXYZ>(doubles)[1].x, 1.5f);
  EXPECT_EQ(io::to_pcl<pcl::PointXYZ>(io::Cloud()).size(), 0u);
}

}  // namespace

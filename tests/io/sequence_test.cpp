#include "io/sequence.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/io/temporary_folder.hpp"

namespace {

void write_scan(const std::filesystem::path& path,
                const std::vector<std::array<float, 4>>& points) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(points.data()),
             static_cast<std::streamsize>(points.size() * 16));
}

std::string message_of(const std::filesystem::path& scan, const std::filesystem::path& poses = {}) {
  try {
    static_cast<void>(io::find_sequence(scan, poses));
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

// A place 100 m ahead of the first scan, far from the fixed frame's origin, seen from four
// positions along a line.
class Drive : public testing::Test {
 protected:
  Drive() {
    std::ofstream poses(folder_ / "poses.txt");
    for (int i = 0; i < 4; ++i) {
      poses << "1 0 0 " << 4500000 + 2 * i << ".125 0 1 0 600000.25 0 0 1 0\n";
      const auto seen = 100.0f - 2.0f * static_cast<float>(i);
      write_scan(scan(i), {{seen, 1, 2, static_cast<float>(i)}, {-1, 0, 0, 9}});
    }
  }
  std::filesystem::path scan(int i) const {
    return folder_ / "velodyne" / ("00000" + std::to_string(i) + ".bin");
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(Drive, PutsEarlierScansIntoTheFrameOfTheLastOne) {
  const io::Sequence sequence = io::find_sequence(scan(3));
  ASSERT_EQ(sequence.scans.size(), 4u);
  const std::size_t last = sequence.index_of(scan(3));
  ASSERT_EQ(last, 3u);
  const io::Cloud joined = io::read_sweeps(sequence, last, 3);
  ASSERT_EQ(joined.size(), 6);
  EXPECT_EQ(joined.get("x").field.type, base::DType::f64);
  for (std::int64_t sweep = 0; sweep < 3; ++sweep) {
    EXPECT_EQ(joined.get("sweep").at(2 * sweep), static_cast<double>(sweep))
        << "its own points come first";
    EXPECT_EQ(joined.get("intensity").at(2 * sweep), static_cast<double>(3 - sweep));
    // The place stands where the last scan sees it; 4500000.125 has no such digits as a float.
    EXPECT_EQ(joined.position(2 * sweep), (std::array<double, 3>{94, 1, 2}));
  }
  EXPECT_EQ(io::read_sweeps(sequence, 1, 10).size(), 4) << "fewer at the start";
  EXPECT_EQ(io::read_sweeps(sequence, 0, 1).size(), 2);
}

TEST_F(Drive, TakesCameraPosesToTheLidarWhereACalibrationStandsBesideThem) {
  // The camera looks along the lidar's x: its z is x, its x is -y, its y is -z.
  std::ofstream(folder_ / "calib.txt")
      << "P0: 1 0 0 0 0 1 0 0 0 0 1 0\nTr: 0 -1 0 0 0 0 -1 0 1 0 0 0\n";
  std::ofstream poses(folder_ / "poses.txt");
  for (int i = 0; i < 4; ++i)
    poses << "1 0 0 0 0 1 0 0 0 0 1 " << 2 * i << '\n';  // 2 m along the camera's z
  poses.close();
  const io::Sequence sequence = io::find_sequence(scan(3));
  const io::Cloud joined = io::read_sweeps(sequence, 3, 4);
  for (std::int64_t sweep = 0; sweep < 4; ++sweep) {
    EXPECT_EQ(joined.position(2 * sweep), (std::array<double, 3>{94, 1, 2})) << sweep;
  }
}

TEST_F(Drive, ScansNamedByNumbersHaveThePoseOfThatLine) {
  std::filesystem::remove(scan(0));
  std::filesystem::remove(scan(1));
  const io::Sequence sequence = io::find_sequence(scan(2));
  ASSERT_EQ(sequence.scans.size(), 2u);
  EXPECT_EQ(sequence.poses[0].translation[0], 4500004.125);
  std::filesystem::rename(scan(2), folder_ / "velodyne" / "a.bin");  // names: by their order
  EXPECT_EQ(io::find_sequence(scan(3)).poses[0].translation[0], 4500000.125);
}

TEST_F(Drive, SaysWhatIsMissing) {
  write_scan(folder_ / "velodyne" / "000009.bin", {});
  EXPECT_EQ(message_of(scan(0)),
            "'poses.txt' holds 4 poses, '000009.bin' is scan 9 counted from 0");
  std::ofstream(folder_ / "short.txt") << "1 2 3\n";
  EXPECT_EQ(message_of(scan(0), folder_ / "short.txt"),
            "'short.txt': line 1: 3 numbers, a pose has 12");
  std::filesystem::remove(folder_ / "poses.txt");
  EXPECT_EQ(message_of(scan(0)),
            "no poses: poses.txt is neither beside the scans nor one folder up");
}

}  // namespace

// io::read against PCL's own loaders on the same files, in turn, in one run. Built where PCL's io
// library is found.
//   pcl_read_bench [--points N] [--rounds N] [--clock wall|cpu]
#include <pcl/io/pcd_io.h>
#include <pcl/io/ply_io.h>
#include <pcl/point_types.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "benchmarks/support/timing.hpp"
#include "io/io.h"

namespace {

namespace fs = std::filesystem;

io::Cloud cloud_of(std::int64_t points) {
  io::Cloud cloud;
  std::uint32_t state = 1;
  for (const char* name : {"x", "y", "z", "intensity"}) {
    std::vector<float> values(static_cast<std::size_t>(points));
    for (float& value : values) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 12) * 1e-4f;
    }
    cloud.add<float>(name, values);
  }
  return cloud;
}

struct Row {
  const char* name;
  const char* file;
  io::WriteOptions options;
};

}  // namespace

int main(int argc, char** argv) {
  std::int64_t points = 2'000'000;
  int rounds = 5;
  auto clock = benchmarks::TimedBy::wall;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--points") points = std::stoll(value);
    if (name == "--rounds") rounds = std::stoi(value);
    if (name == "--clock" && value == "cpu") clock = benchmarks::TimedBy::process_cpu;
  }
  const io::Cloud cloud = cloud_of(points);
  for (const Row& row :
       {Row{"pcd binary", "peer.pcd", {}},
        Row{"pcd compressed", "peer-lzf.pcd", {.compressed = true}},
        Row{"pcd ascii", "peer-ascii.pcd", {.ascii = true}}, Row{"ply binary", "peer.ply", {}}}) {
    const fs::path path = fs::temp_directory_path() / row.file;
    io::write(path, cloud, row.options);
    const bool is_ply = path.extension() == ".ply";
    const auto with_pcl = [&] {
      pcl::PointCloud<pcl::PointXYZI> loaded;
      const int status = is_ply ? pcl::io::loadPLYFile(path.string(), loaded)
                                : pcl::io::loadPCDFile(path.string(), loaded);
      if (status < 0 || static_cast<std::int64_t>(loaded.size()) != points)
        std::printf("PCL failed\n");
    };
    const auto seconds = benchmarks::best_seconds(
        {with_pcl, [&] { static_cast<void>(io::read(path)); }}, rounds, clock);
    std::printf("%-15s PCL %7.1f ms, io::read %7.1f ms: %.2f x as fast\n", row.name,
                1e3 * seconds[0], 1e3 * seconds[1], seconds[0] / seconds[1]);
    fs::remove(path);
  }
  return 0;
}

// Reads a point cloud in any format and prints what it holds.
//   01_read_and_print scan.pcd        without a file: a simulated scan
#include <io/io.h>
#include <io/simulator.hpp>

#include <iostream>

int main(int argc, char** argv) {
  const io::Cloud cloud =
      argc > 1 ? io::read(argv[1]) : io::Simulator({.sensor = "vlp16"}).frame(0);
  std::cout << cloud.size() << " points, " << cloud.finite_points() << " of them with a place\n";
  for (const auto& column : cloud.columns()) {
    std::cout << "  " << column->field.name << " " << base::name(column->field.type) << "\n";
  }
  if (const auto bounds = cloud.bounds()) {
    std::cout << "from " << bounds->min[0] << " " << bounds->min[1] << " " << bounds->min[2] << "\n"
              << "to   " << bounds->max[0] << " " << bounds->max[1] << " " << bounds->max[2]
              << "\n";
  }
  for (const std::string& warning : cloud.warnings) std::cout << "warning: " << warning << "\n";
}

// Turns points into voxels: one row a cell that has points, features averaged, rows in canonical
// order.
#include <sparseconv/sparseconv.h>
#include <io/simulator.hpp>
#include <iostream>

int main() {
  const io::Cloud cloud = io::Simulator({.sensor = "vlp16"}).frame(0);
  const sparseconv::Voxels voxels =
      sparseconv::voxelize(cloud, {.voxel_size = {0.2, 0.2, 0.2},
                                   .range = std::array<double, 6>{-40, -40, -3, 40, 40, 3},
                                   .features = {"x", "y", "z", "intensity"}});
  std::cout << voxels.points << " points, " << voxels.tensor.rows() << " voxels, " << voxels.dropped
            << " points outside the range\n";

  // Every point knows its voxel (-1: none).
  const std::int64_t row = voxels.point_to_voxel[0];
  if (row >= 0) {
    const sparseconv::Coord cell =
        voxels.tensor.coordinates->coords()[static_cast<std::size_t>(row)];
    std::cout << "point 0 is in cell " << cell.x << " " << cell.y << " " << cell.z << "\n";
  }
  sparseconv::VoxelFile file;
  file.tensor = voxels.tensor;
  file.voxel_size = voxels.voxel_size;
  file.origin = voxels.origin;
  file.feature_names = voxels.feature_names;
  file.point_to_voxel = voxels.point_to_voxel;
  sparseconv::write_voxel_file("02_voxels.h5", file);
  return sparseconv::read_voxel_file("02_voxels.h5").tensor.rows() == voxels.tensor.rows() ? 0 : 1;
}

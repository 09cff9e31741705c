// Voxels as clouds: a voxel file has no points of its own, the centres of its cells stand for them.
#pragma once
#include <span>

#include "io/cloud.hpp"
#include "sparseconv/voxel_file.hpp"

namespace apps {

// x y z (double) of each cell: origin + (cell + 0.5) * voxel_size; a size of 0 (not told) counts
// as 1.
io::Cloud cell_centres(std::span<const sparseconv::Coord> cells,
                       const std::array<double, 3>& voxel_size,
                       const std::array<double, 3>& origin);
io::Cloud cell_centres(const sparseconv::VoxelFile& voxels);

// The centres with what the cells have: labels, and features under their names (x y z stay the
// centre's).
io::Cloud cloud_of_cells(const sparseconv::VoxelFile& voxels);

}  // namespace apps

// Voxel files (HDF5): what `voxelize` writes and `run`, `info`, `bench` and `train` read. Rows keep
// the file's order.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sparseconv/sparse_tensor.hpp"

namespace sparseconv {

struct VoxelFile {
  SparseTensor tensor;  // features as stored: f32 or f16
  std::array<double, 3> voxel_size{0, 0, 0}, origin{0, 0, 0};
  std::vector<std::string> feature_names;     // may be empty
  base::Buffer<std::int64_t> point_to_voxel;  // may be empty
  std::vector<std::int32_t> labels;           // may be empty
};

// An HDF5 file with the attribute sparseconv_voxels. Error where HDF5's library breaks on it.
bool is_voxel_file(const std::filesystem::path& path);
// Error names the dataset, the row and the limit: shapes that disagree, duplicates, rows outside
// the spatial shape.
VoxelFile read_voxel_file(const std::filesystem::path& path);
void write_voxel_file(const std::filesystem::path& path, const VoxelFile& voxels);

}  // namespace sparseconv

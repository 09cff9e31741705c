#include "apps/voxel_cloud.hpp"

#include <string>
#include <vector>

namespace apps {

io::Cloud cell_centres(std::span<const sparseconv::Coord> cells,
                       const std::array<double, 3>& voxel_size,
                       const std::array<double, 3>& origin) {
  io::Cloud cloud(static_cast<std::int64_t>(cells.size()));
  for (int axis = 0; axis < 3; ++axis) {
    const double size = voxel_size[static_cast<std::size_t>(axis)];
    const double from = origin[static_cast<std::size_t>(axis)];
    std::vector<double> centres;
    centres.reserve(cells.size());
    for (const sparseconv::Coord& cell : cells)
      centres.push_back(from + (cell[axis] + 0.5) * (size > 0 ? size : 1.0));
    cloud.add(std::string(1, "xyz"[axis]), std::span<const double>(centres));
  }
  return cloud;
}

io::Cloud cell_centres(const sparseconv::VoxelFile& voxels) {
  return cell_centres(voxels.tensor.coordinates->coords(), voxels.voxel_size, voxels.origin);
}

io::Cloud cloud_of_cells(const sparseconv::VoxelFile& voxels) {
  io::Cloud cloud = cell_centres(voxels);
  const base::Tensor features = voxels.tensor.features.to(base::DType::f32);
  const std::int64_t rows = cloud.size(), channels = features.size(1);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto index = static_cast<std::size_t>(c);
    const std::string name = index < voxels.feature_names.size() ? voxels.feature_names[index]
                                                                 : "feature_" + std::to_string(c);
    if (cloud.find(name) != nullptr) continue;
    std::vector<float> column;
    column.reserve(static_cast<std::size_t>(rows));
    for (std::int64_t row = 0; row < rows; ++row)
      column.push_back(features.data<float>()[row * channels + c]);
    cloud.add(name, std::span<const float>(column));
  }
  if (!voxels.labels.empty()) cloud = cloud.with("label", voxels.labels);
  return cloud;
}

}  // namespace apps

// Labels of voxels from labels of points.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "io/cloud.hpp"

namespace apps {

// The most frequent label of each voxel's points, ties to the lowest. Points that became no voxel
// (-1) do not count.
std::vector<std::int32_t> majority_labels(const io::Column& labels,
                                          std::span<const std::int64_t> point_to_voxel,
                                          std::int64_t voxels);

}  // namespace apps

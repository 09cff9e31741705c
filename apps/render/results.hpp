// What `voxelize` and `run` leave, as clouds to draw.
#pragma once
#include <filesystem>
#include <optional>

#include "io/cloud.hpp"

namespace render {

// A voxel file, or features that `run` saved: the centres of the cells of the first output, its
// first channel as intensity; of a dense output the columns that hold something, at height 0.
// Nothing for other files. Error: labels, scores and features of points, which are drawn with their
// scan (--labels).
std::optional<io::Cloud> cloud_of_result(const std::filesystem::path& path);

}  // namespace render

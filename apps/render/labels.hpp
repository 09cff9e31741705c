// Labels that are kept apart from their cloud: .label files and what `run` writes.
#pragma once
#include <filesystem>

#include "io/cloud.hpp"

namespace render {

// The cloud with a column `label`: from SemanticKITTI's .label, dataset /labels or /scores of an
// HDF5 file, or a plain .npy array [points] or [points, classes]. Of scores the largest counts.
// Error when there is not one a point.
io::Cloud with_labels(const io::Cloud& cloud, const std::filesystem::path& path);

}  // namespace render

// Files with labels: what `train` learns from and `eval` scores on.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "apps/batch/inputs.hpp"
#include "io/cloud.hpp"
#include "sparseconv/voxel_file.hpp"

namespace apps {

struct LabelledFile {
  std::filesystem::path path;    // of the scan or voxel file
  std::filesystem::path labels;  // "": the file holds them itself
};

struct LabelledFiles {
  std::vector<LabelledFile> files;     // sorted by path
  std::vector<InputFailure> failures;  // folders without a labelled file
  std::int64_t unlabelled = 0;         // scans beside which there are no labels
};

// Scans with their labels below `folder`: X/velodyne/a.bin with X/labels/a.label, a.bin with
// a.label beside it, voxel files, and any other scan format (which must hold a field `label`, else
// it counts as unlabelled when it is read: an error there). `folder` may also be one file.
LabelledFiles find_labelled(const std::filesystem::path& folder);

// What a labelled file holds: a cloud with a column `label` (and `instance` where the file has it),
// or voxels with labels.
struct LabelledInput {
  std::optional<io::Cloud> cloud;
  std::optional<sparseconv::VoxelFile> voxels;
};
// Error: unequal numbers of points and labels, no labels.
LabelledInput read_labelled(const LabelledFile& file);

}  // namespace apps

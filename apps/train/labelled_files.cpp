#include "apps/train/labelled_files.hpp"

#include <algorithm>

#include "apps/read_options.hpp"
#include "io/io.h"

namespace apps {
namespace fs = std::filesystem;

namespace {

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// "a" for a.bin and a.pcd.bin.
fs::path stem_of(const fs::path& scan) {
  fs::path stem = scan.stem();
  if (stem.extension() == ".pcd") stem = stem.stem();
  return stem;
}

// Where the labels of a scan lie; "" where there are none. A folder `labels` beside one of another
// name than `velodyne` may hold what a network said.
fs::path labels_of(const fs::path& scan) {
  const fs::path folder = scan.parent_path(), name = stem_of(scan).string() + ".label";
  if (is_file(folder / name)) return folder / name;
  const fs::path beside = folder / ".." / "labels" / name;
  const bool is_velodyne =
      fs::absolute(scan).lexically_normal().parent_path().filename() == "velodyne";
  return is_velodyne && is_file(beside) ? beside.lexically_normal() : fs::path();
}

bool holds_bare_points(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".bin" || extension == ".BIN";
}

}  // namespace

LabelledFiles find_labelled(const fs::path& folder) {
  LabelledFiles found;
  Inputs inputs = find_inputs({folder.string()});
  found.failures = std::move(inputs.failures);
  for (const InputFile& input : inputs.files) {
    const fs::path labels = labels_of(input.path);
    if (labels.empty() && holds_bare_points(input.path))
      ++found.unlabelled;
    else
      found.files.push_back({input.path, labels});
  }
  if (found.files.empty() && found.failures.empty()) {
    found.failures.push_back(
        {folder.string(), base::concat("no labelled scans: ", found.unlabelled,
                                       " scans without labels (expected velodyne/a.bin with "
                                       "labels/a.label, or a.bin and a.label side by side)")});
  }
  return found;
}

LabelledInput read_labelled(const LabelledFile& file) {
  check_is_file(file.path);
  if (file.labels.empty() && sparseconv::is_voxel_file(file.path)) {
    auto voxels = sparseconv::read_voxel_file(file.path);
    ENSURE(!voxels.labels.empty() || voxels.tensor.rows() == 0,
           "the voxel file has no /labels (voxelize --labels writes them)");
    return {.voxels = std::move(voxels)};
  }
  io::Cloud cloud = file.labels.empty() ? io::read(file.path) : io::read(file.labels);
  ENSURE(cloud.find("label") != nullptr || cloud.size() == 0,
         "no labels: neither a file beside the scan nor a field 'label' in it");
  return {.cloud = std::move(cloud)};
}

}  // namespace apps

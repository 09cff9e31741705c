// Results of a network as files: what DESIGN calls labels, scores and features, in each format that
// can hold them.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "io/cloud.hpp"
#include "sparseconv/engine.hpp"
#include "sparseconv/voxel_file.hpp"

namespace apps {

struct ResultKind {
  std::string save = "labels";  // labels, scores, features
  std::string format = "h5";    // h5, npy, ply, pcd, label
};

// UsageError for a pair that no file can hold: `label` goes with labels, ply and pcd with labels
// and scores, features with h5.
void check_result_kind(const ResultKind& kind);

// What a result was computed from: a cloud or a voxel file.
struct RunInput {
  std::optional<io::Cloud> cloud;
  std::optional<io::Cloud> joined;  // the cloud with the sweeps before it, its own points first
  std::optional<sparseconv::VoxelFile> voxels;

  const io::Cloud& computed() const { return joined ? *joined : *cloud; }
};

// Labels of dropped points: -1 in h5 and npy, 0 in label, ply and pcd. Appears whole or not at all.
void write_result(const std::filesystem::path& path, const ResultKind& kind, const RunInput& input,
                  const sparseconv::Result& result);

}  // namespace apps

// Scans whose points have a class, and the batches that a trainer takes, made from them.
//   const LabelledCloud scan{cloud, labels};                     // class index a point, or kIgnore
//   trainer.step(make_batch(std::array{scan}, model.input));
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "io/cloud.hpp"
#include "sparseconv/model.hpp"
#include "sparseconv/training/batch.hpp"

namespace sparseconv::training {

struct LabelledCloud {
  io::Cloud cloud;
  std::vector<std::int32_t> labels;     // [points]: class index, or kIgnore
  std::vector<std::int32_t> instances;  // [points] or empty; an object's number, 0: none
};

// One scan, voxelised as an engine would for this model. A voxel's label is the most frequent of
// its points', kIgnore among them, ties to the lowest. Error: unequal numbers of points and labels,
// and those of voxelize.
Batch make_batch(const LabelledCloud& scan, const ModelInput& input);
// Several scans, unequal in size; batch id = position.
Batch make_batch(std::span<const LabelledCloud> scans, const ModelInput& input);
// Batches joined to one; entries are numbered in order. Error: unequal channels or spatial shapes.
Batch joined(std::span<const Batch> batches);

// The most frequent label of each voxel's points, kIgnore among them, ties to the lowest; points
// without a voxel (-1) do not count, a voxel without points gets kIgnore.
std::vector<std::int32_t> majority_labels(std::span<const std::int32_t> labels,
                                          std::span<const std::int64_t> point_to_voxel,
                                          std::int64_t voxels);

}  // namespace sparseconv::training

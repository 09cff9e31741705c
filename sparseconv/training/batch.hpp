// What a training step reads: voxels of several scans and the class of each.
#pragma once
#include <cstdint>
#include <vector>

#include "sparseconv/sparse_tensor.hpp"

namespace sparseconv::training {

inline constexpr std::int32_t kIgnore = -1;

struct Batch {
  SparseTensor voxels;  // coordinates of all scans, told apart by batch id; features f32 [N, C]
  std::vector<std::int32_t> labels;  // [N]: index into Model::classes, or kIgnore
};

}  // namespace sparseconv::training

// Checkpoints: model files that also hold what training needs to go on (docs/gradients.md has the
// layout).
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sparseconv/model.hpp"

namespace sparseconv::training {

struct Checkpoint {
  Model model;            // raw weights
  std::string optimiser;  // "sgd", "adamw"
  std::int64_t steps = 0;
  std::int64_t updates = 0;                   // of the optimiser; fewer where batches had no label
  std::vector<float> first, second, average;  // as Parameters::values; may be empty
  std::string note;                           // the caller's
};

// Written to a temporary name and renamed: whole or not at all.
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
// Error naming what is missing when the file is a model without a training state.
Checkpoint read_checkpoint(const std::filesystem::path& path);

}  // namespace sparseconv::training

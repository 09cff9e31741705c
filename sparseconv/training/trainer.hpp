// Trains a model whose labels are one class a voxel.
//
//   training::Trainer trainer(build_architecture("minkunet14", options), {.clip_norm = 10});
//   for (...) trainer.step(batch);          // forward, backward, update
//   save_model("trained.h5", trainer.model());
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sparseconv/model.hpp"
#include "sparseconv/training/batch.hpp"
#include "sparseconv/training/options.hpp"

namespace sparseconv::training {

struct StepReport {
  std::int64_t step = 0;  // of this step, from 0
  double loss = 0, gradient_norm = 0 /* before clipping */, learning_rate = 0;
  std::int64_t labelled = 0, correct = 0;  // rows with a label; of them, classified rightly
  std::vector<std::int32_t> predictions;   // class index a voxel, of the forward pass
  double maps_ms = 0, forward_ms = 0, backward_ms = 0, update_ms = 0;
};

class Trainer {
 public:
  // Error: no classes, no output on the input's voxels with a channel a class, options without
  // meaning.
  Trainer(Model model, const TrainOptions& options);
  ~Trainer();
  Trainer(Trainer&&) noexcept;

  // One update. Same model, options and batches give the same bits, whatever the thread count.
  // Error, with the weights left as they were before: rows and labels of unequal number, a label
  // outside the classes, a loss or gradient that is not finite (named: node and step). A batch
  // without a labelled row gives loss 0 and changes nothing but the running statistics.
  StepReport step(const Batch& batch);
  std::int64_t steps_done() const;

  // Class index a voxel, with running statistics, as an Engine would give.
  std::vector<std::int32_t> predict(const Batch& batch) const;

  // The weights with their running statistics; the moving average where options ask for one.
  Model model() const;

  // A checkpoint is a model file (of the raw weights) that also holds the optimiser's state and a
  // text of the caller's. It appears whole or not at all; what stood at `path` stays until then.
  void save_checkpoint(const std::filesystem::path& path, const std::string& note = {}) const;
  // Goes on from a checkpoint to the same bits; returns the note. Error naming what differs when it
  // was written for another graph or another optimiser.
  std::string resume(const std::filesystem::path& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparseconv::training

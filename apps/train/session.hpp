// One training from its first step (or a checkpoint) to its last.
#pragma once
#include <memory>
#include <optional>

#include "apps/train/sample_source.hpp"
#include "apps/train/score_table.hpp"
#include "apps/train/settings.hpp"
#include "apps/train/train_log.hpp"
#include "sparseconv/training/trainer.hpp"

namespace apps {

class TrainSession {
 public:
  // Reads or builds the model and finds the data. Error naming the file that is to blame.
  explicit TrainSession(const TrainSettings& settings);

  // Exit status. What is on disk when it ends, however it ends, is whole: the model of the last
  // finished epoch, its log, and a checkpoint to resume from.
  int run();

 private:
  struct Epoch;  // counts of the one that runs
  void resume();
  void save_checkpoint();
  void finish_epoch(const Epoch& epoch);
  void report_progress(const Epoch& epoch, double loss) const;
  sparseconv::training::Batch load_batch(std::int64_t step) const;
  sparseconv::training::Confusion validate() const;
  std::int64_t steps_of_epoch() const;
  std::int64_t usual_rows() const;
  std::filesystem::path checkpoint_path() const;
  ScoredClasses classes() const { return {map_.ids(), map_.names()}; }

  TrainSettings settings_;
  ClassMap map_;
  sparseconv::training::InstanceBank bank_;
  std::unique_ptr<SampleSource> training_, validation_;
  std::unique_ptr<sparseconv::training::Trainer> trainer_;
  std::unique_ptr<TrainLog> log_;
  std::int64_t steps_done_ = 0;
  sparseconv::training::Confusion last_scores_;
};

}  // namespace apps

// What `train` was asked for.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/command.hpp"
#include "apps/train/class_map.hpp"
#include "sparseconv/training/augment.hpp"
#include "sparseconv/training/options.hpp"

namespace apps {

struct TrainSettings {
  // The network: a model file, or an architecture to begin from seeded weights.
  std::filesystem::path model;
  std::string architecture;
  double width = 1, voxel_size = 0.1;
  std::vector<std::string> features;

  // The data: a folder or "simulator".
  std::string data, validation;  // validation: a folder, or "": a share of the data
  std::string classes;           // class map; "": the simulator's, or the model's ids
  double validation_share = 0.1;
  std::int64_t scans = 500, validation_scans = 24;  // of the simulator: an epoch, and to validate
  std::int64_t uses = 1;                            // epochs in a row that a street is used in
  sparseconv::training::AugmentOptions augment;
  bool is_augmented = true;

  std::int64_t epochs = 0, batch = 2;
  std::uint64_t seed = 0;
  sparseconv::training::TrainOptions training;
  std::string class_weights = "sqrt";  // none, sqrt, inverse
  double checkpoint_minutes = 5;
  std::int64_t stop_after = 0;  // steps of this call, as if interrupted then; 0: none

  std::filesystem::path output;
  bool is_resumed = false, as_json = false, stores_fp16 = false;
  int jobs = 2;

  bool is_simulated() const { return data == "simulator"; }
  // Of everything that decides what the weights become; a checkpoint of another text is not
  // resumed.
  std::string signature;
};

void add_train_options(Command& command);
TrainSettings train_settings(const Arguments& arguments);  // UsageError

}  // namespace apps

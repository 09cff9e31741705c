// The log of a training: a line of JSON an epoch in OUT.log.jsonl, and its curves in
// OUT.curves.png.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/results.hpp"

namespace apps {

class TrainLog {
 public:
  // Beside `output`: model.h5 gives model.log.jsonl and model.curves.png. Keeps the lines of
  // epochs 1 .. `epochs_done` that an earlier run wrote, and drops later ones.
  TrainLog(const std::filesystem::path& output, std::int64_t epochs_done);

  // `entry` has "epoch", "loss", "miou", "accuracy", "seconds", and "train_miou", ... as the caller
  // likes. Writes both files, each whole or not at all.
  void add(const Json& entry);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<Json>& entries() const { return entries_; }

 private:
  void draw() const;
  std::filesystem::path path_, picture_;
  std::vector<Json> entries_;
};

}  // namespace apps

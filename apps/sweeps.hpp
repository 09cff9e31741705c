// Several sweeps as one cloud: --sweeps N joins every cloud with the N - 1 before it in its folder,
// moved by their poses.
#pragma once
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "apps/command.hpp"
#include "io/io.h"
#include "io/sequence.hpp"

namespace apps {

struct SweepOptions {
  std::size_t sweeps = 1;
  std::filesystem::path poses;  // "": poses.txt beside the scans or one folder up
};

void add_sweep_options(Command& command);  // --sweeps --poses
SweepOptions sweep_options(const Arguments& arguments);
std::string signature_of(const SweepOptions& options);  // "" where every cloud stands for itself

// Reads clouds with the sweeps before them. Several threads may call it; clouds read last are kept,
// so that a sequence read in order reads each file once.
class SweepReader {
 public:
  SweepReader(io::ReadOptions read, SweepOptions options)
      : read_(std::move(read)), options_(std::move(options)) {}

  bool joins() const { return options_.sweeps > 1; }
  struct Sweeps {
    std::shared_ptr<const io::Cloud> own;  // the file itself
    io::Cloud joined;  // its points first; shares the columns of `own` for a single sweep
  };
  Sweeps read(const std::filesystem::path& path);

 private:
  std::shared_ptr<const io::Cloud> cloud(const std::filesystem::path& path);
  std::shared_ptr<const io::Sequence> sequence(const std::filesystem::path& scan);

  io::ReadOptions read_;
  SweepOptions options_;
  std::mutex mutex_;
  std::map<std::filesystem::path, std::shared_ptr<const io::Sequence>>
      sequences_;  // by folder and extension
  std::deque<std::pair<std::filesystem::path, std::shared_ptr<const io::Cloud>>> recent_;
};

}  // namespace apps

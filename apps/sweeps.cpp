#include "apps/sweeps.hpp"

#include <algorithm>

#include "apps/batch/result_log.hpp"
#include "apps/read_options.hpp"
#include "apps/values.hpp"

namespace apps {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kKeptBeyondSweeps = 4;  // files in flight on other threads

}  // namespace

void add_sweep_options(Command& command) {
  auto add = command.options.add_options();
  add("sweeps", value<std::string>(),
      "join every cloud with the N - 1 before it in its folder, in its own frame; the field sweep "
      "counts back (1)");
  add("poses", value<std::string>(),
      "poses of the clouds, 12 numbers a line (poses.txt beside them or one folder up; calib.txt "
      "beside it is used)");
}

SweepOptions sweep_options(const Arguments& arguments) {
  SweepOptions options{
      .sweeps = static_cast<std::size_t>(integer_option(arguments, "sweeps", 1, 1, 1000)),
      .poses = arguments.text("poses")};
  ENSURE_USAGE(options.poses.empty() || options.sweeps > 1, "--poses goes with --sweeps");
  if (options.sweeps > 1 && !options.poses.empty()) {
    try {
      check_is_file(options.poses);
    } catch (const base::Error& error) {
      throw FileError(options.poses.string(), error.what());
    }
  }
  return options;
}

std::string signature_of(const SweepOptions& options) {
  if (options.sweeps <= 1) return "";
  return " sweeps " + std::to_string(options.sweeps) + ' ' +
         (options.poses.empty() ? "" : file_digest(options.poses));
}

std::shared_ptr<const io::Cloud> SweepReader::cloud(const fs::path& path) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [kept, cloud] : recent_) {
      if (kept == path) return cloud;
    }
  }
  auto read = std::make_shared<const io::Cloud>(read_cloud(path, read_));
  const std::lock_guard lock(mutex_);
  recent_.emplace_back(path, read);
  while (recent_.size() > options_.sweeps + kKeptBeyondSweeps) recent_.pop_front();
  return read;
}

std::shared_ptr<const io::Sequence> SweepReader::sequence(const fs::path& scan) {
  const std::lock_guard lock(mutex_);
  auto& kept = sequences_[scan.parent_path() / scan.extension()];
  if (!kept) kept = std::make_shared<const io::Sequence>(io::find_sequence(scan, options_.poses));
  return kept;
}

SweepReader::Sweeps SweepReader::read(const fs::path& path) {
  check_is_file(path);
  Sweeps sweeps;
  if (!joins()) {
    sweeps.joined = read_cloud(path, read_);
    sweeps.own = std::make_shared<const io::Cloud>(sweeps.joined);
    return sweeps;
  }
  const auto scans = sequence(path);
  const std::size_t index = scans->index_of(path);
  std::vector<std::shared_ptr<const io::Cloud>> clouds;
  std::vector<const io::Cloud*> pointers;
  for (std::size_t back = 0; back < std::min(options_.sweeps, index + 1); ++back) {
    const fs::path& scan = scans->scans[index - back];
    try {
      clouds.push_back(cloud(scan));
    } catch (const base::Error& error) {
      if (back == 0) throw;
      base::fail("sweep ", scan.filename().string(), ": ", error.what());
    }
    pointers.push_back(clouds.back().get());
  }
  sweeps.own = clouds.front();
  sweeps.joined = io::joined_sweeps(*scans, index, pointers);
  return sweeps;
}

}  // namespace apps

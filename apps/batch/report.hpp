// What became of each input of a batch: messages while it runs, a closing summary, the "files" and
// "errors" of --json.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/batch/inputs.hpp"
#include "apps/results.hpp"

namespace apps {

// Not thread-safe: one thread reports, in the order of the inputs.
class BatchReport {
 public:
  explicit BatchReport(std::string command) : command_(std::move(command)) {}

  void done(Json entry) { files_.push_back(std::move(entry)); }
  void skipped(const std::filesystem::path& input, const std::filesystem::path& output);
  void failed(const std::string& input, const std::string& message);  // and says so on stderr
  void failed(const std::vector<InputFailure>& failures);
  // Inputs that were not reached, and why: stands in "stopped" and makes the exit status
  // kSomeFailed.
  void stopped(std::string reason, std::int64_t files_left) {
    stop_reason_ = std::move(reason);
    files_left_ = files_left;
  }

  // "run: 3 done, 1 skipped, 2 failed" on stderr (for batches of more than one) and the exit
  // status.
  int close() const;
  // {"files", "errors"} and, where there are any, {"skipped", "stopped"}.
  Json document() const;

 private:
  std::string command_, stop_reason_;
  std::int64_t files_left_ = 0;
  Json files_ = Json::array(), errors_ = Json::array(), skipped_ = Json::array();
};

// Warnings of several sources, each line once.
void report_warnings(const std::filesystem::path& file, const std::vector<std::string>& first,
                     const std::vector<std::string>& second = {});

// Whether a failed write to `path` means that no other write can succeed: disk full, file size
// limit, quota.
bool is_output_full(const std::filesystem::path& path, const std::string& message);

}  // namespace apps

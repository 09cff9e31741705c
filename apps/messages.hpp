// What the user reads on stderr: one line a failed input, warnings, notes, and progress. Safe from
// any thread; a progress bar on the terminal is wiped before a line and drawn again after it.
//
//   apps::report_error("scan.pcd", "WIDTH -3 is negative");     // sparseconv: scan.pcd: WIDTH -3
//   is negative apps::report_warning("scan.pcd", "3 points are not finite"); // sparseconv:
//   warning: scan.pcd: 3 points ... apps::Progress progress("voxelize", files.size());  ...
//   progress.advance();
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace apps {

void report_error(std::string_view file, std::string_view what);
void report_error(std::string_view what);  // without a file
void report_warning(std::string_view file, std::string_view what);
void report_note(std::string_view text);  // a plain line, such as a closing summary

void wipe_progress();  // before something else writes to the terminal

// A bar where stderr is a terminal, else a plain line at most every few seconds and none for short
// work. One at a time.
class Progress {
 public:
  Progress(std::string what, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance(std::int64_t by = 1);
};

}  // namespace apps

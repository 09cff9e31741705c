// Runs a program as a user does, for end-to-end tests: arguments, environment, limits; what it
// wrote, how it ended, and what it took.
//   const auto run = test_support::run_program({"/bin/echo", "a"});   // run.out == "a\n",
//   run.exit_code == 0
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace test_support {

struct ProgramOptions {
  std::vector<std::pair<std::string, std::string>> environment;  // set beside the caller's own
  std::filesystem::path folder;                                  // to run in; "" is the caller's
  std::uint64_t max_file_bytes = 0;                              // RLIMIT_FSIZE, 0: none
  bool has_own_group =
      false;  // kill(-pid) then reaches all of its processes, as Ctrl-C of a terminal does
  bool obeys_file_permissions = false;  // even where root runs the tests
  // Then it is killed: signal 9. Ten times as long under a sanitizer.
  std::chrono::seconds give_up_after{120};
  // Called every few milliseconds while it runs; it may send signals.
  std::function<void(pid_t)> while_running;
};

struct ProgramRun {
  int exit_code = -1;  // -1 where a signal ended it
  int signal = 0;
  std::string out, err;
  double cpu_seconds = 0;
  std::int64_t peak_bytes = 0;  // resident
};

ProgramRun run_program(const std::vector<std::string>& words, const ProgramOptions& options = {});

}  // namespace test_support

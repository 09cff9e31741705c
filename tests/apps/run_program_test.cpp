// The harness of the end-to-end tests is itself tested.
#include "tests/support/run_program.hpp"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/support/scratch_folder.hpp"

using test_support::run_program;

namespace {

TEST(RunProgram, ReturnsWhatWasWrittenAndHowItEnded) {
  const auto run = run_program({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(run.out, "out\n");
  EXPECT_EQ(run.err, "err\n");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_EQ(run.signal, 0);
  EXPECT_GT(run.peak_bytes, 0);
}

TEST(RunProgram, TellsSignalsFromExitCodes) {
  const auto run = run_program({"/bin/sh", "-c", "kill -9 $$"});
  EXPECT_EQ(run.signal, SIGKILL);
  EXPECT_EQ(run.exit_code, -1);
}

TEST(RunProgram, KillsWhatDoesNotEnd) {
  const auto run = run_program({"/bin/sleep", "30"}, {.give_up_after = std::chrono::seconds(0)});
  EXPECT_EQ(run.signal, SIGKILL);
}

TEST(RunProgram, SetsEnvironmentFolderAndLimits) {
  EXPECT_EQ(run_program({"/bin/sh", "-c", "echo $WORD; pwd"},
                        {.environment = {{"WORD", "a b"}}, .folder = "/"})
                .out,
            "a b\n/\n");
  EXPECT_NE(run_program({"/bin/sh", "-c", "head -c 5000 /dev/zero > \"$(mktemp)\""},
                        {.max_file_bytes = 1024})
                .exit_code,
            0);
}

TEST(RunProgram, ObeysFilePermissionsWhereAskedTo) {
  const test_support::ScratchFolder folder;
  std::filesystem::create_directory(folder / "closed");
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::none);
  const auto run =
      run_program({"/bin/ls", folder.text("closed")}, {.obeys_file_permissions = true});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_NE(run.err.find("Permission denied"), std::string::npos) << run.err;
}

TEST(RunProgram, ReadsMoreThanAPipeHolds) {
  EXPECT_EQ(
      run_program({"/bin/sh", "-c", "head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero"})
          .out.size(),
      1000000u);
}

}  // namespace

#include <gtest/gtest.h>

#include "tests/apps/command_line.hpp"

using namespace command_line;

namespace {

const std::vector<std::vector<std::string>> kCommands{{"info"},
                                                      {"convert"},
                                                      {"simulate"},
                                                      {"voxelize"},
                                                      {"model", "init"},
                                                      {"model", "info"},
                                                      {"model", "edit"},
                                                      {"run"},
                                                      {"train"},
                                                      {"eval"},
                                                      {"render"},
                                                      {"bench", "layer"},
                                                      {"bench", "network"},
                                                      {"bench", "map"},
                                                      {"bench", "gemm"}};

TEST(Usage, EveryCommandShowsExamplesInItsHelp) {
  const ProgramRun general = run_cli({"--help"});
  EXPECT_EQ(general.exit_code, 0);
  for (auto words : kCommands) {
    std::string name = "sparseconv";
    for (const std::string& word : words) name += ' ' + word;
    EXPECT_TRUE(contains(general.out, name.substr(11))) << name;
    words.push_back("--help");
    const ProgramRun help = run_cli(words);
    EXPECT_EQ(help.exit_code, 0) << name;
    EXPECT_EQ(help.err, "") << name;
    EXPECT_TRUE(contains(help.out, "Examples:\n  " + name)) << help.out;
  }
}

TEST(Usage, GroupsOfCommandsShowAnExampleOfEachInTheirHelp) {
  for (const auto& words : kCommands) {
    if (words.size() < 2) continue;
    const ProgramRun help = run_cli({words[0], "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_EQ(help.err, "");
    const auto examples = help.out.find("Examples:\n");
    ASSERT_NE(examples, std::string::npos) << help.out;
    EXPECT_TRUE(contains(help.out.substr(examples), "  sparseconv " + words[0] + ' ' + words[1]))
        << help.out;
  }
}

TEST(Usage, VersionGoesToStandardOutput) {
  const ProgramRun run = run_cli({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(run.out.starts_with("sparseconv ")) << run.out;
}

TEST(Usage, WrongUsageExitsWithTwoAndWritesOnlyToStandardError) {
  const std::vector<std::vector<std::string>> wrong{
      {},
      {"no-such-command"},
      {"model"},
      {"model", "no-such-part"},
      {"info"},
      {"info", "a.pcd", "--no-such-option"},
      {"info", "a.pcd",
       "--jso"},  // no abbreviations: a new option must not change what a script means
      {"convert", "a.pcd"},
      {"convert", "a.pcd", "b.ply", "c.ply"},
      {"voxelize", "a.pcd", "--voxel-size", "0"},
      {"voxelize", "a.pcd", "--voxel-size", "-0.1"},
      {"voxelize", "a.pcd", "--voxel-size", "nan"},
      {"voxelize", "a.pcd", "--voxel-size", "0.1,0.1"},
      {"voxelize", "a.pcd", "--voxel-size", "0.1m"},
      {"voxelize", "a.pcd", "--range", "0,0,0,1,1"},
      {"voxelize", "a.pcd", "--range", "0,0,0,1,1,0"},
      {"voxelize", "a.pcd", "--reduce", "median"},
      {"voxelize", "a.pcd", "--max-points", "0"},
      {"voxelize", "a.pcd", "--jobs", "0", "-o", "usage_test_out/"},
      {"convert", "a.pcd", "usage_test_out/", "--format", "ply", "--jobs", "0"},
      {"convert", "a.pcd", "usage_test_out/", "--format", "no_such_format"},
      {"model", "init", "no_such_network", "-o", "m.h5"},
      {"model", "init", "minkunet18"},
      {"model", "init", "minkunet18", "-o", "m.h5", "--width", "0"},
      {"model", "init", "minkunet18", "-o", "m.h5", "--classes", "a,,b"},
      {"model", "init", "minkunet18", "-o", "m.h5", "--classes", "a,b,a"},
      {"render", "a.pcd", "-o", "a.jpg"},
      {"bench", "layer", "--kernel", "4"},
      {"bench", "layer", "--kernel", "3,3,2"},
      {"run", "a.pcd", "-o", "out"},
      {"run", "a.pcd", "--model", "m.h5"},
      {"run", "--model", "m.h5", "-o", "out"},
      {"run", "a.pcd", "--model", "m.h5", "-o", "out", "--dtype", "fp12"},
      {"run", "a.pcd", "--model", "m.h5", "-o", "out", "--device", "gpu"},
      {"run", "a.pcd", "--model", "m.h5", "-o", "out", "--save", "scores", "--format", "label"},
      {"run", "a.pcd", "--model", "m.h5", "-o", "out", "--save", "features", "--format", "ply"},
      {"run", "a.pcd", "--model", "m.h5", "-o", "out", "--batch", "0"},
      {"bench", "layer", "--channels", "x"},
      {"bench", "gemm", "--m", "0"},
      {"bench", "network", "--arch", "no_such_network"},
  };
  for (const auto& words : wrong) {
    std::string line = "sparseconv";
    for (const std::string& word : words) line += ' ' + word;
    const ProgramRun run = run_cli(words);
    EXPECT_EQ(run.exit_code, 2) << line << "\n" << run.err;
    EXPECT_EQ(run.out, "") << line;
    EXPECT_NE(run.err, "") << line;
  }
  EXPECT_FALSE(std::filesystem::exists("usage_test_out"));
}

TEST(Usage, NegativeNumbersAreValuesNotOptions) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin", spiral(3));
  const ProgramRun run =
      run_cli({"voxelize", folder.text("a.bin"), "--origin", "-1,-2,-3", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(document(run)["files"][0]["origin"], Json({-1.0, -2.0, -3.0}));
}

TEST(Usage, AFailingStandardOutputIsAnError) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin", spiral(3));
  const ProgramRun run =
      test_support::run_program({"/bin/sh", "-c",
                                 std::string("exec ") + SPARSECONV_PROGRAM + " info '" +
                                     folder.text("a.bin") + "' > /dev/full"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, "standard output")) << run.err;
}

}  // namespace

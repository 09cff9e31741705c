// Batches that survive: bad files, collisions, resuming, interruption, kills, full disks.
#include <gtest/gtest.h>

#include <csignal>
#include <map>

#include "tests/apps/command_line.hpp"
#include "tests/apps/tiny_model.hpp"

using namespace command_line;

namespace {

constexpr auto kMayRead = std::filesystem::perms::owner_read;
constexpr auto kMayEnter = std::filesystem::perms::owner_exec;

class Batch : public testing::Test {
 protected:
  Batch() { write_threshold_model(folder / "m.h5"); }

  void write_scans(int count, int points = 40) {
    for (int i = 0; i < count; ++i) {
      write_scan(folder / "in" / ("s" + std::to_string(1000 + i) + ".bin"),
                 spiral(points, 0.001f * static_cast<float>(i)));
    }
  }
  std::vector<std::string> words(std::vector<std::string> more = {}) const {
    std::vector<std::string> all{
        "run",   "--model",          folder.text("m.h5"), folder.text("in"),
        "-o",    folder.text("out"), "--format",          "label",
        "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Every result there is stands whole: 4 bytes a point.
  void expect_whole_results(int points) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "out")) {
      if (entry.path().extension() == ".label") {
        EXPECT_EQ(entry.file_size(), 4u * static_cast<unsigned>(points)) << entry.path();
      }
    }
  }
  std::size_t results() const {
    std::size_t count = 0;
    if (!std::filesystem::exists(folder / "out")) return 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "out")) {
      count += entry.path().extension() == ".label";
    }
    return count;
  }
  ScratchFolder folder;
};

TEST_F(Batch, ABadFileCostsOnlyItselfAndOrderIsThatOfTheInputs) {
  write_scans(6);
  write_bytes(folder / "in" / "s1002.bin", "12345");
  for (const char* batch : {"1", "4"}) {
    const ProgramRun run = run_cli(words({"--jobs", "4", "--batch", batch}));
    EXPECT_EQ(run.exit_code, 1);
    const Json json = document(run);
    ASSERT_EQ(json["files"].size(), 5u);
    ASSERT_EQ(json["errors"].size(), 1u);
    EXPECT_EQ(json["errors"][0]["path"], folder.text("in/s1002.bin"));
    for (std::size_t i = 1; i < 5; ++i)
      EXPECT_LT(json["files"][i - 1]["path"], json["files"][i]["path"]);
    EXPECT_TRUE(contains(run.err, "run: 5 done, 0 skipped, 1 failed")) << run.err;
    EXPECT_EQ(results(), 5u);
  }
}

TEST_F(Batch, ABadCloudInABatchOfSeveralCostsOnlyItself) {
  write_scans(3);
  write_bytes(folder / "in" / "s1009.xyz", "1 2 3\n4 5 6\n");  // reads well but has no intensity
  const ProgramRun run = run_cli(words({"--batch", "4"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(document(run)["files"].size(), 3u) << run.out << run.err;
  EXPECT_EQ(document(run)["errors"].size(), 1u);
}

TEST_F(Batch, AWarningInABatchOfSeveralNamesItsOwnFile) {
  write_scans(3);
  auto points = spiral(40, 5);
  points[7][0] = std::numeric_limits<float>::quiet_NaN();
  write_scan(folder / "in" / "s1009.bin", points);
  const ProgramRun run = run_cli(words({"--batch", "4"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "s1009.bin: 1 of 40 points have a non-finite coordinate"))
      << run.err;
}

TEST_F(Batch, CollisionsStopBeforeAnyWork) {
  write_scan(folder / "in" / "a" / "scan.bin", spiral(3));
  write_scan(folder / "in" / "b" / "scan.bin", spiral(3));
  const ProgramRun sub_folders = run_cli(words());
  EXPECT_EQ(sub_folders.exit_code, 0) << sub_folders.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "out" / "a" / "scan.label"));
  EXPECT_TRUE(std::filesystem::exists(folder / "out" / "b" / "scan.label"));
  std::filesystem::remove_all(folder / "out");
  const ProgramRun run =
      run_cli({"run", "--model", folder.text("m.h5"), folder.text("in/a/scan.bin"),
               folder.text("in/b/scan.bin"), "-o", folder.text("out")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(contains(run.err, folder.text("in/a/scan.bin")) &&
              contains(run.err, folder.text("in/b/scan.bin")))
      << run.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST_F(Batch, AnInputIsNeverOverwritten) {
  write_scan(folder / "a.bin", spiral(3));
  ASSERT_EQ(run_cli({"convert", folder.text("a.bin"), folder.text("a.ply")}).exit_code, 0);
  const std::string before = read_bytes(folder / "a.ply");
  const ProgramRun run = run_cli({"run", "--model", folder.text("m.h5"), folder.text("a.ply"), "-o",
                                  folder.text("x/.."), "--format", "ply"});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(read_bytes(folder / "a.ply"), before);
  const ProgramRun model =
      run_cli({"run", "--model", folder.text("m.h5"), folder.text("m.bin"), "-o", folder.text("")});
  EXPECT_EQ(model.exit_code, 2) << "m.bin gives m.h5, the model: " << model.err;
}

TEST_F(Batch, ResultsInTheFolderThatIsSearchedAreNoInputsOfTheNextCall) {
  write_scans(3);
  for (const char* out : {"in", "in/results"}) {
    for (const char* format : {"h5", "ply", "pcd"}) {
      for (int call = 0; call < 2; ++call) {
        const ProgramRun run = run_cli({"run", "--model", folder.text("m.h5"), folder.text("in"),
                                        "-o", folder.text(out), "--format", format, "--json"});
        EXPECT_EQ(run.exit_code, 0) << run.err;
        EXPECT_EQ(document(run)["files"].size(), 3u) << out << format << call << run.err;
      }
      std::error_code error;  // results of another format would share the names of these
      for (const std::string& name : names_in(folder / out)) {
        if (name.ends_with(format)) std::filesystem::remove(folder / out / name, error);
      }
    }
  }
  const ProgramRun named =
      run_cli({"voxelize", folder.text("in"), "-o", folder.text("in"), "--json"});
  EXPECT_EQ(document(named)["files"].size(), 3u) << named.err;
  EXPECT_EQ(document(run_cli({"info", folder.text("in/s1000.h5"), "--json"}))["files"].size(), 1u);
}

TEST_F(Batch, ResumeSkipsOnlyWhatIsWholeAndMadeTheSameWay) {
  write_scans(4);
  ASSERT_EQ(run_cli(words()).exit_code, 0);
  EXPECT_EQ(document(run_cli(words({"--resume"})))["skipped"].size(), 4u);
  EXPECT_EQ(document(run_cli(words()))["files"].size(), 4u) << "without --resume all is done again";
  std::filesystem::resize_file(folder / "out" / "s1001.label", 8);  // no longer whole
  std::filesystem::remove(folder / "out" / "s1002.label");
  write_scan(folder / "in" / "s1003.bin", spiral(41));  // another input
  const Json json = document(run_cli(words({"--resume"})));
  EXPECT_EQ(json["skipped"].size(), 1u);
  EXPECT_EQ(json["files"].size(), 3u);
  EXPECT_EQ(document(run_cli(words({"--resume", "--dtype", "fp16"})))["files"].size(), 4u)
      << "other options";
  write_threshold_model(folder / "m.h5", R"(["low", "high"])");
  EXPECT_EQ(document(run_cli(words({"--resume", "--dtype", "fp16"})))["files"].size(), 4u)
      << "another model";
}

TEST_F(Batch, ControlCFinishesTheFileInHandAndResumeGoesOn) {
  constexpr int kFiles = 400;
  write_scans(kFiles);
  bool is_sent = false;
  const ProgramRun run = run_cli(words(), {.while_running = [&](pid_t child) {
                                   if (!is_sent && results() >= 3)
                                     is_sent = kill(child, SIGINT) == 0;
                                 }});
  ASSERT_TRUE(is_sent);
  EXPECT_EQ(run.exit_code, 1) << run.signal;
  EXPECT_TRUE(contains(run.err, "--resume")) << run.err;
  const Json json = document(run);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_LT(json["files"].size(), static_cast<std::size_t>(kFiles));
  EXPECT_EQ(json["files"].size(), results());
  EXPECT_EQ(json["files"].size() + json["stopped"]["files_left"].get<std::size_t>(),
            static_cast<std::size_t>(kFiles));
  expect_whole_results(40);
  const ProgramRun rest = run_cli(words({"--resume"}));
  EXPECT_EQ(rest.exit_code, 0);
  EXPECT_EQ(document(rest)["skipped"].size(), json["files"].size());
  EXPECT_EQ(results(), static_cast<std::size_t>(kFiles));
}

TEST_F(Batch, ControlCOfATerminalCostsNoFileThatHdf5sProcessesRead) {
  constexpr int kFiles = 150;
  write_scans(kFiles);
  ASSERT_EQ(
      run_cli({"convert", folder.text("in"), folder.text("clouds/"), "--format", "hdf5"}).exit_code,
      0);
  std::filesystem::remove_all(folder / "in");
  std::filesystem::rename(folder / "clouds", folder / "in");
  std::filesystem::remove(folder / "in/.sparseconv-run.jsonl");
  bool is_sent = false;
  const ProgramRun run =
      run_cli(words(), {.has_own_group = true, .while_running = [&](pid_t child) {
                          if (!is_sent && results() >= 3) is_sent = kill(-child, SIGINT) == 0;
                        }});
  ASSERT_TRUE(is_sent);
  EXPECT_EQ(run.exit_code, 1) << run.signal;
  const Json json = document(run);
  ASSERT_FALSE(json.is_discarded()) << run.out;
  EXPECT_EQ(json["errors"], Json::array());
  EXPECT_EQ(json["files"].size(), results());
  EXPECT_EQ(json["files"].size() + json["stopped"]["files_left"].get<std::size_t>(),
            static_cast<std::size_t>(kFiles));
}

TEST_F(Batch, KillNineAtAnyMomentLeavesNoHalfFileUnderAFinalName) {
  constexpr int kFiles = 100, kPoints = 20000;
  write_scans(kFiles, kPoints);
  for (const std::size_t after : {1u, 4u, 9u, 17u}) {
    bool is_killed = false;
    run_cli(words({"--resume"}), {.while_running = [&](pid_t child) {
              if (!is_killed && results() >= after) is_killed = kill(child, SIGKILL) == 0;
            }});
    EXPECT_TRUE(is_killed);
    expect_whole_results(kPoints);
  }
  EXPECT_EQ(run_cli(words({"--resume"})).exit_code, 0);
  EXPECT_EQ(results(), static_cast<std::size_t>(kFiles));
  expect_whole_results(kPoints);
}

TEST_F(Batch, AFullDiskIsOneErrorThatNamesTheFileAndStopsResumably) {
  write_scans(6);
  write_scan(folder / "in" / "s1002.bin", spiral(50000));  // 200 kB of labels
  for (const std::string format : {"label", "h5", "ply"}) {
    const std::vector<std::string> call{
        "run",   "--model",           folder.text("m.h5"), folder.text("in"),
        "-o",    folder.text(format), "--format",          format,
        "--json"};
    const ProgramRun run = run_cli(call, {.max_file_bytes = 65536});
    EXPECT_EQ(run.exit_code, 1) << run.signal;
    const Json json = document(run);
    ASSERT_EQ(json["errors"].size(), 1u) << run.out << run.err;
    EXPECT_TRUE(contains(run.err, "s1002." + format)) << run.err;
    const std::string message = json["errors"][0]["message"];
    EXPECT_TRUE(message.ends_with("File too large")) << message;
    EXPECT_EQ(json["files"].size(), 2u);
    EXPECT_EQ(json["stopped"]["files_left"], 3);
    EXPECT_TRUE(contains(run.err, "--resume")) << run.err;
    EXPECT_EQ(names_in(folder / format).size(), 2u) << "nothing half written stays";
    auto again = call;
    again.push_back("--resume");
    const ProgramRun rest = run_cli(again);
    EXPECT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_EQ(document(rest)["skipped"].size(), 2u);
    EXPECT_EQ(names_in(folder / format).size(), 6u);
  }
}

TEST_F(Batch, AnOutputThatCannotBeWrittenIsNamed) {
  write_scans(2);
  write_bytes(folder / "out", "a file where the folder should be");
  const ProgramRun run = run_cli(words());
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, folder.text("out"))) << run.err;
}

TEST_F(Batch, AFolderWithoutPermissionToWriteIsNamed) {
  write_scans(2);
  std::filesystem::create_directory(folder / "out");
  std::filesystem::permissions(folder / "out", kMayRead | kMayEnter);
  const std::string in = folder.text("in"), out = folder.text("out");
  for (const std::vector<std::string>& call : std::vector<std::vector<std::string>>{
           words(),
           {"voxelize", in, "-o", out, "--voxel-size", "0.1"},
           {"convert", in, out, "--format", "ply"},
           {"convert", in, out, "--format", "hdf5"},
           {"render", folder.text("in/s1000.bin"), "-o", out + "/a.png"},
           {"simulate", "--sensor", "vlp16", "-o", out},
           {"model", "init", "minkunet14", "--width", "0.25", "--classes", "5", "-o",
            out + "/m.h5"}}) {
    const ProgramRun denied = run_cli(call, {.obeys_file_permissions = true});
    EXPECT_EQ(denied.exit_code, 1) << call[0];
    EXPECT_TRUE(contains(denied.err, out)) << denied.err;
    EXPECT_TRUE(contains(denied.err, "Permission denied")) << denied.err;
    EXPECT_FALSE(contains(denied.err, "errno")) << denied.err;
    EXPECT_TRUE(std::filesystem::is_empty(folder / "out")) << call[0];
  }
}

TEST_F(Batch, WhatMayNotBeReadCostsOnlyItselfInEveryCommand) {
  write_scans(3);
  write_scan(folder / "in/closed/s2000.bin", spiral(40));
  write_scan(folder / "in/listed/s3000.bin", spiral(40));
  std::filesystem::permissions(folder / "in/s1001.bin", std::filesystem::perms::none);
  std::filesystem::permissions(folder / "in/closed", std::filesystem::perms::none);
  std::filesystem::permissions(folder / "in/listed", kMayRead);
  const std::string in = folder.text("in");
  const std::vector<std::vector<std::string>> calls{
      words(),
      {"info", in, "--json"},
      {"voxelize", in, "-o", folder.text("voxels"), "--voxel-size", "0.1", "--json"},
      {"convert", in, folder.text("clouds"), "--format", "ply", "--json"}};
  for (const auto& call : calls) {
    const ProgramRun run = run_cli(call, {.obeys_file_permissions = true});
    EXPECT_EQ(run.exit_code, 1) << call[0];
    const Json json = document(run);
    EXPECT_EQ(json["files"].size(), 2u) << run.err;
    std::map<std::string, std::string> errors;
    for (const Json& error : json["errors"]) errors[error["path"]] = error["message"];
    EXPECT_EQ(errors, (std::map<std::string, std::string>{
                          {in + "/closed", "cannot be searched: Permission denied"},
                          {in + "/listed", "cannot be searched: Permission denied"},
                          {in + "/s1001.bin", "cannot be opened: Permission denied"}}))
        << call[0];
  }
  for (const char* closed : {"closed", "listed"})
    std::filesystem::permissions(folder / "in" / closed, std::filesystem::perms::owner_all);
}

TEST_F(Batch, AModelThatMayNotBeReadIsNamed) {
  write_scans(1);
  std::filesystem::permissions(folder / "m.h5", std::filesystem::perms::none);
  const ProgramRun run = run_cli(words(), {.obeys_file_permissions = true});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, folder.text("m.h5"))) << run.err;
  EXPECT_TRUE(contains(run.err, "Permission denied")) << run.err;
}

TEST_F(Batch, AResultNameThatIsTakenByAFolderCostsOnlyThatFile) {
  write_scans(3);
  std::filesystem::create_directories(folder / "out" / "s1001.label" / "x");
  const ProgramRun run = run_cli(words());
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(document(run)["files"].size(), 2u) << run.err;
  EXPECT_EQ(document(run)["errors"][0]["path"], folder.text("in/s1001.bin"));
}

}  // namespace

// --sweeps and --poses, end to end.
#include <gtest/gtest.h>

#include "io/io.h"
#include "sparseconv/voxel_file.hpp"
#include "tests/apps/command_line.hpp"
#include "tests/apps/tiny_model.hpp"

using namespace command_line;

namespace {

// Three scans that each see one place (at x = 10 of the first) and one of their own, from positions
// 2 m apart.
void write_drive(const ScratchFolder& folder) {
  std::string poses;
  for (int i = 0; i < 3; ++i) {
    poses += "1 0 0 " + std::to_string(2 * i) + " 0 1 0 0 0 0 1 0\n";
    const auto n = static_cast<float>(i);
    write_scan(folder / ("velodyne/00000" + std::to_string(i) + ".bin"),
               {{10.05f - 2 * n, 0.05f, 0.05f, 0.25f * n}, {50.05f, 5 * n + 0.05f, 0.05f, 1}});
  }
  write_bytes(folder / "poses.txt", poses);
}

TEST(Sweeps, ConvertJoinsAScanWithThoseBeforeIt) {
  const ScratchFolder folder;
  write_drive(folder);
  const ProgramRun run = run_cli(
      {"convert", folder.text("velodyne/000002.bin"), folder.text("joined.ply"), "--sweeps", "3"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const io::Cloud joined = io::read(folder / "joined.ply");
  ASSERT_EQ(joined.size(), 6);
  for (std::int64_t sweep = 0; sweep < 3; ++sweep) {
    EXPECT_NEAR(joined.position(2 * sweep)[0], 6.05, 1e-6);
    EXPECT_EQ(joined.get("sweep").at(2 * sweep), static_cast<double>(sweep));
  }
}

TEST(Sweeps, VoxelizeMergesThePlaceThatAllScansSee) {
  const ScratchFolder folder;
  write_drive(folder);
  const ProgramRun run = run_cli({"voxelize", folder.text("velodyne"), "-o", folder.text("out"),
                                  "--sweeps", "2", "--poses", folder.text("poses.txt"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json files = document(run)["files"];
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0]["points"], 2);  // nothing before the first
  EXPECT_EQ(files[0]["voxels"], 2);
  EXPECT_EQ(files[2]["points"], 4);
  EXPECT_EQ(files[2]["voxels"], 3);
  const auto voxels = sparseconv::read_voxel_file(folder / "out/000002.h5");
  EXPECT_EQ(voxels.point_to_voxel[0], voxels.point_to_voxel[2]);
  EXPECT_EQ(voxels.feature_names.back(), "sweep");
}

TEST(Sweeps, RunGivesLabelsForTheFilesOwnPoints) {
  const ScratchFolder folder;
  write_drive(folder);
  write_threshold_model(folder / "model.h5");
  const ProgramRun run =
      run_cli({"run", "--model", folder.text("model.h5"), folder.text("velodyne"), "-o",
               folder.text("out"), "--sweeps", "3", "--format", "ply", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(document(run)["files"][2]["points"], 2);
  const io::Cloud labelled = io::read(folder / "out/000002.ply");
  ASSERT_EQ(labelled.size(), 2);
  EXPECT_EQ(labelled.get("x").field.type, base::DType::f32) << "the file's own columns";
  EXPECT_EQ(labelled.find("sweep"), nullptr);
  // The place has intensities 0.5, 0.25 and 0 in the three sweeps: a mean of 0.25 is below the
  // threshold.
  EXPECT_EQ(labelled.get("label").at(0), 3);
  EXPECT_EQ(labelled.get("label").at(1), 9);
}

TEST(Sweeps, AMissingPoseOrABadSweepCostsOnlyItsFile) {
  const ScratchFolder folder;
  write_drive(folder);
  write_bytes(folder / "velodyne/000001.bin", "odd");
  const ProgramRun run = run_cli(
      {"voxelize", folder.text("velodyne"), "-o", folder.text("out"), "--sweeps", "2", "--json"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(document(run)["files"].size(), 1u);
  EXPECT_TRUE(contains(run.err, "sweep 000001.bin: 3 bytes")) << run.err;
  EXPECT_EQ(
      run_cli({"voxelize", folder.text("velodyne"), "--poses", folder.text("poses.txt")}).exit_code,
      2);
  const ProgramRun absent = run_cli(
      {"voxelize", folder.text("velodyne"), "--sweeps", "2", "--poses", folder.text("absent.txt")});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_TRUE(contains(absent.err, folder.text("absent.txt") + ": no such file")) << absent.err;
  std::filesystem::remove(folder / "poses.txt");
  const ProgramRun none = run_cli(
      {"render", folder.text("velodyne/000002.bin"), "-o", folder.text("a.png"), "--sweeps", "2"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(contains(none.err, "no poses")) << none.err;
}

TEST(Sweeps, ResumeRedoesResultsOfOtherSweeps) {
  const ScratchFolder folder;
  write_drive(folder);
  const std::vector<std::string> words{
      "voxelize", folder.text("velodyne"), "-o", folder.text("out"), "--json", "--resume"};
  ASSERT_EQ(run_cli(words).exit_code, 0);
  auto with_sweeps = words;
  with_sweeps.insert(with_sweeps.end(), {"--sweeps", "2"});
  EXPECT_EQ(document(run_cli(with_sweeps))["files"].size(), 3u)
      << "made without sweeps: done again";
  EXPECT_EQ(document(run_cli(with_sweeps))["files"].size(), 0u);
}

}  // namespace

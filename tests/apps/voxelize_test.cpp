#include <gtest/gtest.h>

#include "sparseconv/voxel_file.hpp"
#include "tests/apps/command_line.hpp"

using namespace command_line;

namespace {

TEST(Voxelize, JsonHasTheDocumentedKeysAndTheFileHoldsTheVoxels) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin",
             {{0.05f, 0, 0, 10}, {0.06f, 0, 0, 20}, {-0.05f, 0, 0, 30}, {NAN, 0, 0, 40}});
  const ProgramRun run = run_cli({"voxelize", folder.text("a.bin"), "--voxel-size", "0.1", "-o",
                                  folder.text("a.h5"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json file = document(run)["files"][0];
  EXPECT_EQ(file["path"], folder.text("a.bin"));
  EXPECT_EQ(file["points"], 4);
  EXPECT_EQ(file["voxels"], 2);
  EXPECT_EQ(file["dropped"], 1);
  EXPECT_EQ(file["output"], folder.text("a.h5"));
  const auto voxels = sparseconv::read_voxel_file(folder / "a.h5");
  ASSERT_EQ(voxels.tensor.rows(), 2);
  EXPECT_EQ(voxels.tensor.coordinates->coords()[0].x, -1);  // floor, and sorted by key
  EXPECT_EQ(voxels.tensor.coordinates->coords()[1].x, 0);
  EXPECT_EQ(voxels.feature_names, (std::vector<std::string>{"x", "y", "z", "intensity"}));
  EXPECT_FLOAT_EQ(voxels.tensor.features.data<float>()[7], 15);
  EXPECT_EQ(voxels.point_to_voxel, (std::vector<std::int64_t>{1, 1, 0, -1}));
}

TEST(Voxelize, OneInputGivesAFileAndSeveralGiveAFolder) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin", spiral(3));
  write_scan(folder / "b.bin", spiral(4));
  ASSERT_EQ(
      run_cli({"voxelize", folder.text("a.bin"), folder.text("b.bin"), "-o", folder.text("out")})
          .exit_code,
      0);
  EXPECT_EQ(names_in(folder / "out"), (std::vector<std::string>{"a.h5", "b.h5"}));
  ASSERT_EQ(run_cli({"voxelize", folder.text("a.bin"), "-o", folder.text("new/one.h5")}).exit_code,
            0);
  EXPECT_TRUE(std::filesystem::is_regular_file(folder / "new" / "one.h5"));
}

TEST(Voxelize, LabelsAreTheMostFrequentOfTheirPointsTiesToTheLowest) {
  const ScratchFolder folder;
  write_bytes(folder / "a.csv",
              "x,y,z,label\n"
              "0.01,0,0,7\n0.02,0,0,3\n0.03,0,0,7\n"  // 7 twice
              "1.01,0,0,9\n1.02,0,0,4\n");            // a tie
  const ProgramRun run =
      run_cli({"voxelize", folder.text("a.csv"), "--labels", "-o", folder.text("a.h5")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(sparseconv::read_voxel_file(folder / "a.h5").labels, (std::vector<std::int32_t>{7, 4}));
  const ProgramRun without = run_cli(
      {"voxelize", folder.text("a.csv"), "--features", "humidity", "-o", folder.text("b.h5")});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_TRUE(contains(without.err, "humidity")) << without.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "b.h5"));
}

TEST(Voxelize, LimitsDropPointsInFileOrder) {
  const ScratchFolder folder;
  write_scan(folder / "a.bin",
             {{0.01f, 0, 0, 1}, {0.02f, 0, 0, 3}, {0.03f, 0, 0, 5}, {1, 0, 0, 7}, {2, 0, 0, 9}});
  const ProgramRun run = run_cli({"voxelize", folder.text("a.bin"), "--max-points", "2",
                                  "--max-voxels", "2", "-o", folder.text("a.h5"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(document(run)["files"][0]["dropped"], 2);
  const auto voxels = sparseconv::read_voxel_file(folder / "a.h5");
  ASSERT_EQ(voxels.tensor.rows(), 2);
  EXPECT_FLOAT_EQ(voxels.tensor.features.data<float>()[3], 2);  // of 1 and 3
  EXPECT_EQ(voxels.point_to_voxel, (std::vector<std::int64_t>{0, 0, -1, 1, -1}));
}

TEST(Voxelize, FarFromTheOriginMovesTheOriginByWholeCellsAndSaysSo) {
  const ScratchFolder folder;
  write_bytes(folder / "utm.csv",
              "x,y,z\n500000.05,5000000.05,100.05\n500000.25,5000000.05,100.05\n");
  const ProgramRun run = run_cli({"voxelize", folder.text("utm.csv"), "--voxel-size", "0.1", "-o",
                                  folder.text("a.h5"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(document(run)["files"][0]["voxels"], 2);
  EXPECT_TRUE(contains(run.err, "origin")) << run.err;
  EXPECT_NE(sparseconv::read_voxel_file(folder / "a.h5").origin[0], 0);
}

TEST(Voxelize, ResumeSkipsWhatIsDoneInTheSameWay) {
  const ScratchFolder folder;
  write_scan(folder / "in" / "a.bin", spiral(3));
  write_scan(folder / "in" / "b.bin", spiral(4));
  const std::vector<std::string> words{"voxelize",         folder.text("in"), "-o",
                                       folder.text("out"), "--json",          "--resume"};
  EXPECT_EQ(document(run_cli(words))["files"].size(), 2u);
  EXPECT_EQ(document(run_cli(words))["skipped"].size(), 2u);
  auto other = words;
  other.insert(other.end(), {"--voxel-size", "0.2"});
  EXPECT_EQ(document(run_cli(other))["files"].size(), 2u);
}

}  // namespace

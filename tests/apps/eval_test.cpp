// eval as users call it, with a model whose labels can be told from the intensity.
#include <gtest/gtest.h>

#include "tests/apps/command_line.hpp"
#include "tests/apps/tiny_model.hpp"

using namespace command_line;

namespace {

// Points far apart, so that each has a voxel of its own; the model says 9 above intensity 0.5,
// else 3.
void write_labelled(const std::filesystem::path& scan, const std::filesystem::path& labels,
                    const std::vector<std::pair<float, std::uint32_t>>& points) {
  std::vector<std::array<float, 4>> rows;
  std::string words;
  for (std::size_t i = 0; i < points.size(); ++i) {
    rows.push_back({static_cast<float>(i), 0, 0, points[i].first});
    words.append(reinterpret_cast<const char*>(&points[i].second), 4);
  }
  write_scan(scan, rows);
  write_bytes(labels, words);
}

constexpr std::uint32_t kInstance = 7u << 16;  // the high bits are no part of the class

class Eval : public testing::Test {
 protected:
  void SetUp() override {
    write_threshold_model(folder / "m.h5");
    // Right: 3 3 9; wrong: a 9 taken for 3; ignored: 0.
    write_labelled(folder / "d/velodyne/a.bin", folder / "d/labels/a.label",
                   {{0.1f, 3}, {0.2f, 3 | kInstance}, {0.9f, 9}, {0.3f, 9}, {0.9f, 0}});
    write_labelled(folder / "d/side/b.bin", folder / "d/side/b.label", {{0.8f, 9}, {0.9f, 3}});
  }
  ProgramRun eval(std::vector<std::string> more, const std::string& where = "d") {
    std::vector<std::string> words = {"eval", "--model", folder.text("m.h5"), folder.text(where)};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }
  ScratchFolder folder;
};

TEST_F(Eval, ScoresBothLayoutsOfFolders) {
  const ProgramRun run = eval({"--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json scores = document(run);
  // Class 3: 2 hits of 3 truths and 3 predictions; class 9: 2 hits of 3 and 3.
  EXPECT_DOUBLE_EQ(scores["classes"][0]["iou"], 2.0 / 4);
  EXPECT_DOUBLE_EQ(scores["classes"][1]["iou"], 2.0 / 4);
  EXPECT_EQ(scores["classes"][1]["id"], 9);
  EXPECT_DOUBLE_EQ(scores["miou"], 0.5);
  EXPECT_DOUBLE_EQ(scores["accuracy"], 4.0 / 6);
  EXPECT_EQ(scores["points"], 6);
  EXPECT_EQ(scores["ignored"], 1);
  EXPECT_EQ(scores["confusion"], Json({{2, 1, 0}, {1, 2, 0}}));
  ASSERT_EQ(scores["files"].size(), 2u);
  EXPECT_EQ(scores["files"][1]["points"], 5);
  EXPECT_DOUBLE_EQ(scores["files"][1]["accuracy"], 0.75);
}

TEST_F(Eval, TextNamesClassesAndTotals) {
  const ProgramRun run = eval({"--confusion"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* part :
       {"near", "far", "0.500", "mIoU 0.500, accuracy 0.667 of 6 points", "33.3"})
    EXPECT_TRUE(contains(run.out, part)) << part << "\n" << run.out;
}

TEST_F(Eval, MergeScoresGroupsOfClasses) {
  write_bytes(folder / "one.json",
              R"({"classes": [{"id": 1, "name": "all", "from": [3, 9]}], "ignore": [0]})");
  const ProgramRun run = eval({"--merge", folder.text("one.json"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_DOUBLE_EQ(document(run)["miou"], 1);
  // A predicted class that is not scored is wrong, not left out.
  write_bytes(folder / "near.json",
              R"({"classes": [{"id": 3, "name": "near"}], "ignore": [0, 9]})");
  const ProgramRun part = eval({"--merge", folder.text("near.json"), "--json"});
  ASSERT_EQ(part.exit_code, 0) << part.err;
  EXPECT_EQ(document(part)["confusion"], Json({{2, 1}}));
  EXPECT_DOUBLE_EQ(document(part)["accuracy"], 2.0 / 3);
}

TEST_F(Eval, ClassesMapRawNumbersFirst) {
  write_labelled(folder / "raw/a.bin", folder / "raw/a.label",
                 {{0.1f, 40}, {0.9f, 252}, {0.9f, 1}});
  write_bytes(folder / "raw.json", R"({"classes": [{"id": 3, "name": "near", "from": [40, 44]},
      {"id": 9, "name": "far", "from": [10, 252]}], "ignore": [0, 1]})");
  const ProgramRun run = eval({"--classes", folder.text("raw.json"), "--json"}, "raw");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_DOUBLE_EQ(document(run)["accuracy"], 1);
  EXPECT_EQ(document(run)["points"], 2);
}

TEST_F(Eval, ALabelThatNoClassHasIsAnErrorOfItsFileOnly) {
  write_labelled(folder / "d/side/c.bin", folder / "d/side/c.label", {{0.8f, 9}, {0.9f, 77}});
  const ProgramRun run = eval({"--json"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, "c.bin: label 77 (of point 1 and 0 others)")) << run.err;
  EXPECT_EQ(document(run)["points"], 6);
  EXPECT_EQ(document(run)["errors"].size(), 1u);
}

TEST_F(Eval, UnequalNumbersOfPointsAndLabelsAreAnError) {
  write_bytes(folder / "d/side/b.label", std::string(12, '\3'));
  const ProgramRun run = eval({});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, "3 labels")) << run.err;
  EXPECT_TRUE(contains(run.err, "2 points")) << run.err;
}

TEST_F(Eval, BadMapsAndFoldersAndModelsAreNamed) {
  write_bytes(folder / "twice.json", R"({"classes": [{"id": 3}, {"id": 9, "from": [9, 3]}]})");
  write_bytes(folder / "key.json", R"({"classes": [{"id": 3, "nmae": "x"}]})");
  write_bytes(folder / "text.json", "classes");
  write_scan(folder / "bare/a.bin", spiral(3));
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--merge", folder.text("twice.json")}, "label 3 stands in two lists"},
      {{"--merge", folder.text("key.json")}, "nmae"},
      {{"--merge", folder.text("text.json")}, "text.json: is no JSON object"},
      {{"--merge", folder.text("none.json")}, "none.json"}};
  for (const auto& [more, part] : cases) {
    const ProgramRun run = eval(more);
    EXPECT_EQ(run.exit_code, 1) << part;
    EXPECT_TRUE(contains(run.err, part)) << run.err;
  }
  EXPECT_TRUE(contains(eval({}, "bare").err, "1 scans without labels")) << eval({}, "bare").err;
  EXPECT_EQ(eval({}, "bare").exit_code, 1);
  EXPECT_EQ(eval({}, "nowhere").exit_code, 1);
  write_bytes(folder / "m.h5", "no model");
  const ProgramRun broken = eval({});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_TRUE(contains(broken.err, "m.h5")) << broken.err;
}

TEST_F(Eval, AModelWithoutClassesGivesNoLabels) {
  write_threshold_model(folder / "m.h5", "");
  const ProgramRun run = eval({});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(contains(run.err, "no classes")) << run.err;
}

TEST_F(Eval, EveryPointIgnoredIsAnError) {
  write_labelled(folder / "zero/a.bin", folder / "zero/a.label", {{0.1f, 0}, {0.9f, 0}});
  const ProgramRun run = eval({"--json"}, "zero");
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_TRUE(contains(run.err, "no point has a class")) << run.err;
  EXPECT_EQ(document(run)["classes"][0]["iou"], nullptr);
}

TEST_F(Eval, VoxelFilesWithLabelsAndCloudsThatHoldThemAreScoredToo) {
  write_bytes(folder / "v/a.ply",
              "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\n"
              "property float z\nproperty float intensity\nproperty int label\nend_header\n"
              "0 0 0 0.1 3\n5 0 0 0.9 3\n");
  const ProgramRun cloud = eval({"--json"}, "v");
  ASSERT_EQ(cloud.exit_code, 0) << cloud.err;
  EXPECT_DOUBLE_EQ(document(cloud)["accuracy"], 0.5);
  ASSERT_EQ(run_cli({"voxelize", folder.text("v/a.ply"), "--labels", "--features", "intensity",
                     "-o", folder.text("x/a.h5")})
                .exit_code,
            0);
  const ProgramRun voxels = eval({"--json"}, "x");
  ASSERT_EQ(voxels.exit_code, 0) << voxels.err;
  EXPECT_DOUBLE_EQ(document(voxels)["accuracy"], 0.5);
}

}  // namespace

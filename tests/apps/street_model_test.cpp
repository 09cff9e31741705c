// The bundled model holds what models/README.md says of it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/apps/command_line.hpp"

using namespace command_line;

namespace {

const std::filesystem::path kSource = SPARSECONV_SOURCE_DIR;

std::filesystem::path shared_folder() {
  const char* const named = std::getenv("SPARSECONV_SHARED");
  return named != nullptr ? std::filesystem::path(named) : kSource / ".." / "shared";
}

Json eval(const std::filesystem::path& folder, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"eval", "--model", (kSource / "models/street.h5").string(),
                                    folder.string(), "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const ProgramRun run = run_cli(words);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return document(run);
}

TEST(StreetModel, LabelsStreetsThatItNeverSaw) {
  const ScratchFolder folder;
  for (const std::string seed : {"1001", "1002", "1003"}) {
    ASSERT_EQ(
        run_cli({"simulate", "--seed", seed, "--first", seed, "-o", folder.text("s")}).exit_code,
        0);
  }
  const Json scores = eval(folder / "s");
  EXPECT_GT(scores["accuracy"], 0.94) << scores.dump(1);
  EXPECT_GT(scores["miou"], 0.85) << scores.dump(1);
}

// Each class is there and reaches its least.
void expect_ious(const Json& scores, const std::map<std::string, double>& least) {
  std::map<std::string, double> ious;
  for (const Json& one : scores["classes"]) ious[one["name"]] = one["iou"].get<double>();
  for (const auto& [name, iou] : least) {
    ASSERT_TRUE(ious.contains(name)) << name;
    EXPECT_GE(ious[name], iou) << name;
  }
}

TEST(StreetModel, LabelsRealScansOfTwoSensors) {
  const std::filesystem::path scans = shared_folder() / "data/labelled";
  if (!std::filesystem::is_directory(scans)) GTEST_SKIP() << scans << " is missing";
  const Json scores = eval(scans, {"--merge", (kSource / "models/merged_seven.json").string()});
  EXPECT_GE(scores["accuracy"], 0.925);
  EXPECT_GE(scores["miou"], 0.57);
  expect_ious(scores,
              {{"ground", 0.92}, {"structure", 0.85}, {"vegetation", 0.76}, {"vehicle", 0.82}});
}

// Each sensor alone, where the labels of 32 beams call grass vegetation.
TEST(StreetModel, HoldsOnEachSensor) {
  const std::filesystem::path scans = shared_folder() / "data/labelled";
  if (!std::filesystem::is_directory(scans)) GTEST_SKIP() << scans << " is missing";
  const std::vector<std::string> merged = {"--merge",
                                           (kSource / "models/merged_seven.json").string()};
  const Json fine = eval(scans / "semantic_kitti", merged),
             coarse = eval(scans / "nuscenes", merged);
  EXPECT_GE(fine["accuracy"], 0.95);
  EXPECT_GE(fine["miou"], 0.65);
  EXPECT_GE(coarse["accuracy"], 0.85);
  EXPECT_GE(coarse["miou"], 0.41);
  const Json own =
      eval(scans / "nuscenes", {"--merge", (kSource / "models/nuscenes_six.json").string()});
  EXPECT_GE(own["accuracy"], 0.89);
  EXPECT_GE(own["miou"], 0.52);
  expect_ious(own, {{"ground", 0.88}, {"manmade", 0.78}, {"vegetation", 0.7}, {"vehicle", 0.73}});
}

TEST(StreetModel, RawSemanticKittiLabelsAreMappedToItsClasses) {
  const ScratchFolder folder;
  ASSERT_EQ(run_cli({"simulate", "--sensor", "vlp16", "-o", folder.text("s")}).exit_code, 0);
  const Json own = eval(folder / "s");
  // Ids of the simulator to numbers of the data set that mean the same.
  constexpr std::uint32_t kRaw[] = {1, 44, 48, 72, 50, 51, 71, 252, 254, 31, 81};
  std::string labels = read_bytes(folder / "s/000000.label");
  for (std::size_t i = 0; i < labels.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, labels.data() + i, 4);
    word = (word & 0xffff0000u) | kRaw[word & 0xffffu];
    std::memcpy(labels.data() + i, &word, 4);
  }
  write_bytes(folder / "s/000000.label", labels);
  const Json raw =
      eval(folder / "s", {"--classes", (kSource / "models/semantic_kitti.json").string()});
  EXPECT_EQ(raw["confusion"], own["confusion"]);
  EXPECT_GT(raw["accuracy"], 0.9);
}

}  // namespace

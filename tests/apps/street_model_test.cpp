// The bundled model holds what models/README.md says of it.
#include <gtest/gtest.h>

#include <cstdlib>

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
  EXPECT_GT(scores["accuracy"], 0.85) << scores.dump(1);
  EXPECT_GT(scores["miou"], 0.7) << scores.dump(1);
}

TEST(StreetModel, LabelsRealScansOfTwoSensors) {
  const std::filesystem::path scans = shared_folder() / "data/labelled";
  if (!std::filesystem::is_directory(scans)) GTEST_SKIP() << scans << " is missing";
  const Json scores = eval(scans, {"--merge", (kSource / "models/merged_seven.json").string()});
  EXPECT_GE(scores["accuracy"], 0.9);
  EXPECT_GE(scores["miou"], 0.5);
  for (const auto& [name, least] : std::map<std::string, double>{
           {"ground", 0.9}, {"structure", 0.65}, {"vegetation", 0.65}, {"vehicle", 0.65}}) {
    for (const Json& one : scores["classes"]) {
      if (one["name"] == name) {
        EXPECT_GE(one["iou"], least) << name;
      }
    }
  }
}

}  // namespace

// Inputs of the fuzz targets that once broke something (fuzz/findings): a description or one error
// line, in bounded time and memory.
#include <gtest/gtest.h>

#include "gemm_core/base/sanitizers.hpp"
#include "tests/apps/command_line.hpp"

using namespace command_line;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> findings() {
  std::vector<fs::path> files;
  const fs::path folder = fs::path(SPARSECONV_SOURCE_DIR) / "fuzz/findings";
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().filename() != "README.md")
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void check(const std::vector<std::string>& words, const fs::path& file) {
  SCOPED_TRACE(words.front() + " " + file.string());
  const ProgramRun run = run_cli(words, {.give_up_after = std::chrono::seconds(60)});
  EXPECT_EQ(run.signal, 0) << run.err;
  if (!base::kIsSanitized) {
    EXPECT_LT(run.cpu_seconds, 3.5);
    EXPECT_LT(run.peak_bytes, std::int64_t{128} << 20);
  }
  const Json json = document(run);
  ASSERT_FALSE(json.is_discarded()) << run.out;
  ASSERT_EQ(json["files"].size() + json["errors"].size(), 1u) << run.out;
  EXPECT_EQ(run.exit_code, json["errors"].empty() ? 0 : 1);
  if (json["errors"].empty()) return;
  const std::string message = json["errors"][0]["message"];
  EXPECT_NE(message, "");
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_TRUE(contains(run.err, file.string() + ": " + message)) << run.err;
}

TEST(Findings, AreReadOrRefusedAndNeverEndTheProgram) {
  const ScratchFolder folder;
  const auto files = findings();
  ASSERT_FALSE(files.empty());
  for (const fs::path& file : files) {
    check({"info", file.string(), "--json"}, file);
    check({"voxelize", file.string(), "-o", folder.text("out.h5"), "--json"}, file);
  }
}

TEST(Findings, InABatchCostOnlyThemselves) {
  const ScratchFolder folder;
  write_scan(folder / "good.bin", spiral(30));
  std::vector<std::string> words{"info", "--json"};
  const auto files = findings();
  for (const fs::path& file : files) words.push_back(file.string());
  words.push_back(folder.text("good.bin"));
  const ProgramRun run = run_cli(words, {.give_up_after = std::chrono::seconds(120)});
  EXPECT_EQ(run.signal, 0) << run.err;
  const Json json = document(run);
  ASSERT_FALSE(json.is_discarded()) << run.out;
  EXPECT_EQ(json["files"].size() + json["errors"].size(), files.size() + 1);
  EXPECT_EQ(json["files"].back()["points"], 30);
}

}  // namespace

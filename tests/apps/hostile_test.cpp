// Files made to be wrong, through `info --json` and `voxelize --json`: a table (expect.json) beside
// them says what is right of each. The table is read when the test runs, so the same program serves
// other tables of the same form:
//   sparseconv_hostile_test --table data/hostile/expect.json      relative to the shared folder, or
//   absolute
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "gemm_core/base/sanitizers.hpp"
#include "io/hdf5_container.hpp"
#include "tests/apps/command_line.hpp"
#include "tests/support/shared_files.hpp"

using namespace command_line;
namespace fs = std::filesystem;

namespace {

std::string table_name = "data/hostile/expect.json";

constexpr double kMostCpuSeconds = 2;
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

struct Case {
  fs::path path;
  Json row;
  std::string expect() const { return row["expect"]; }
  bool has(const char* key) const { return row.contains(key); }
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Every entry of "message", each of which lists alternatives: "line 13|point 1|row 2".
testing::AssertionResult says(const std::string& text, const Json& wanted) {
  for (const std::string alternatives : wanted) {
    std::istringstream list(lower(alternatives));
    bool is_said = false;
    for (std::string word; std::getline(list, word, '|');)
      is_said = is_said || contains(lower(text), word);
    if (!is_said)
      return testing::AssertionFailure() << "\"" << alternatives << "\" is missing in: " << text;
  }
  return testing::AssertionSuccess();
}

void expect_near(const Json& got, const Json& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what << " " << got;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double value = wanted[i].get<double>();
    // float32 coordinates hold 7 digits; larger decimals in the table come from doubles.
    const double relative = std::abs(value) > 1e5 ? 1e-9 : 1e-6;
    ASSERT_TRUE(got[i].is_number()) << what << " " << got;
    EXPECT_NEAR(got[i].get<double>(), value, relative * std::max(1.0, std::abs(value)))
        << what << " " << i;
  }
}

void check_resources(const ProgramRun& run) {
  EXPECT_EQ(run.signal, 0) << "ended by a signal (or after the time limit)\n" << run.err;
  if (base::kIsSanitized) return;  // shadow memory is no memory of the reader's
  EXPECT_LT(run.cpu_seconds, kMostCpuSeconds);
  EXPECT_LT(run.peak_bytes, kMostBytes);
}

bool was_left_out_of_the_build(const ProgramRun& run) {
  return contains(run.err, "was built without");
}

void check_refusal(const ProgramRun& run, const Case& one) {
  EXPECT_EQ(run.exit_code, 1);
  const Json json = document(run);
  ASSERT_FALSE(json.is_discarded()) << run.out;
  EXPECT_EQ(json["files"], Json::array());
  ASSERT_EQ(json["errors"].size(), 1u);
  EXPECT_EQ(json["errors"][0]["path"], one.path.string());
  const std::string message = json["errors"][0]["message"];
  EXPECT_TRUE(contains(run.err, "sparseconv: " + one.path.string() + ": " + message)) << run.err;
  if (one.has("message")) {
    EXPECT_TRUE(says(message, one.row["message"]));
  }
}

// False where the file was refused, as it should or may be.
bool is_accepted(const ProgramRun& run, const Case& one) {
  check_resources(run);
  const bool is_refused = run.exit_code != 0;
  if (one.expect() == "error" || (one.expect() == "either" && is_refused)) {
    check_refusal(run, one);
    return false;
  }
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Json json = document(run);
  EXPECT_FALSE(json.is_discarded()) << run.out;
  if (is_refused || json.is_discarded()) return false;
  EXPECT_EQ(json["files"].size(), 1u);
  EXPECT_EQ(json["errors"], Json::array());
  return json["files"].size() == 1;
}

void check_info(const Case& one) {
  const ProgramRun run =
      run_cli({"info", one.path.string(), "--json"}, {.give_up_after = std::chrono::seconds(60)});
  if (was_left_out_of_the_build(run)) return;
  if (!is_accepted(run, one)) return;
  const Json file = document(run)["files"][0];
  EXPECT_EQ(file["path"], one.path.string());
  for (const char* key : {"points", "finite", "classes", "instances"}) {
    if (one.has(key)) {
      EXPECT_EQ(file[key], one.row[key]) << key;
    }
  }
  for (const char* key : {"first", "last"}) {
    if (one.has(key)) expect_near(file[key], one.row[key], key);
  }
  // What a range leaves is a matter of voxelize.
  if (one.expect() == "warn" && !one.has("range")) {
    EXPECT_TRUE(contains(run.err, "sparseconv: warning: " + one.path.string() + ": ")) << run.err;
    EXPECT_TRUE(says(run.err, one.row["message"]));
  }
}

std::string joined(const Json& numbers) {
  std::string text;
  for (const Json& number : numbers) text.append(text.empty() ? "" : ",").append(number.dump());
  return text;
}

// What the table says of the voxels themselves.
void check_voxel_file(const fs::path& path, const Case& one) {
  const io::Hdf5Reader file(path);
  const auto coordinates = file.read<std::int32_t>("/coordinates");
  const auto features = file.read<float>("/features");
  const std::size_t rows = coordinates.size() / 4, channels = rows > 0 ? features.size() / rows : 0;
  const auto point_to_voxel = file.read<std::int64_t>("/point_to_voxel");
  const auto row_of = [&](std::size_t point) {
    return static_cast<std::size_t>(point_to_voxel.at(point));
  };
  if (one.has("voxel_index_x")) {
    for (std::size_t i = 0; i < point_to_voxel.size(); ++i) {
      EXPECT_EQ(coordinates.at(4 * row_of(i) + 1), one.row["voxel_index_x"][i]) << "point " << i;
    }
  }
  if (one.has("grid")) {
    for (std::size_t i = 0; i < coordinates.size(); ++i) {
      if (i % 4 == 0) continue;
      EXPECT_GE(coordinates[i], 0);
      EXPECT_LT(coordinates[i], one.row["grid"][i % 4 - 1].get<int>());
    }
  }
  if (one.has("counts")) {
    Json counts = std::vector<int>(rows, 0);
    for (std::size_t i = 0; i < point_to_voxel.size(); ++i)
      counts[row_of(i)] = counts[row_of(i)].get<int>() + 1;
    std::sort(counts.begin(), counts.end(), std::greater<>());
    EXPECT_EQ(counts, one.row["counts"]);
  }
  for (const char* key : {"mean", "mean_intensity"}) {  // of the fourth column, one a voxel
    if (!one.has(key)) continue;
    std::vector<double> means;
    for (std::size_t row = 0; row < rows; ++row) means.push_back(features.at(row * channels + 3));
    std::sort(means.begin(), means.end(), std::greater<>());
    const Json wanted = one.row[key].is_array() ? one.row[key] : Json::array({one.row[key]});
    EXPECT_EQ(Json(means), wanted.get<std::vector<double>>());
  }
}

void check_voxelize(const Case& one) {
  const ScratchFolder folder;
  const fs::path output = folder / "out.h5";
  std::vector<std::string> words{"voxelize", one.path.string(), "-o", output.string(), "--json"};
  if (one.has("voxel_size"))
    words.insert(words.end(), {"--voxel-size", joined(one.row["voxel_size"])});
  if (one.has("range")) words.insert(words.end(), {"--range", joined(one.row["range"])});
  const ProgramRun run = run_cli(words, {.give_up_after = std::chrono::seconds(60)});
  if (was_left_out_of_the_build(run)) return;
  if (!is_accepted(run, one)) {
    EXPECT_FALSE(fs::exists(output));
    return;
  }
  const Json file = document(run)["files"][0];
  for (const char* key : {"points", "voxels"}) {
    if (one.has(key)) {
      EXPECT_EQ(file[key], one.row[key]) << key;
    }
  }
  // Points that have no place become no voxels.
  if (one.has("finite")) {
    EXPECT_GE(file["dropped"].get<std::int64_t>(),
              file["points"].get<std::int64_t>() - one.row["finite"].get<std::int64_t>());
  }
  EXPECT_EQ(file["output"], output.string());
  EXPECT_TRUE(fs::exists(output));
  if (one.expect() == "warn") {
    EXPECT_TRUE(says(run.err, one.row["message"]));
  }
  if (fs::exists(output)) check_voxel_file(output, one);
}

class Hostile : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path table = test_support::shared_folder() / table_name;
    if (!fs::exists(table)) GTEST_SKIP() << "no table " << table;
    std::ifstream file(table);
    for (const Json& row : Json::parse(file))
      cases_.push_back({table.parent_path() / row["file"].get<std::string>(), row});
    ASSERT_FALSE(cases_.empty()) << table << " lists nothing";
  }
  std::vector<Case> cases_;
};

TEST_F(Hostile, InfoGivesTheFiguresOrTheReason) {
  for (const Case& one : cases_) {
    SCOPED_TRACE(one.path.string());
    check_info(one);
  }
}

TEST_F(Hostile, VoxelizeGivesTheVoxelsOrTheReason) {
  for (const Case& one : cases_) {
    SCOPED_TRACE(one.path.string());
    check_voxelize(one);
  }
}

TEST_F(Hostile, InOneBatchEachBadFileIsNamedAndTheOthersComeOut) {
  std::vector<std::string> words{"info", "--json"};
  std::size_t most_good = 0, least_good = 0;
  for (const Case& one : cases_) {
    words.push_back(one.path.string());
    most_good += one.expect() != "error";
    least_good += one.expect() == "accept" || one.expect() == "warn";
  }
  const ProgramRun run = run_cli(words);
  check_resources(run);
  const Json json = document(run);
  ASSERT_FALSE(json.is_discarded());
  std::size_t left_out = 0;
  for (const Json& error : json["errors"])
    left_out += contains(error["message"], "was built without");
  EXPECT_EQ(json["files"].size() + json["errors"].size(), cases_.size());
  EXPECT_LE(json["files"].size(), most_good);
  EXPECT_GE(json["files"].size() + left_out, least_good);
  EXPECT_EQ(run.exit_code, json["errors"].empty() ? 0 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) != "--table" || i + 1 == argc) {
      std::cerr << "usage: " << argv[0] << " [--table EXPECT.json]\n";
      return 2;
    }
    table_name = argv[++i];
  }
  return RUN_ALL_TESTS();
}

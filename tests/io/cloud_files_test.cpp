// Shared files of known content: hostile ones with what is right in expect.json, real ones with
// their facts in MANIFEST.md. Both are read when the test runs; other folders of the same form work
// as well. One ctest test a folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "io/format.hpp"
#include "io/io.h"
#include "tests/io/manifest_fields.hpp"
#include "tests/support/shared_files.hpp"

namespace {

using Json = nlohmann::json;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(separator, begin)) != std::string::npos;
       begin = at + separator.size()) {
    parts.push_back(text.substr(begin, at - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// "a|b" is one of them, in any case.
bool holds(const std::string& message, const std::string& wanted) {
  for (const std::string& word : split(wanted, "|")) {
    if (lower(message).find(lower(word)) != std::string::npos) return true;
  }
  return false;
}

std::string missing_words(const Json& entry, const std::string& message) {
  std::string missing;
  for (const auto& wanted : entry.value("message", Json::array())) {
    if (!holds(message, wanted.get<std::string>())) missing += " " + wanted.get<std::string>();
  }
  return missing;
}

bool is_close(double expected, double got, bool is_double) {
  return std::fabs(expected - got) <=
         (is_double ? 1e-9 : 1e-6) * std::max(1.0, std::fabs(expected));
}

// "" when the cloud is as the entry says.
std::string difference(const Json& entry, const io::Cloud& cloud) {
  std::ostringstream out;
  if (entry.contains("points") && cloud.size() != entry["points"])
    out << "points " << cloud.size() << "; ";
  const std::int64_t finite = cloud.finite_points();
  if (entry.contains("finite") && finite != entry["finite"]) out << "finite " << finite << "; ";
  const auto check = [&](const char* key, std::int64_t point) {
    if (!entry.contains(key)) return;
    for (std::size_t a = 0; a < 3; ++a) {
      const io::Column& column = cloud.get(std::string(1, "xyz"[a]));
      const double got = column.at(point);
      if (!is_close(entry[key][a], got, column.field.type == base::DType::f64))
        out << key << " "
            << "xyz"[a] << " " << got << "; ";
    }
  };
  std::int64_t first = 0, last = cloud.size() - 1;
  while (first < cloud.size() && !cloud.is_finite(first)) ++first;
  while (last >= 0 && !cloud.is_finite(last)) --last;
  if (first < cloud.size()) {
    check("first", first);
    check("last", last);
  } else if (entry.contains("first")) {
    out << "no finite point; ";
  }
  for (const auto& [key, field] :
       std::map<std::string, std::string>{{"classes", "label"}, {"instances", "instance"}}) {
    if (!entry.contains(key)) continue;
    for (std::size_t i = 0; i < entry[key].size(); ++i) {
      if (cloud.get(field).at(static_cast<std::int64_t>(i)) != entry[key][i])
        out << key << "[" << i << "]; ";
    }
  }
  return out.str();
}

// Formats that this build may lack say so in an error; what a file is then expected to give reduces
// to that.
bool lacks_support(const std::string& message) {
  return message.find("was built without") != std::string::npos;
}

// What the reader said: the cloud, or the message of its error.
struct Outcome {
  std::optional<io::Cloud> cloud;
  std::string message;
};

Outcome read_file(const std::filesystem::path& path) {
  Outcome outcome;
  try {
    outcome.cloud = io::read(path);
    for (const std::string& warning : outcome.cloud->warnings) outcome.message += warning + "\n";
  } catch (const base::Error& error) {
    outcome.message = error.what();
  }
  return outcome;
}

std::string judge(const Json& entry, const Outcome& outcome) {
  if (!outcome.cloud && lacks_support(outcome.message)) return "";
  const std::string expected = entry["expect"], missing = missing_words(entry, outcome.message);
  if (!outcome.cloud) {
    if (expected != "error" && expected != "either") return "refused: " + outcome.message;
    return missing.empty() ? "" : "the message lacks" + missing + ": " + outcome.message;
  }
  if (expected == "error") return "accepted, " + std::to_string(outcome.cloud->size()) + " points";
  const std::string wrong = difference(entry, *outcome.cloud);
  if (!wrong.empty()) return wrong;
  // Words about voxels belong to voxelize, not to reading.
  if (expected == "warn" && !entry.contains("voxels") && !missing.empty())
    return "no warning with" + missing;
  return "";
}

TEST(HostileFiles, AreJudgedAsExpected) {
  REQUIRE_SHARED(folder, "data/hostile");
  std::ifstream in(folder / "expect.json");
  const Json entries = Json::parse(in);
  ASSERT_FALSE(entries.empty());
  for (const Json& entry : entries) {
    const std::string name = entry["file"];
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = read_file(folder / name);
    EXPECT_EQ(judge(entry, outcome), "") << name << ": " << entry.value("note", "");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2)) << name;
    EXPECT_EQ(outcome.message.find((folder / name).string()), std::string::npos)
        << "repeats its own path: " << outcome.message;
  }
}

// A row of the manifest's table by column name.
using Row = std::map<std::string, std::string>;

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" `");
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(" `") - begin + 1);
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells{""};
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|')
      cells.back() += line[++i];
    else if (line[i] == '|')
      cells.emplace_back();
    else
      cells.back() += line[i];
  }
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

std::vector<Row> manifest_rows(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<Row> rows;
  std::vector<std::string> header;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("| file |"))
      header = cells_of(line);
    else if (!line.starts_with("| `") || header.empty())
      header = line.starts_with("| ---") ? header : std::vector<std::string>{};
    else {
      const auto cells = cells_of(line);
      Row row;
      for (std::size_t i = 0; i < std::min(cells.size(), header.size()); ++i)
        row[header[i]] = cells[i];
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Files whose bare reading is an error, or a choice: their row says so in words.
bool may_be_refused(const Row& row) {
  const std::string purpose = row.at("what it is for");
  for (const char* word : {"BROKEN", "TRUNCATED", "error", "refuse", "not a point cloud", "no z"}) {
    if (purpose.find(word) != std::string::npos) return true;
  }
  return false;
}

void check_bounds(const Row& row, const io::Cloud& cloud) {
  const auto bounds = cloud.bounds();
  for (const bool is_min : {true, false}) {
    std::istringstream words(row.at(is_min ? "min x y z" : "max x y z"));
    std::vector<double> values;
    for (double value; words >> value;) values.push_back(value);
    if (values.size() != 3) continue;
    ASSERT_TRUE(bounds.has_value()) << row.at("file");
    for (std::size_t a = 0; a < 3; ++a) {
      const auto& column = cloud.get(std::string(1, "xyz"[a]));
      // The table has nine digits or more.
      const double tolerance = (column.field.type == base::DType::f64 ? 5e-9 : 1e-6) *
                               std::max(1.0, std::fabs(values[a]));
      EXPECT_NEAR((is_min ? bounds->min : bounds->max)[a], values[a], tolerance)
          << row.at("file") << " "
          << "xyz"[a];
    }
  }
}

std::string folder_of(const Row& row) {
  const std::string& file = row.at("file");
  return file.substr(0, file.find('/'));
}

void check_fields(const Row& row, const io::Cloud& cloud) {
  const auto expected =
      test_support::manifest_fields(folder_of(row), row.at("format"), row.at("fields"));
  SCOPED_TRACE(row.at("file") + ": " + row.at("fields"));
  for (const std::string& name : expected.some) EXPECT_NE(cloud.find(name), nullptr) << name;
  for (const std::string& name : expected.absent) EXPECT_EQ(cloud.find(name), nullptr) << name;
  if (expected.columns >= 0) {
    EXPECT_EQ(cloud.columns().size(), static_cast<std::size_t>(expected.columns));
  }
  if (expected.all.empty()) return;
  if (row.at("fields").ends_with("...")) {
    ASSERT_GT(cloud.columns().size(), expected.all.size()) << "the row lists the first ones";
  } else {
    ASSERT_EQ(cloud.columns().size(), expected.all.size());
  }
  for (std::size_t i = 0; i < expected.all.size(); ++i) {
    const io::Field& field = cloud.columns()[i]->field;
    EXPECT_EQ(field.name, expected.all[i].name) << "field " << i;
    EXPECT_EQ(std::string(base::name(field.type)), expected.all[i].type) << field.name;
    EXPECT_EQ(field.count, expected.all[i].count) << field.name;
  }
}

// E57 figures in the table are before the pose, spherical ones are angles: their clouds differ on
// purpose.
bool has_other_bounds(const Row& row) {
  return row.at("format").find("pose") != std::string::npos ||
         row.at("fields").find("spherical") != std::string::npos;
}

void check_real_file(const std::filesystem::path& folder, const Row& row) {
  const std::string& name = row.at("file");
  Outcome outcome = read_file(folder / name);
  if (!outcome.cloud && lacks_support(outcome.message)) return;
  if (!outcome.cloud && outcome.message.find("--transpose") != std::string::npos) {
    EXPECT_TRUE(may_be_refused(row)) << name << ": " << outcome.message;
    outcome.cloud = io::read(folder / name, {.transpose = true});
  }
  if (!outcome.cloud) {
    EXPECT_TRUE(may_be_refused(row)) << name << ": " << outcome.message;
    return;
  }
  const std::string points = row.at("points");
  std::int64_t expected = 0;
  if (std::from_chars(points.data(), points.data() + points.size(), expected).ptr ==
          points.data() + points.size() &&
      !points.empty()) {
    EXPECT_EQ(outcome.cloud->size(), expected) << name;
  }
  const std::string non_finite = row.at("non-finite");
  if (!non_finite.empty() && non_finite != "-") {
    EXPECT_EQ(std::to_string(outcome.cloud->size() - outcome.cloud->finite_points()), non_finite)
        << name;
  }
  if (!has_other_bounds(row)) check_bounds(row, *outcome.cloud);
  check_fields(row, *outcome.cloud);
}

class RealFiles : public testing::TestWithParam<const char*> {};

TEST_P(RealFiles, HaveTheFactsOfTheManifest) {
  REQUIRE_SHARED(folder, std::filesystem::path("data"));
  REQUIRE_SHARED(manifest, "data/MANIFEST.md");
  int files = 0;
  for (const Row& row : manifest_rows(manifest)) {
    if (!row.at("file").starts_with(std::string(GetParam()) + "/")) continue;
    ++files;
    check_real_file(folder, row);
  }
  EXPECT_GT(files, 0) << "no row for " << GetParam();
}

const std::vector<const char*> kFolders{"e57", "hdf5",     "kitti", "las", "laz",           "npy",
                                        "npz", "nuscenes", "pcd",   "ply", "semantickitti", "text"};

TEST(RealFiles, HaveARowEachInAFolderThatIsTested) {
  REQUIRE_SHARED(data, std::filesystem::path("data"));
  REQUIRE_SHARED(manifest, "data/MANIFEST.md");
  std::set<std::string> listed, there;
  for (const Row& row : manifest_rows(manifest)) {
    EXPECT_TRUE(std::ranges::find(kFolders, folder_of(row)) != kFolders.end()) << row.at("file");
    listed.insert(row.at("file"));
  }
  for (const char* folder : kFolders) {
    for (const auto& entry : std::filesystem::directory_iterator(data / folder))
      there.insert(std::string(folder) + "/" + entry.path().filename().string());
  }
  EXPECT_EQ(listed, there);
  EXPECT_FALSE(listed.empty());
}

INSTANTIATE_TEST_SUITE_P(Folders, RealFiles, testing::ValuesIn(kFolders),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace

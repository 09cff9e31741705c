// What the end-to-end tests of the command line share.
#pragma once
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/run_program.hpp"
#include "tests/support/scratch_folder.hpp"

namespace command_line {

using Json = nlohmann::json;
using test_support::ProgramOptions, test_support::ProgramRun, test_support::ScratchFolder;

inline ProgramRun run_cli(std::vector<std::string> words, const ProgramOptions& options = {}) {
  words.insert(words.begin(), SPARSECONV_PROGRAM);
  return test_support::run_program(words, options);
}

// Discarded (is_discarded()) where the text is no JSON.
inline Json document(const ProgramRun& run) { return Json::parse(run.out, nullptr, false); }

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A scan in KITTI's layout: x y z intensity, float32.
inline void write_scan(const std::filesystem::path& path,
                       const std::vector<std::array<float, 4>>& points) {
  write_bytes(path,
              {reinterpret_cast<const char*>(points.data()), points.size() * sizeof points[0]});
}

// `count` points on a spiral with `phase`: no two in one voxel of 0.1 m.
inline std::vector<std::array<float, 4>> spiral(int count, float phase = 0) {
  std::vector<std::array<float, 4>> points;
  for (int i = 0; i < count; ++i) {
    const float t = static_cast<float>(i);
    points.push_back({1.0f + 0.25f * t + phase, 0.05f + 0.5f * static_cast<float>(i % 7),
                      0.05f + 0.25f * static_cast<float>(i % 3), 0.5f});
  }
  return points;
}

// Names in a folder that are not hidden, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.')) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace command_line

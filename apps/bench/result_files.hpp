// Results of a benchmark as CSV and JUnit files. Each appears whole or not at all.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace apps {

struct TimedCase {
  std::string name;  // of the problem
  std::string config;
  double median_ms = 0, min_ms = 0, gflops = 0, estimate_ms = 0;
  bool verified = false;
  double error = 0;     // in units of its bound
  std::string failure;  // empty: none
};

void write_csv(const std::filesystem::path& path, const std::vector<TimedCase>& cases);
void write_junit(const std::filesystem::path& path, const std::string& suite,
                 const std::vector<TimedCase>& cases);

}  // namespace apps

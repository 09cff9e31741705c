#include "apps/bench/result_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "gemm_core/base/error.hpp"

namespace apps {
namespace {

void write_whole(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path part = path;
  part += ".part";
  {
    std::ofstream file(part, std::ios::binary);
    file << text;
    file.flush();
    ENSURE(file.good(), part.string(), ": cannot be written");
  }
  std::filesystem::rename(part, path);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
        break;
    }
  }
  return out;
}

}  // namespace

void write_csv(const std::filesystem::path& path, const std::vector<TimedCase>& cases) {
  std::string text = "name,config,median_ms,min_ms,gflops,estimate_ms,verified,error,failure\n";
  for (const TimedCase& c : cases) {
    text += fmt::format("{},{},{:.6f},{:.6f},{:.3f},{:.6f},{},{:.4g},\"{}\"\n", c.name, c.config,
                        c.median_ms, c.min_ms, c.gflops, c.estimate_ms, c.verified ? "yes" : "no",
                        c.error, c.failure);
  }
  write_whole(path, text);
}

void write_junit(const std::filesystem::path& path, const std::string& suite,
                 const std::vector<TimedCase>& cases) {
  const auto failures = std::count_if(cases.begin(), cases.end(),
                                      [](const TimedCase& c) { return !c.failure.empty(); });
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" "
      "failures=\"{}\">\n",
      escaped(suite), cases.size(), failures);
  for (const TimedCase& c : cases) {
    text += fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{:.9f}\"", escaped(c.name),
                        escaped(c.config), c.median_ms * 1e-3);
    text += c.failure.empty() ? "/>\n"
                              : fmt::format(">\n    <failure message=\"{}\"/>\n  </testcase>\n",
                                            escaped(c.failure));
  }
  write_whole(path, text + "</testsuite>\n");
}

}  // namespace apps

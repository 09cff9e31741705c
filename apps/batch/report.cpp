#include "apps/batch/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "apps/command.hpp"
#include "apps/messages.hpp"

namespace apps {

void BatchReport::skipped(const std::filesystem::path& input, const std::filesystem::path& output) {
  skipped_.push_back({{"path", text_of(input)}, {"output", text_of(output)}});
}

void BatchReport::failed(const std::string& input, const std::string& message) {
  report_error(input, message);
  errors_.push_back({{"path", input}, {"message", message}});
}

void BatchReport::failed(const std::vector<InputFailure>& failures) {
  for (const InputFailure& failure : failures) failed(failure.path, failure.message);
}

int BatchReport::close() const {
  const std::size_t count = files_.size() + errors_.size() + skipped_.size();
  if (count > 1 || !stop_reason_.empty()) {
    std::string line = fmt::format("{}: {} done, {} skipped, {} failed", command_, files_.size(),
                                   skipped_.size(), errors_.size());
    if (!stop_reason_.empty())
      line += fmt::format(", {} not reached ({})", files_left_, stop_reason_);
    report_note(line);
  }
  return errors_.empty() && stop_reason_.empty() ? kDone : kSomeFailed;
}

Json BatchReport::document() const {
  Json document{{"files", files_}, {"errors", errors_}};
  if (!skipped_.empty()) document["skipped"] = skipped_;
  if (!stop_reason_.empty()) {
    document["stopped"] = {{"reason", stop_reason_}, {"files_left", files_left_}};
  }
  return document;
}

void report_warnings(const std::filesystem::path& file, const std::vector<std::string>& first,
                     const std::vector<std::string>& second) {
  for (const std::string& line : first) report_warning(text_of(file), line);
  for (const std::string& line : second) {
    if (std::ranges::find(first, line) == first.end()) report_warning(text_of(file), line);
  }
}

bool is_output_full(const std::filesystem::path& path, const std::string& message) {
  for (const int code : {ENOSPC, EFBIG, EDQUOT}) {
    if (message.find(std::strerror(code)) != std::string::npos) return true;
  }
  // Messages of libraries may not say why, but a volume without a free block does.
  std::error_code error;
  const auto space =
      std::filesystem::space(path.has_parent_path() ? path.parent_path() : ".", error);
  return !error && space.available < 4096;
}

}  // namespace apps

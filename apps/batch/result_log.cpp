#include "apps/batch/result_log.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "apps/results.hpp"
#include "gemm_core/base/error.hpp"

namespace apps {
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kFnvStart = 0xcbf29ce484222325ull, kFnvPrime = 0x100000001b3ull;

std::uint64_t fnv(std::uint64_t hash, std::string_view bytes) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * kFnvPrime;
  return hash;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// JSON cannot hold every file name, so names that are no UTF-8 are kept as their digest.
std::string key_of_name(const std::string& name) {
  const bool is_ascii =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c < 127; });
  return is_ascii ? name : "digest:" + digest(name);
}

}  // namespace

std::string digest(std::string_view bytes) { return fmt::format("{:016x}", fnv(kFnvStart, bytes)); }

std::string file_digest(const fs::path& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  ENSURE(file, "cannot be opened: ", std::strerror(errno));
  std::vector<char> block(1 << 20);
  std::uint64_t hash = kFnvStart;
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
    hash = fnv(hash, {block.data(), got});
  }
  ENSURE(!std::ferror(file.get()), "cannot be read: ", std::strerror(errno));
  return fmt::format("{:016x}", hash);
}

std::string file_stamp(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return "";
  return fmt::format("{} {}.{:09}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

ResultLog::ResultLog(fs::path folder)
    : folder_(std::move(folder)), path_(folder_ / ".sparseconv-run.jsonl") {
  std::error_code error;
  real_folder_ = fs::weakly_canonical(folder_, error);
  std::ifstream lines(path_, std::ios::binary);
  for (std::string line; std::getline(lines, line);) {
    const Json entry = Json::parse(line, nullptr, false);
    if (!entry.is_object()) continue;
    const auto text = [&](const char* name) {
      const auto found = entry.find(name);
      return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    entries_[text("result")] = {text("stamp"), text("signature")};
  }
}

std::string ResultLog::key(const fs::path& result) const {
  return key_of_name(result.lexically_relative(folder_).string());
}

bool ResultLog::knows(const fs::path& file) const {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(file, error);
  return !error && entries_.contains(key_of_name(real.lexically_relative(real_folder_).string()));
}

bool ResultLog::has(const fs::path& result, const std::string& signature) const {
  const auto found = entries_.find(key(result));
  return found != entries_.end() && found->second.signature == signature &&
         found->second.stamp == file_stamp(result) && !found->second.stamp.empty();
}

void ResultLog::add(const fs::path& result, const std::string& signature) {
  const Entry entry{file_stamp(result), signature};
  const Json json{{"result", key(result)}, {"stamp", entry.stamp}, {"signature", signature}};
  // The line break comes first, so that a line cut short by a crash does not spoil this one.
  const std::string line = '\n' + json.dump();
  const File file(std::fopen(path_.c_str(), "ab"));
  ENSURE(file && std::fwrite(line.data(), 1, line.size(), file.get()) == line.size() &&
             std::fflush(file.get()) == 0,
         text_of(path_), ": cannot be written: ", std::strerror(errno));
  entries_[key(result)] = entry;
}

}  // namespace apps

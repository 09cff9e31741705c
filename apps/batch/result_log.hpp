// Which results of a folder are complete and how they were made: one line of JSON a result,
// appended once the result has its final name, in FOLDER/.sparseconv-run.jsonl. `--resume` trusts a
// result only while its size and time are those of the line and its signature is the one asked for.
// A line cut short by a crash is ignored; that result is made again.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace apps {

// 64-bit FNV-1a as hex: to notice a change, not to resist an attacker.
std::string digest(std::string_view bytes);
std::string file_digest(const std::filesystem::path& path);
// Size and time of a file as text; part of a signature, so that a changed input is done again.
std::string file_stamp(const std::filesystem::path& path);

class ResultLog {
 public:
  explicit ResultLog(std::filesystem::path folder);
  bool has(const std::filesystem::path& result, const std::string& signature) const;
  void add(const std::filesystem::path& result,
           const std::string& signature);  // Error names the log
  // Whether a line is about this file, however its path is written and whatever it holds by now.
  bool knows(const std::filesystem::path& file) const;

 private:
  struct Entry {
    std::string stamp, signature;
  };
  std::string key(const std::filesystem::path& result) const;

  std::filesystem::path folder_, real_folder_, path_;
  std::map<std::string, Entry> entries_;
};

}  // namespace apps

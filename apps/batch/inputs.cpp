#include "apps/batch/inputs.hpp"

#include <glob.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "apps/batch/result_log.hpp"
#include "apps/command.hpp"
#include "io/io.h"

namespace apps {
namespace fs = std::filesystem;

namespace {

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return text;
}

const std::set<std::string>& scan_extensions() {
  static const std::set<std::string> extensions = [] {
    std::set<std::string> all{".h5", ".hdf5"};  // voxel files
    for (const io::FormatInfo& format : io::formats()) {
      all.insert(format.extensions.begin(), format.extensions.end());
    }
    all.erase(".label");
    return all;
  }();
  return extensions;
}

// Text files of data sets that are no scans although their numbers could be read as points.
bool is_beside_scans(const std::string& name) {
  static const std::set<std::string> names{"calib.txt",  "poses.txt",  "times.txt",
                                           "readme.txt", "labels.txt", "license.txt",
                                           "train.txt",  "val.txt",    "test.txt"};
  return names.contains(lower_case(name));
}

bool is_scan_name(const fs::path& path) {
  const std::string name = path.filename().string();
  return !name.starts_with('.') && !is_beside_scans(name) &&
         scan_extensions().contains(lower_case(path.extension().string()));
}

// A link to nothing, or to itself: a scan that is missing.
bool leads_nowhere(const fs::path& entry) {
  std::error_code error;
  return fs::is_symlink(entry, error) && !fs::exists(entry, error);
}

// `above` holds the real paths of the folders on the way down, so that a link to one of them ends
// the search there.
void search(const fs::path& folder, const fs::path& relative, const ResultLog* results,
            std::vector<fs::path>& above, Inputs& inputs) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (std::ranges::find(above, real) != above.end()) return;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) {
    inputs.failures.push_back({folder.string(), "cannot be searched: " + error.message()});
    return;
  }
  // A folder that may be listed, but not entered.
  if (!entries.empty() &&
      fs::symlink_status(entries.front(), error).type() == fs::file_type::none) {
    inputs.failures.push_back({folder.string(), "cannot be searched: " + error.message()});
    return;
  }
  std::ranges::sort(entries);
  above.push_back(real);
  for (const fs::path& entry : entries) {
    const fs::path name = entry.filename();
    if (fs::is_directory(entry, error)) {
      if (!name.string().starts_with('.')) search(entry, relative / name, results, above, inputs);
    } else if (is_scan_name(entry) && fs::is_regular_file(entry, error) &&
               !(results && results->knows(entry))) {
      inputs.files.push_back({entry, relative / name});
    } else if (is_scan_name(entry) && leads_nowhere(entry)) {
      inputs.failures.push_back({entry.string(), "a link that leads to no file"});
    }
  }
  above.pop_back();
}

void add_name(const fs::path& name, const ResultLog* results, Inputs& inputs) {
  std::error_code error;
  if (!fs::is_directory(name, error)) {
    inputs.files.push_back({name, name.filename()});
    return;
  }
  const std::size_t files = inputs.files.size(), failures = inputs.failures.size();
  std::vector<fs::path> above;
  search(name, {}, results, above, inputs);
  if (inputs.files.size() == files && inputs.failures.size() == failures) {
    inputs.failures.push_back({name.string(), "the folder holds no file of a known format"});
  }
}

std::vector<fs::path> expand(const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  return error ? path.lexically_normal() : real;
}

void drop_repeated(std::vector<InputFile>& files) {
  std::set<std::pair<fs::path, fs::path>> seen;
  std::erase_if(files, [&](const InputFile& file) {
    return !seen.emplace(real_path(file.path), file.relative).second;
  });
}

}  // namespace

Inputs find_inputs(const std::vector<std::string>& names, const fs::path& results) {
  Inputs inputs;
  std::optional<ResultLog> log;
  if (!results.empty()) log.emplace(results);
  const ResultLog* const known = log ? &*log : nullptr;
  for (const std::string& name : names) {
    std::error_code error;
    const bool exists = fs::symlink_status(name, error).type() != fs::file_type::not_found;
    if (exists || name.find_first_of("*?[") == std::string::npos) {
      add_name(name, known, inputs);
      continue;
    }
    const std::vector<fs::path> matches = expand(name);
    if (matches.empty()) inputs.failures.push_back({name, "no file matches this pattern"});
    for (const fs::path& match : matches) add_name(match, known, inputs);
  }
  drop_repeated(inputs.files);
  std::error_code error;
  inputs.is_one_file =
      names.size() == 1 && inputs.files.size() == 1 && inputs.files[0].path == fs::path(names[0]);
  return inputs;
}

std::vector<fs::path> result_paths(const std::vector<InputFile>& files, const fs::path& folder,
                                   const std::string& extension,
                                   const std::vector<fs::path>& kept) {
  std::set<fs::path> never_written;
  for (const InputFile& file : files) never_written.insert(real_path(file.path));
  for (const fs::path& path : kept) never_written.insert(real_path(path));
  std::map<fs::path, fs::path> made_from;
  std::vector<fs::path> results;
  for (const InputFile& file : files) {
    fs::path result = folder / file.relative;
    result.replace_extension(extension);
    const fs::path real = real_path(result);
    ENSURE_USAGE(!never_written.contains(real), "the result of ", file.path.string(),
                 " would overwrite the input ", result.string());
    const auto [earlier, is_new] = made_from.emplace(real, file.path);
    ENSURE_USAGE(is_new, "the results of ", earlier->second.string(), " and ", file.path.string(),
                 " would both be ", result.string());
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace apps

#include <algorithm>

#include "io/format.hpp"

namespace io {
namespace {

std::string lower_name(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return name;
}

}  // namespace

// The one list of formats. A new format: its file in formats/, its name here and in format.hpp.
std::span<const Format> registry() {
  static const std::vector<Format> formats{kKittiFormat, kNuscenesFormat, kLabelFormat, kPcdFormat,
                                           kPlyFormat,   kLasFormat,      kLazFormat,   kE57Format,
                                           kNpyFormat,   kNpzFormat,      kHdf5Format,  kTextFormat,
                                           kPtsFormat,   kPtxFormat};
  return formats;
}

const Format* find_format(std::string_view name) {
  for (const Format& format : registry()) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

const Format* format_of_extension(const std::filesystem::path& path) {
  const std::string name = lower_name(path);
  const Format* best = nullptr;
  std::size_t length = 0;
  for (const Format& format : registry()) {
    for (const std::string_view extension : format.extensions) {
      if (extension.size() > length && name.ends_with(extension)) {
        best = &format;
        length = extension.size();
      }
    }
  }
  return best;
}

const Format* detect_format(const Source& source) {
  for (const Format& format : registry()) {
    if (format.recognises != nullptr && format.recognises(source.head())) return &format;
  }
  return format_of_extension(source.path());
}

std::vector<FormatInfo> formats() {
  std::vector<FormatInfo> result;
  for (const Format& format : registry()) {
    result.push_back({.name = std::string(format.name),
                      .extensions = {format.extensions.begin(), format.extensions.end()},
                      .readable = format.read != nullptr && format.is_built_in,
                      .writable = (format.write != nullptr || format.write_file != nullptr) &&
                                  format.is_built_in,
                      .notes = std::string(format.notes)});
  }
  return result;
}

std::string formats_table() {
  std::string table =
      "| format | extensions | read | write | held beside the cloud | notes |\n| --- | --- | --- | "
      "--- | --- | --- |\n";
  for (const Format& format : registry()) {
    std::string extensions;
    for (const auto extension : format.extensions)
      extensions += (extensions.empty() ? "`" : ", `") + std::string(extension) + "`";
    const bool writable = format.write != nullptr || format.write_file != nullptr;
    const std::string reads = format.read == nullptr   ? "no"
                              : format.library.empty() ? "yes"
                                                       : base::concat("with ", format.library);
    table += "| " + std::string(format.name) + " | " + extensions + " | " + reads + " | " +
             (writable ? "yes" : "no") + " | " + std::string(format.reading) + " | " +
             std::string(format.notes) + " |\n";
  }
  return table;
}

}  // namespace io

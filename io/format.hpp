// What a file format is to the rest of the library. Each format has one file in io/formats/ and one
// line in registry.cpp; the tests walk the registry and ask for what every format must do.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/io.h"
#include "io/sink.hpp"
#include "io/source.hpp"

namespace io {

struct Format {
  std::string_view name;
  std::vector<std::string_view> extensions;  // lower case, with the dot; the longest match wins
  bool (*recognises)(std::string_view head) =
      nullptr;  // by the first bytes; null: by extension only
  Cloud (*read)(const Source&, const ReadOptions&) = nullptr;
  // Writes into the sink, returns what the format cannot hold.
  std::vector<std::string> (*write)(Sink&, const Cloud&, const WriteOptions&) = nullptr;
  // For formats whose library opens files by itself; used instead of `write`.
  std::vector<std::string> (*write_file)(const std::filesystem::path&, const Cloud&,
                                         const WriteOptions&) = nullptr;
  std::string_view reading;       // "streamed", or how much is held beside the cloud
  bool is_built_in = true;        // false: reading and writing only say what this build lacks
  std::string_view library = {};  // that reading needs; without it files are refused by name
  std::string_view notes;
  bool has_header = true;        // zero bytes are an error; otherwise zero points
  bool writes_positions = true;  // a cloud without x, y, z cannot be written
};

std::span<const Format> registry();
const Format* find_format(std::string_view name);
// By content first, then by extension; null when neither tells.
const Format* detect_format(const Source& source);
const Format* format_of_extension(const std::filesystem::path& path);

// What read() does once the bytes are there; fuzz targets and tests call it on memory.
Cloud read_source(const Source& source, const ReadOptions& options);

// The registry as the table in docs/formats.md.
std::string formats_table();

extern const Format kKittiFormat, kNuscenesFormat, kLabelFormat, kPcdFormat, kPlyFormat, kLasFormat,
    kLazFormat, kE57Format, kNpyFormat, kNpzFormat, kHdf5Format, kTextFormat, kPtsFormat,
    kPtxFormat;

}  // namespace io

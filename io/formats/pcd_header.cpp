#include "io/formats/pcd_header.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "io/number_text.hpp"

namespace io {
namespace {

constexpr std::int64_t kMaxHeaderLines = 10000;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  const auto is_blank_char = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  for (std::size_t i = 0; i < line.size();) {
    while (i < line.size() && is_blank_char(line[i])) ++i;
    const std::size_t begin = i;
    while (i < line.size() && !is_blank_char(line[i])) ++i;
    if (i > begin) words.push_back(line.substr(begin, i - begin));
  }
  return words;
}

struct RawHeader {
  std::vector<std::string> fields, sizes, types, counts, width, height, viewpoint, points;
  bool has_width = false, has_height = false, has_points = false;
};

std::int64_t whole_number(const std::vector<std::string>& words, std::string_view key) {
  std::int64_t value = 0;
  ENSURE(words.size() == 1 && parse_count(words[0], value) && value >= 0, key, " ",
         words.empty() ? "" : quote(words[0]), " is no count");
  return value;
}

base::DType element_type(std::string_view type, std::int64_t size, std::string_view field) {
  using enum base::DType;
  const char letter = type.size() == 1 ? static_cast<char>(type[0] & ~32) : '?';
  if (letter == 'F' && size == 4) return f32;
  if (letter == 'F' && size == 8) return f64;
  if (letter == 'I' || letter == 'U') {
    const bool is_signed = letter == 'I';
    if (size == 1) return is_signed ? i8 : u8;
    if (size == 2) return is_signed ? i16 : u16;
    if (size == 4) return is_signed ? i32 : u32;
    if (size == 8) return is_signed ? i64 : u64;
  }
  base::fail("field ", quote(field), ": TYPE ", quote(type), " with SIZE ", size,
             " does not exist");
}

// One entry a field; a line that is absent means `absent` for all.
std::vector<std::string> entries(const std::vector<std::string>& given, std::size_t fields,
                                 const char* key, const char* absent) {
  if (given.empty()) return std::vector<std::string>(fields, absent);
  ENSURE(given.size() == fields, key, " has ", given.size(), " entries, FIELDS has ", fields);
  return given;
}

void fill_layout(PcdHeader& header, const RawHeader& raw) {
  ENSURE(!raw.fields.empty(), "no FIELDS line");
  const std::size_t n = raw.fields.size();
  const auto sizes = entries(raw.sizes, n, "SIZE", "4"), types = entries(raw.types, n, "TYPE", "F"),
             counts = entries(raw.counts, n, "COUNT", "1");
  for (std::size_t f = 0; f < n; ++f) {
    const std::string& name = raw.fields[f];
    std::int64_t size = 0, count = 0;
    ENSURE(parse_count(sizes[f], size) && size > 0, "field ", quote(name), ": SIZE ",
           quote(sizes[f]), " is no size");
    ENSURE(parse_count(counts[f], count) && count >= 0, "field ", quote(name), ": COUNT ",
           quote(counts[f]), " is no count");
    header.layout.fields.push_back({.name = name,
                                    .type = element_type(types[f], size, name),
                                    .count = count,
                                    .is_skipped = name == "_" || count == 0});
    header.raw_names.push_back(name);
  }
  pack_offsets(header.layout);
}

void fill_sizes(PcdHeader& header, const RawHeader& raw) {
  ENSURE(raw.has_width || raw.has_points, "neither WIDTH nor POINTS");
  if (raw.has_points) header.points = whole_number(raw.points, "POINTS");
  header.height = raw.has_height ? whole_number(raw.height, "HEIGHT") : 1;
  header.width = raw.has_width ? whole_number(raw.width, "WIDTH") : header.points;
  ENSURE(header.width == 0 || header.height <= (std::int64_t{1} << 60) / header.width, "WIDTH ",
         header.width, " x HEIGHT ", header.height, " is more than 2^60 points");
  const std::int64_t grid = header.width * header.height;
  if (!raw.has_points) header.points = grid;
  ENSURE(grid == header.points, "WIDTH ", header.width, " x HEIGHT ", header.height,
         " is not POINTS ", header.points);
}

std::optional<std::array<double, 7>> viewpoint_of(const std::vector<std::string>& words) {
  if (words.size() != 7) return {};
  std::array<double, 7> values{};
  for (std::size_t i = 0; i < 7; ++i) {
    Number number;
    const char* const end = words[i].data() + words[i].size();
    if (scan_number(words[i].data(), end, number) != end) return {};
    if (!std::isfinite(number.value)) return {};
    values[i] = number.value;
  }
  return values;
}

}  // namespace

PcdHeader read_pcd_header(const Source& source) {
  PcdHeader header;
  RawHeader raw;
  LineReader lines(source);
  std::string_view line;
  while (lines.next(line)) {
    const auto words = words_of(line);
    if (words.empty() || words[0].starts_with('#')) continue;
    const std::string_view key = words[0];
    const std::vector<std::string> rest(words.begin() + 1, words.end());
    if (key == "DATA") {
      const std::string kind = rest.empty() ? "" : rest[0];
      ENSURE(
          rest.size() == 1 && (kind == "ascii" || kind == "binary" || kind == "binary_compressed"),
          "line ", lines.line(), ": ", quote(line),
          " names no kind of DATA (ascii, binary or binary_compressed)");
      header.data = kind == "ascii"    ? PcdHeader::Data::ascii
                    : kind == "binary" ? PcdHeader::Data::binary
                                       : PcdHeader::Data::binary_compressed;
      header.data_offset = lines.next_offset();
      header.next_line = lines.line() + 1;
      fill_layout(header, raw);
      fill_sizes(header, raw);
      header.viewpoint = viewpoint_of(raw.viewpoint);
      header.has_odd_viewpoint = !raw.viewpoint.empty() && !header.viewpoint;
      return header;
    }
    if (key == "FIELDS" || key == "COLUMNS")
      raw.fields = rest;
    else if (key == "SIZE")
      raw.sizes = rest;
    else if (key == "TYPE")
      raw.types = rest;
    else if (key == "COUNT")
      raw.counts = rest;
    else if (key == "WIDTH")
      raw.width = rest, raw.has_width = true;
    else if (key == "HEIGHT")
      raw.height = rest, raw.has_height = true;
    else if (key == "POINTS")
      raw.points = rest, raw.has_points = true;
    else if (key == "VIEWPOINT")
      raw.viewpoint = rest;
    else if (key != "VERSION")
      base::fail("line ", lines.line(), ": ", quote(line),
                 " is no line of a PCD header (no DATA line so far)");
    ENSURE(lines.line() < kMaxHeaderLines, "no DATA line in the first ", kMaxHeaderLines, " lines");
  }
  base::fail("no DATA line in ", lines.line(), " lines");
}

}  // namespace io

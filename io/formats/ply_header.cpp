#include "io/formats/ply_header.hpp"

#include <algorithm>
#include <optional>

#include "io/number_text.hpp"

namespace io {
namespace {

constexpr std::int64_t kMaxHeaderLines = 100000;

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  const auto is_blank_char = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  for (std::size_t i = 0; i < line.size();) {
    while (i < line.size() && is_blank_char(line[i])) ++i;
    const std::size_t begin = i;
    while (i < line.size() && !is_blank_char(line[i])) ++i;
    if (i > begin) words.emplace_back(line.substr(begin, i - begin));
  }
  return words;
}

struct TypeName {
  std::string_view name;
  base::DType type;
};
// The names of the original and of the later description; bool and the 64-bit ones are seen in the
// wild.
constexpr TypeName kTypes[] = {
    {"char", base::DType::i8},    {"int8", base::DType::i8},     {"uchar", base::DType::u8},
    {"uint8", base::DType::u8},   {"bool", base::DType::u8},     {"short", base::DType::i16},
    {"int16", base::DType::i16},  {"ushort", base::DType::u16},  {"uint16", base::DType::u16},
    {"int", base::DType::i32},    {"int32", base::DType::i32},   {"uint", base::DType::u32},
    {"uint32", base::DType::u32}, {"float", base::DType::f32},   {"float32", base::DType::f32},
    {"double", base::DType::f64}, {"float64", base::DType::f64}, {"int64", base::DType::i64},
    {"uint64", base::DType::u64},
};

class Parser {
 public:
  explicit Parser(const Source& source) : lines_(source) {}

  PlyHeader parse() {
    std::string_view line;
    if (!lines_.next(line) || words_of(line) != std::vector<std::string>{"ply"})
      fail("the first line is not 'ply'");
    while (lines_.next(line)) {
      if (lines_.line() > kMaxHeaderLines) break;
      if (take(line)) {
        header_.body_offset = lines_.next_offset();
        header_.body_line = lines_.line() + 1;
        if (!has_format_) fail("no format line before end_header");
        return header_;
      }
    }
    base::fail("no end_header in ", lines_.line(), " lines");
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    base::fail("line ", lines_.line(), ": ", parts...);
  }

  base::DType type_of(const std::string& name) const {
    for (const TypeName& entry : kTypes) {
      if (entry.name == name) return entry.type;
    }
    fail("property type ", quote(name), " does not exist");
  }

  // True at end_header.
  bool take(std::string_view line) {
    const auto words = words_of(line);
    if (words.empty()) return false;
    const std::string& key = words[0];
    if (key == "end_header") return true;
    if (key == "comment" || key == "obj_info") {
      add_metadata(key, line.substr(std::min(line.find(key) + key.size() + 1, line.size())));
    } else if (key == "format") {
      take_format(words);
    } else if (key == "element") {
      std::int64_t count = 0;
      if (words.size() != 3 || !parse_count(words[2], count) || count < 0)
        fail(quote(line), " is no element with a count");
      header_.elements.push_back({.name = words[1], .count = count});
    } else if (key == "property") {
      take_property(words, line);
    } else {
      fail(quote(line), " is no line of a PLY header (no end_header so far)");
    }
    return false;
  }

  void take_format(const std::vector<std::string>& words) {
    const std::string kind = words.size() > 1 ? words[1] : "";
    if (kind == "ascii")
      header_.body = PlyHeader::Body::ascii;
    else if (kind == "binary_little_endian")
      header_.body = PlyHeader::Body::little_endian;
    else if (kind == "binary_big_endian")
      header_.body = PlyHeader::Body::big_endian;
    else
      fail("format ", quote(kind), " is none of ascii, binary_little_endian, binary_big_endian");
    has_format_ = true;
  }

  void take_property(const std::vector<std::string>& words, std::string_view line) {
    if (header_.elements.empty()) fail("property before any element");
    PlyProperty property;
    if (words.size() == 5 && words[1] == "list") {
      property = {.name = words[4],
                  .type = type_of(words[3]),
                  .is_list = true,
                  .count_type = type_of(words[2])};
      if (base::is_float(property.count_type))
        fail("list ", quote(property.name), " has a count of type ", quote(words[2]));
    } else if (words.size() >= 2 && words.size() <= 3 && words[1] != "list") {
      property = {.name = words.size() == 3 ? words[2] : "", .type = type_of(words[1])};
    } else {
      fail(quote(line), " is no property");
    }
    header_.elements.back().properties.push_back(std::move(property));
  }

  void add_metadata(const std::string& key, std::string_view text) {
    while (text.ends_with('\r') || text.ends_with(' ')) text.remove_suffix(1);
    std::string& entry = header_.metadata[key];
    if (!entry.empty()) entry += '\n';
    entry += valid_utf8(text);
  }

  LineReader lines_;
  PlyHeader header_;
  bool has_format_ = false;
};

}  // namespace

bool PlyElement::has_lists() const {
  return std::any_of(properties.begin(), properties.end(),
                     [](const PlyProperty& p) { return p.is_list; });
}

std::int64_t PlyElement::smallest_bytes() const {
  std::int64_t bytes = 0;
  for (const PlyProperty& property : properties)
    bytes += base::bytes(property.is_list ? property.count_type : property.type);
  return bytes;
}

PlyHeader read_ply_header(const Source& source) { return Parser(source).parse(); }

}  // namespace io

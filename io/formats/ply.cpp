// PLY: ascii and binary of both byte orders, any elements around the vertices, lists before, among
// and after them.
#include <algorithm>
#include <bit>
#include <cstring>

#include "io/ascii_rows.hpp"
#include "io/field_names.hpp"
#include "io/fit_columns.hpp"
#include "io/format.hpp"
#include "io/formats/ply_header.hpp"
#include "io/number_text.hpp"

namespace io {
namespace {

bool recognise_ply(std::string_view head) {
  return head.size() > 3 && head.starts_with("ply") && (head[3] == '\n' || head[3] == '\r');
}

// Reads a binary file entry by entry where lists make entries differ in size.
class BinaryWalker {
 public:
  BinaryWalker(const Source& source, std::int64_t begin, bool swap_bytes)
      : source_(source), next_(begin), swap_bytes_(swap_bytes) {}

  std::int64_t offset() const { return next_ - (filled_ - position_); }
  std::int64_t remaining() const { return source_.size() - offset(); }

  // The next bytes, valid until the next call.
  const char* take(std::int64_t bytes) {
    if (filled_ - position_ < bytes) refill(bytes);
    position_ += bytes;
    return buffer_.data() + position_ - bytes;
  }

  void skip(std::int64_t bytes) {
    if (bytes <= filled_ - position_) {
      position_ += bytes;
      return;
    }
    next_ = offset() + bytes;
    position_ = filled_ = 0;
  }

  // Values of a list: its count is read and checked against what the file still has.
  std::int64_t take_list_count(const PlyProperty& list, const std::string& where) {
    const std::int64_t at = offset();
    char bytes[8];
    const std::int64_t width = base::bytes(list.count_type);
    std::memcpy(bytes, take(width), static_cast<std::size_t>(width));
    if (swap_bytes_) swap_elements(bytes, 1, width);
    double count = 0;
    base::visit_dtype<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int8_t,
                      std::int16_t, std::int32_t, std::int64_t>(
        list.count_type, "list count", [&]<class T>() {
          T value;
          std::memcpy(&value, bytes, sizeof(T));
          count = static_cast<double>(value);
        });
    const std::int64_t element = base::bytes(list.type);
    ENSURE(count >= 0 && count <= static_cast<double>(remaining() / element), where, ": list ",
           list.name, " has a count of ", count, " at byte ", at, ", ", remaining(),
           " bytes are left");
    return static_cast<std::int64_t>(count);
  }

 private:
  void refill(std::int64_t bytes) {
    const std::int64_t kept = filled_ - position_, left = source_.size() - next_;
    ENSURE(bytes <= kept + left, "the file ends at byte ", source_.size(), ", ", bytes,
           " bytes from byte ", offset(), " are needed");
    const std::int64_t more = std::min(std::max(bytes - kept, kChunkBytes), left);
    if (static_cast<std::int64_t>(buffer_.size()) < kept + more)
      buffer_.resize(static_cast<std::size_t>(kept + more));
    std::memmove(buffer_.data(), buffer_.data() + position_, static_cast<std::size_t>(kept));
    source_.read(next_, buffer_.data() + kept, more);
    next_ += more;
    position_ = 0;
    filled_ = kept + more;
  }

  const Source& source_;
  std::int64_t next_;  // file offset of the byte after the buffer
  bool swap_bytes_;
  std::vector<char> buffer_;
  std::int64_t position_ = 0, filled_ = 0;
};

std::string entry_text(const PlyElement& element, std::int64_t index) {
  return base::concat(element.name, " ", index, " of ", element.count);
}

void require_bytes(const PlyElement& element, std::int64_t offset, std::int64_t there) {
  const std::int64_t bytes = std::max<std::int64_t>(element.smallest_bytes(), 1);
  ENSURE(element.count <= there / bytes, "element ", element.name, " claims ", element.count,
         " entries of ", element.has_lists() ? "at least " : "", bytes, " bytes: ", there,
         " bytes are there from byte ", offset, ", ", there / bytes, " whole entries");
}

void skip_element(BinaryWalker& walker, const PlyElement& element) {
  if (element.properties.empty()) return;
  require_bytes(element, walker.offset(), walker.remaining());
  if (!element.has_lists()) {
    walker.skip(element.count * element.smallest_bytes());
    return;
  }
  for (std::int64_t i = 0; i < element.count; ++i) {
    for (const PlyProperty& property : element.properties) {
      const std::int64_t count =
          property.is_list ? walker.take_list_count(property, entry_text(element, i)) : 1;
      walker.skip(count * base::bytes(property.type));
    }
    ENSURE(walker.remaining() >= 0, entry_text(element, i), ": the file ends inside it");
  }
}

// Gathers vertices with lists among their properties into records without them.
void read_vertices_with_lists(BinaryWalker& walker, const PlyElement& vertex, RecordReader& reader,
                              const RecordLayout& layout) {
  std::vector<char> record(static_cast<std::size_t>(layout.bytes));
  for (std::int64_t i = 0; i < vertex.count; ++i) {
    for (std::size_t p = 0; p < vertex.properties.size(); ++p) {
      const PlyProperty& property = vertex.properties[p];
      const std::int64_t bytes = base::bytes(property.type);
      if (property.is_list) {
        walker.skip(walker.take_list_count(property, entry_text(vertex, i)) * bytes);
      } else {
        std::memcpy(record.data() + layout.fields[p].offset, walker.take(bytes),
                    static_cast<std::size_t>(bytes));
      }
    }
    reader.append(record.data(), 1);
  }
}

// Field f of the layout is property f; lists stay in it as skipped fields of no width.
RecordLayout layout_of(const PlyElement& vertex) {
  std::vector<std::string> raw;
  for (const PlyProperty& property : vertex.properties) {
    // A list may not take the name x.
    raw.push_back(property.is_list ? "list " + property.name : property.name);
  }
  const auto names = canonical_names(raw);
  require_coordinates(names);
  RecordLayout layout;
  for (std::size_t p = 0; p < names.size(); ++p) {
    const PlyProperty& property = vertex.properties[p];
    layout.fields.push_back({.name = property.is_list ? property.name : names[p],
                             .type = property.type,
                             .count = property.is_list ? 0 : 1,
                             .is_skipped = property.is_list});
  }
  pack_offsets(layout);
  return layout;
}

void read_binary(const Source& source, const PlyHeader& header, std::size_t vertex_index,
                 RecordLayout layout, Cloud& cloud) {
  const bool file_is_little = header.body == PlyHeader::Body::little_endian;
  layout.swap_bytes = file_is_little != (std::endian::native == std::endian::little);
  BinaryWalker walker(source, header.body_offset, layout.swap_bytes);
  for (std::size_t e = 0; e < vertex_index; ++e) skip_element(walker, header.elements[e]);
  const PlyElement& vertex = header.elements[vertex_index];
  require_bytes(vertex, walker.offset(), walker.remaining());
  RecordReader reader(layout, vertex.count);
  std::int64_t end = walker.offset();
  if (vertex.has_lists()) {
    read_vertices_with_lists(walker, vertex, reader, layout);
    end = walker.offset();
  } else {
    FileStream stream(source, end, vertex.count * layout.bytes);
    reader.read_all(stream);
    end = stream.position();
  }
  reader.move_into(cloud);
  for (std::size_t e = vertex_index + 1; e < header.elements.size(); ++e) {
    const PlyElement& element = header.elements[e];
    const std::int64_t bytes = std::max<std::int64_t>(element.smallest_bytes(), 1),
                       there = source.size() - end;
    if (element.count > there / bytes) {
      cloud.warnings.push_back(base::concat("element ", element.name, " claims ", element.count,
                                            " entries, ", there,
                                            " bytes are left after the vertices"));
      return;
    }
    end += element.count * bytes;
  }
}

void read_ascii(const Source& source, const PlyHeader& header, std::size_t vertex_index,
                const RecordLayout& layout, Cloud& cloud) {
  LineReader lines(source, header.body_offset, header.body_line);
  std::string_view line;
  const auto next_row = [&](const PlyElement& element, std::int64_t index) {
    do {
      ENSURE(lines.next(line), "element ", element.name, " claims ", element.count,
             " entries, the file ends after ", index, " at line ", lines.line());
    } while (is_blank(line));
  };
  for (std::size_t e = 0; e < vertex_index; ++e) {
    const PlyElement& element = header.elements[e];
    RecordLayout skipped;
    std::vector<bool> is_list;
    for (const PlyProperty& property : element.properties) {
      skipped.fields.push_back({.name = property.name, .type = property.type, .is_skipped = true});
      is_list.push_back(property.is_list);
    }
    AsciiRows rows(skipped, is_list, element.name, 0);
    for (std::int64_t i = 0; i < element.count && !element.properties.empty(); ++i) {
      next_row(element, i);
      rows.parse(line, lines.line());
    }
  }
  const PlyElement& vertex = header.elements[vertex_index];
  const std::int64_t there = source.size() - lines.next_offset();
  const auto values = static_cast<std::int64_t>(vertex.properties.size());
  ENSURE(vertex.count <= (there + 1) / (2 * values), "element vertex claims ", vertex.count,
         " entries of ", values, " values: ", there, " bytes of text are there from byte ",
         lines.next_offset());
  RecordLayout ascii = layout;
  std::vector<bool> is_list;
  for (std::size_t p = 0; p < vertex.properties.size(); ++p) {
    is_list.push_back(vertex.properties[p].is_list);
    ascii.fields[p].count = 1;  // a list begins with its count
  }
  AsciiRows rows(ascii, is_list, "vertex", vertex.count);
  while (rows.filled() < vertex.count) {
    next_row(vertex, rows.filled());
    rows.parse(line, lines.line());
    if (lines.line_end() != '\n') continue;
    const auto taken = rows.parse_plain_rows(lines.buffered_lines());
    lines.advance(taken.bytes, taken.rows);
  }
  rows.move_into(cloud);
}

Cloud read_ply(const Source& source, const ReadOptions&) {
  const PlyHeader header = read_ply_header(source);
  const auto is_vertex = [](const PlyElement& element) { return element.name == "vertex"; };
  const auto vertex = std::find_if(header.elements.begin(), header.elements.end(), is_vertex);
  ENSURE(vertex != header.elements.end(), "no element vertex");
  ENSURE(std::count_if(header.elements.begin(), header.elements.end(), is_vertex) == 1,
         "element vertex occurs twice");
  const RecordLayout layout = layout_of(*vertex);
  const auto index = static_cast<std::size_t>(vertex - header.elements.begin());
  Cloud cloud(vertex->count);
  if (header.body == PlyHeader::Body::ascii)
    read_ascii(source, header, index, layout, cloud);
  else
    read_binary(source, header, index, layout, cloud);
  for (const PlyProperty& property : vertex->properties) {
    if (property.is_list)
      cloud.warnings.push_back("list " + valid_utf8(property.name) +
                               " of the vertices is not read");
  }
  cloud.metadata = header.metadata;
  return cloud;
}

struct Spelling {
  std::string_view canonical, ply;
};
constexpr Spelling kSpellings[] = {{"r", "red"}, {"g", "green"}, {"b", "blue"}};

std::string ply_name(const std::string& name) {
  for (const Spelling& spelling : kSpellings) {
    if (name == spelling.canonical) return std::string(spelling.ply);
  }
  return as_one_word(name);
}

std::string_view type_name(base::DType type) {
  switch (type) {
    case base::DType::i8:
      return "char";
    case base::DType::u8:
      return "uchar";
    case base::DType::i16:
      return "short";
    case base::DType::u16:
      return "ushort";
    case base::DType::i32:
      return "int";
    case base::DType::u32:
      return "uint";
    case base::DType::f32:
      return "float";
    default:
      return "double";
  }
}

std::string header_text(const Cloud& cloud, bool ascii, std::vector<std::string>& losses) {
  const bool little = std::endian::native == std::endian::little;
  std::string text = base::concat("ply\nformat ",
                                  ascii    ? "ascii"
                                  : little ? "binary_little_endian"
                                           : "binary_big_endian",
                                  " 1.0\n");
  for (const char* key : {"comment", "obj_info"}) {
    const auto entry = cloud.metadata.find(key);
    if (entry == cloud.metadata.end()) continue;
    text += std::string(key) + " ";
    for (const char c : entry->second) {
      if (c == '\n')
        text += "\n" + std::string(key) + " ";
      else
        text += c == '\r' ? ' ' : c;
    }
    text += "\n";
  }
  text += "element vertex " + std::to_string(cloud.size()) + "\n";
  const auto names = written_names(names_of(cloud), ply_name, losses);
  for (std::size_t i = 0; i < names.size(); ++i) {
    text +=
        base::concat("property ", type_name(cloud.columns()[i]->field.type), " ", names[i], "\n");
  }
  return text + "end_header\n";
}

std::vector<std::string> write_ply(Sink& sink, const Cloud& cloud, const WriteOptions& options) {
  using enum base::DType;
  static constexpr base::DType kTypes[] = {f32, f64, u8, u16, u32, i8, i16, i32};
  std::vector<std::string> losses;
  Cloud other_metadata = cloud;
  other_metadata.metadata.erase("comment");
  other_metadata.metadata.erase("obj_info");
  report_lost_extras(other_metadata, {}, losses);
  const Cloud fitted = fit_columns(cloud, kTypes, holds_one_element, losses);
  sink.write(header_text(fitted, options.ascii, losses));
  if (options.ascii)
    write_rows(sink, fitted, ' ');
  else
    write_records(sink, fitted);
  return losses;
}

}  // namespace

const Format kPlyFormat{
    .name = "ply",
    .extensions = {".ply"},
    .recognises = recognise_ply,
    .read = read_ply,
    .write = write_ply,
    .reading = "1 MiB",
    .notes = "ascii and binary of both byte orders; lists and other elements are passed over"};

}  // namespace io

// PCD, the format of the Point Cloud Library: ascii, binary and binary_compressed (columns under
// LZF).
#include <algorithm>
#include <cstring>
#include <limits>

#include "io/ascii_rows.hpp"
#include "io/field_names.hpp"
#include "io/fit_columns.hpp"
#include "io/format.hpp"
#include "io/formats/packed_colour.hpp"
#include "io/formats/pcd_header.hpp"
#include "io/lzf.hpp"
#include "io/number_text.hpp"

namespace io {
namespace {

bool recognise_pcd(std::string_view head) {
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  return head.starts_with("# .PCD") || head.starts_with("#.PCD") || head.starts_with("VERSION ") ||
         head.starts_with("FIELDS ");
}

// Bytes after the points are no error, PCL itself pads to a page; others than 0 are worth a word.
void warn_about_rest(const Source& source, std::int64_t end, Cloud& cloud) {
  const std::string rest =
      source.read_text(end, std::min<std::int64_t>(source.size() - end, 1 << 16));
  if (rest.find_first_not_of('\0') != std::string::npos) {
    cloud.warnings.push_back(
        base::concat(source.size() - end, " bytes after the last point, at byte ", end));
  }
}

void read_binary(const Source& source, const PcdHeader& header, Cloud& cloud) {
  const std::int64_t there = source.size() - header.data_offset,
                     record = std::max<std::int64_t>(header.layout.bytes, 1);
  ENSURE(header.points <= there / record, "POINTS ", header.points, " of ", record,
         " bytes: ", there, " bytes are there from byte ", header.data_offset, ", ", there / record,
         " whole points");
  RecordReader reader(header.layout, header.points);
  FileStream stream(source, header.data_offset, header.points * record);
  reader.read_all(stream);
  reader.move_into(cloud);
  warn_about_rest(source, header.data_offset + header.points * record, cloud);
}

// Fields follow each other whole, in file order, so decompressed bytes go straight into the
// columns.
void read_compressed(const Source& source, const PcdHeader& header, Cloud& cloud) {
  std::uint32_t sizes[2] = {0, 0};
  const bool no_sizes =
      header.points == 0 && source.size() - header.data_offset < 8;  // seen in empty clouds
  if (!no_sizes) source.read(header.data_offset, sizes, 8);
  const std::int64_t begin = no_sizes ? source.size() : header.data_offset + 8,
                     there = source.size() - begin;
  const std::int64_t compressed = sizes[0], uncompressed = sizes[1];
  ENSURE(compressed <= there, "compressed size ", compressed, " at byte ", header.data_offset, ": ",
         there, " bytes are there");
  ENSURE(uncompressed <= max_lzf_expansion(compressed), "uncompressed size ", uncompressed,
         " at byte ", header.data_offset + 4, ": ", compressed,
         " compressed bytes cannot give so many");
  const std::int64_t record = std::max<std::int64_t>(header.layout.bytes, 1);
  ENSURE(
      header.points <= uncompressed / record && header.points * header.layout.bytes == uncompressed,
      "POINTS ", header.points, " of ", record, " bytes, the uncompressed size is ", uncompressed);
  struct Part {
    base::Tensor values;
    std::int64_t bytes;
  };
  std::vector<Part> parts;
  for (const RecordField& field : header.layout.fields) {
    base::Tensor values;
    if (!field.is_skipped) {
      values = field.count == 1 ? base::Tensor::empty({header.points}, field.type)
                                : base::Tensor::empty({header.points, field.count}, field.type);
    }
    parts.push_back({std::move(values), header.points * field.count * base::bytes(field.type)});
  }
  std::size_t part = 0;
  std::int64_t done = 0;
  FileStream stream(source, begin, compressed);
  lzf_decompress(stream, uncompressed, [&](std::string_view piece) {
    while (!piece.empty()) {
      const auto take = static_cast<std::size_t>(std::min<std::int64_t>(
          parts[part].bytes - done, static_cast<std::int64_t>(piece.size())));
      if (parts[part].values.defined() && take > 0)
        std::memcpy(static_cast<char*>(parts[part].values.data()) + done, piece.data(), take);
      piece.remove_prefix(take);
      done += static_cast<std::int64_t>(take);
      if (done == parts[part].bytes) ++part, done = 0;
    }
  });
  for (std::size_t f = 0; f < parts.size(); ++f) {
    const RecordField& field = header.layout.fields[f];
    if (!field.is_skipped)
      cloud.add(Field{field.name, field.type, field.count, ""}, std::move(parts[f].values));
  }
  warn_about_rest(source, begin + compressed, cloud);
}

void read_ascii(const Source& source, const PcdHeader& header, Cloud& cloud) {
  const std::int64_t there = source.size() - header.data_offset;
  std::int64_t values = 0;
  for (const RecordField& field : header.layout.fields) values += field.count;
  // Each value takes a digit and a separator; the very last separator may be missing.
  ENSURE(values > 0 && header.points <= (there + 1) / (2 * values), "POINTS ", header.points,
         " of ", values, " values: ", there, " bytes of text are there from byte ",
         header.data_offset);
  AsciiRows rows(header.layout, {}, "point", header.points);
  LineReader lines(source, header.data_offset, header.next_line);
  std::string_view line;
  std::int64_t extra = 0;
  while (lines.next(line)) {
    if (is_blank(line)) continue;
    if (rows.filled() < header.points) {
      rows.parse(line, lines.line());
      if (lines.line_end() != '\n') continue;
      const auto taken = rows.parse_plain_rows(lines.buffered_lines());
      lines.advance(taken.bytes, taken.rows);
    } else if (line.find_first_not_of('\0') != std::string_view::npos) {
      ++extra;
    }
  }
  ENSURE(rows.filled() == header.points, "POINTS ", header.points, ", the file ends after ",
         rows.filled(), " points, at line ", lines.line());
  rows.move_into(cloud);
  if (extra > 0)
    cloud.warnings.push_back(base::concat(extra, " lines after the ", header.points, " points"));
}

Cloud read_pcd(const Source& source, const ReadOptions&) {
  PcdHeader header = read_pcd_header(source);
  auto names = canonical_names(header.raw_names);
  require_coordinates(names);
  for (std::size_t f = 0; f < names.size(); ++f) {
    RecordField& field = header.layout.fields[f];
    const bool is_axis = names[f] == "x" || names[f] == "y" || names[f] == "z";
    ENSURE(!is_axis || field.count == 1, "field ", names[f], " has COUNT ", field.count,
           ", 1 is needed");
    field.name = names[f];
  }
  Cloud cloud(header.points);
  switch (header.data) {
    case PcdHeader::Data::ascii:
      read_ascii(source, header, cloud);
      break;
    case PcdHeader::Data::binary:
      read_binary(source, header, cloud);
      break;
    case PcdHeader::Data::binary_compressed:
      read_compressed(source, header, cloud);
      break;
  }
  cloud.width = header.width;
  cloud.height = header.height;
  cloud.viewpoint = header.viewpoint;
  if (header.has_odd_viewpoint)
    cloud.warnings.push_back("VIEWPOINT is not seven finite numbers and is not read");
  unpack_colours(cloud);
  return cloud;
}

struct Spelling {
  std::string_view canonical, pcd;
};
constexpr Spelling kSpellings[] = {{"nx", "normal_x"}, {"ny", "normal_y"}, {"nz", "normal_z"}};

std::string pcd_name(const std::string& name) {
  for (const Spelling& spelling : kSpellings) {
    if (name == spelling.canonical) return std::string(spelling.pcd);
  }
  return as_one_word(name);
}

// 8-bit colours become the packed field that PCL and its friends show.
Cloud with_packed_colours(const Cloud& cloud) {
  const auto is_byte = [&](const char* name) {
    const Column* column = cloud.find(name);
    return column != nullptr && column->field.type == base::DType::u8 && column->field.count == 1;
  };
  if (!is_byte("r") || !is_byte("g") || !is_byte("b") || cloud.find("rgb") || cloud.find("rgba"))
    return cloud;
  Cloud result = cloud;
  const bool with_alpha = is_byte("alpha");
  result.add(Field{with_alpha ? "rgba" : "rgb", base::DType::u32, 1, ""},
             packed_colours(cloud, with_alpha));
  for (const char* name : {"r", "g", "b"}) result.remove(name);
  if (with_alpha) result.remove("alpha");
  return result;
}

std::string header_text(const Cloud& cloud, std::string_view data,
                        std::vector<std::string>& losses) {
  std::string fields, sizes, types, counts, viewpoint;
  for (const std::string& name : written_names(names_of(cloud), pcd_name, losses))
    fields += " " + name;
  for (const auto& column : cloud.columns()) {
    const base::DType type = column->field.type;
    sizes += " " + std::to_string(base::bytes(type));
    types += base::is_float(type) ? " F" : base::is_signed_integer(type) ? " I" : " U";
    counts += " " + std::to_string(column->field.count);
  }
  for (const double value : cloud.viewpoint.value_or(std::array<double, 7>{0, 0, 0, 1, 0, 0, 0})) {
    char text[kMaxNumberChars];
    viewpoint += ' ';
    viewpoint.append(text, write_number(text, value));
  }
  const bool is_grid = cloud.height > 1 && cloud.width * cloud.height == cloud.size();
  return base::concat("# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS", fields,
                      "\nSIZE", sizes, "\nTYPE", types, "\nCOUNT", counts, "\nWIDTH ",
                      is_grid ? cloud.width : cloud.size(), "\nHEIGHT ", is_grid ? cloud.height : 1,
                      "\nVIEWPOINT", viewpoint, "\nPOINTS ", cloud.size(), "\nDATA ", data, "\n");
}

void write_compressed(Sink& sink, const Cloud& cloud) {
  std::string bytes;
  for (const auto& column : cloud.columns()) {
    bytes.append(static_cast<const char*>(column->values.data()),
                 static_cast<std::size_t>(column->values.nbytes()));
  }
  const std::string compressed = lzf_compress(bytes);
  constexpr std::size_t kLimit = std::numeric_limits<std::uint32_t>::max();
  ENSURE(bytes.size() <= kLimit && compressed.size() <= kLimit,
         "binary_compressed PCD holds at most 4 GiB, the cloud has ", bytes.size(),
         " bytes: write it as binary");
  const std::uint32_t sizes[2] = {static_cast<std::uint32_t>(compressed.size()),
                                  static_cast<std::uint32_t>(bytes.size())};
  sink.write(sizes, 8);
  sink.write(compressed);
}

std::vector<std::string> write_pcd(Sink& sink, const Cloud& cloud, const WriteOptions& options) {
  std::vector<std::string> losses;
  report_lost_extras(cloud, {.organised = true, .viewpoint = true}, losses);
  const Cloud packed = with_packed_colours(cloud);
  sink.write(header_text(packed,
                         options.ascii        ? "ascii"
                         : options.compressed ? "binary_compressed"
                                              : "binary",
                         losses));
  if (options.ascii) {
    write_rows(sink, packed, ' ');
  } else if (options.compressed) {
    write_compressed(sink, packed);
  } else {
    write_records(sink, packed);
  }
  return losses;
}

}  // namespace

const Format kPcdFormat{
    .name = "pcd",
    .extensions = {".pcd"},
    .recognises = recognise_pcd,
    .read = read_pcd,
    .write = write_pcd,
    .reading = "1 MiB",
    .notes =
        "ascii, binary and binary_compressed; organised clouds, view point, padding, any COUNT; "
        "packed rgb becomes r g b"};

}  // namespace io

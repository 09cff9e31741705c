#include "io/formats/npy_array.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "io/field_names.hpp"
#include "io/number_text.hpp"

namespace io {
namespace {

constexpr std::int64_t kMaxColumns = 16;  // of an array that may be stored either way round

std::vector<std::string> member_names(const NpyHeader& header) {
  std::vector<std::string> raw;
  for (const RecordField& field : header.element.fields)
    raw.push_back(field.is_skipped ? "(text)" : field.name);
  auto names = canonical_names(raw);
  name_survey_coordinates(names);
  return names;
}

// Points and columns of a plain array.
struct Table {
  std::int64_t points = 0, columns = 0, width = 0, height = 1;
};

Table table_of(const NpyHeader& header, const ReadOptions& options) {
  const auto& shape = header.shape;
  if (shape.size() == 3) return {shape[0] * shape[1], shape[2], shape[1], shape[0]};
  const Table table{shape[0], shape[1], shape[0], 1};
  return options.transpose ? Table{table.columns, table.points, table.columns, 1} : table;
}

// A plain array whose columns are stored one after the other.
void read_columns(const NpyHeader& header, ByteStream& stream, const Table& table,
                  const std::vector<std::string>& names, Cloud& cloud) {
  const RecordField& element = header.element.fields[0];
  std::vector<char> skipped;
  for (std::int64_t c = 0; c < table.columns; ++c) {
    base::Tensor values = base::Tensor::empty({table.points}, element.type);
    stream.read(values.data(), values.nbytes());
    if (header.element.swap_bytes)
      swap_elements(static_cast<char*>(values.data()), table.points, base::bytes(element.type));
    const std::string& name = names[static_cast<std::size_t>(c)];
    if (!name.empty() && name != "_")
      cloud.add(Field{name, element.type, 1, ""}, std::move(values));
  }
}

void widen_halves(Cloud& cloud) {
  for (std::size_t c = 0; c < cloud.columns().size(); ++c) {
    const auto column = cloud.columns()[c];  // let go of before the next one is widened
    if (column->field.type != kNpyHalf) continue;
    Field field = column->field;
    field.type = base::DType::f32;
    cloud.add(field, column->values.to(base::DType::f32));
  }
}

RecordLayout rows_of(const NpyHeader& header, const Table& table,
                     const std::vector<std::string>& names) {
  RecordLayout layout;
  layout.swap_bytes = header.element.swap_bytes;
  for (std::int64_t c = 0; c < table.columns; ++c) {
    const std::string& name = names[static_cast<std::size_t>(c)];
    layout.fields.push_back({.name = name,
                             .type = header.element.fields[0].type,
                             .is_skipped = name.empty() || name == "_"});
  }
  pack_offsets(layout);
  return layout;
}

std::vector<std::string> column_names(const Table& table, const ReadOptions& options) {
  if (options.columns.empty()) return default_names(table.columns);
  ENSURE(static_cast<std::int64_t>(options.columns.size()) == table.columns, options.columns.size(),
         " names are given, the array has ", table.columns, " columns");
  require_coordinates(options.columns);
  return options.columns;
}

// As a Python literal without escapes.
std::string npy_name(const std::string& name) {
  std::string result = name == "_" ? "__" : valid_utf8(name);
  std::replace_if(
      result.begin(), result.end(),
      [](char c) { return c == '\'' || c == '\\' || static_cast<unsigned char>(c) < ' '; }, '_');
  return result;
}

}  // namespace

std::string why_no_cloud(const NpyHeader& header, const ReadOptions& options) {
  const auto& shape = header.shape;
  if (header.is_structured) {
    if (header.is_fortran && shape.size() > 1) return "a structured array in Fortran order";
    const auto names = member_names(header);
    for (std::size_t f = 0; f < names.size(); ++f) {
      const RecordField& field = header.element.fields[f];
      if ((names[f] == "x" || names[f] == "y" || names[f] == "z") && field.count != 1)
        return "a member " + names[f] + " of several elements";
    }
    const auto has = [&](const char* name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (has("x") && has("y") && has("z")) return {};
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return "a structured array without x, y and z: " + list;
  }
  const std::string text = "shape " + shape_text(shape);
  if (shape.size() != 2 && shape.size() != 3) return text + ", N x 3 or more is expected";
  if (shape.size() == 3 && header.is_fortran) return text + " in Fortran order";
  if (shape.size() == 3 && options.transpose)
    return text + ": only arrays of two axes are transposed";
  const Table table = table_of(header, options);
  if (table.columns >= 3 && table.columns <= kMaxColumns) return {};
  const bool is_other_way = shape.size() == 2 && table.points >= 3 && table.points <= kMaxColumns &&
                            table.columns > kMaxColumns;
  if (is_other_way) return text + ": columns and points seem exchanged; --transpose takes it so";
  return text + ", N x 3 to N x 16 is expected";
}

base::Tensor read_npy_tensor(const NpyHeader& header, ByteStream& stream) {
  const RecordField& element = header.element.fields[0];
  base::Dims shape;
  for (const std::int64_t extent : header.shape) shape.push_back(extent);
  base::Tensor values = base::Tensor::empty(shape, element.type);
  stream.read(values.data(), values.nbytes());
  if (header.element.swap_bytes)
    swap_elements(static_cast<char*>(values.data()), header.elements, base::bytes(element.type));
  return element.type == kNpyHalf ? values.to(base::DType::f32) : values;
}

Cloud read_npy_cloud(const NpyHeader& header, ByteStream& stream, const ReadOptions& options) {
  const std::string why = why_no_cloud(header, options);
  ENSURE(why.empty(), "NPY: ", why);
  if (header.is_structured) {
    RecordLayout layout = header.element;
    const auto names = member_names(header);
    for (std::size_t f = 0; f < names.size(); ++f) layout.fields[f].name = names[f];
    Cloud cloud(header.elements);
    RecordReader reader(layout, header.elements);
    reader.read_all(stream);
    reader.move_into(cloud);
    widen_halves(cloud);
    if (header.shape.size() == 2) {
      cloud.height = header.shape[0];
      cloud.width = header.shape[1];
    }
    for (const std::string& name : header.text_fields)
      cloud.warnings.push_back("member " + name + " holds text and is not read");
    return cloud;
  }
  const Table table = table_of(header, options);
  const auto names = column_names(table, options);
  Cloud cloud(table.points);
  if (options.transpose != header.is_fortran) {
    read_columns(header, stream, table, names, cloud);
  } else {
    const RecordLayout layout = rows_of(header, table, names);
    RecordReader reader(layout, table.points);
    reader.read_all(stream);
    reader.move_into(cloud);
  }
  widen_halves(cloud);
  cloud.width = table.width;
  cloud.height = table.height;
  return cloud;
}

std::string npy_header_text(const Cloud& cloud, std::vector<std::string>& losses) {
  std::string descr;
  const auto names = written_names(names_of(cloud), npy_name, losses);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& column = cloud.columns()[i];
    const base::DType type = column->field.type;
    const char kind = base::is_float(type) ? 'f' : base::is_signed_integer(type) ? 'i' : 'u';
    const char order = base::bytes(type) == 1                       ? '|'
                       : std::endian::native == std::endian::little ? '<'
                                                                    : '>';
    descr += base::concat(
        descr.empty() ? "" : ", ", "('", names[i], "', '", order, kind, base::bytes(type), "'",
        column->field.count > 1 ? base::concat(", (", column->field.count, ",)") : "", ")");
  }
  const bool is_grid = cloud.height > 1 && cloud.width * cloud.height == cloud.size();
  const std::string shape =
      is_grid ? base::concat(cloud.height, ", ", cloud.width) : base::concat(cloud.size(), ",");
  std::string text =
      base::concat("{'descr': [", descr, "], 'fortran_order': False, 'shape': (", shape, "), }");
  // Version 3 is UTF-8; the data start at a multiple of 64 bytes.
  text.append((64 - (12 + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x03\x00", 8);
  for (int shift = 0; shift < 32; shift += 8)
    header += static_cast<char>(text.size() >> shift & 255);
  return header + text;
}

}  // namespace io

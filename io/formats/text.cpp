// Text: XYZ, CSV, TXT, ASC and PTS. Delimiter, header and column types are found by looking.
#include <algorithm>

#include "io/field_names.hpp"
#include "io/fit_columns.hpp"
#include "io/format.hpp"
#include "io/formats/text_table.hpp"
#include "io/number_text.hpp"
#include "io/records.hpp"

namespace io {
namespace {

// What the first lines say about the table.
struct TextPlan {
  TextStyle style;
  std::vector<std::string> names;    // "" where the file does not say
  std::vector<bool> is_text;         // columns of words, known from the first row under a header
  std::int64_t skipped_lines = 0;    // data lines before the first row: header, count
  std::int64_t claimed_points = -1;  // PTS
  std::int64_t count_line = 0;
  bool is_empty = true;                         // no row at all
  std::int64_t rest_offset = 0, rest_line = 0;  // of what follows the first row
  char line_end = '\n';
};

bool names_coordinates(const std::vector<std::string>& names) {
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return has("x") && has("y") && has("z");
}

std::vector<std::string> header_names(std::string_view line) {
  auto names = canonical_names(split_cells(line, {.delimiter = detect_style(line).delimiter}));
  name_survey_coordinates(names);
  return names;
}

std::string_view without_comment_mark(std::string_view line) {
  while (!line.empty() && (line.front() == '#' || line.front() == '/' || line.front() == '%' ||
                           line.front() == ' ' || line.front() == '\t')) {
    line.remove_prefix(1);
  }
  return line;
}

void require_text(const Source& source) {
  const std::string_view head = source.head();
  ENSURE(!head.starts_with("\xFF\xFE") && !head.starts_with("\xFE\xFF"),
         "line 1: UTF-16 text is not read; save it as UTF-8");
  const auto odd = std::find_if(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < ' ' && !(byte >= '\t' && byte <= '\r');
  });
  if (odd == head.end()) return;
  const auto line = 1 + std::count(head.begin(), odd, '\n');
  base::fail("line ", line, ": no text: byte ", static_cast<int>(static_cast<unsigned char>(*odd)),
             " at offset ", odd - head.begin());
}

bool all_numbers(const std::vector<std::string>& cells, const TextStyle& style) {
  return std::all_of(cells.begin(), cells.end(),
                     [&](const std::string& cell) { return is_number(cell, style); });
}

TextPlan make_plan(const Source& source, const ReadOptions& options) {
  TextPlan plan;
  LineReader lines(source);
  std::string_view line;
  std::string comment;
  std::int64_t header_line = 0;
  const auto next_row = [&] {
    while (lines.next(line)) {
      if (is_data_line(line)) return true;
      if (header_line == 0 && line.find_first_not_of(" \t") != std::string_view::npos)
        comment = line;
    }
    return false;
  };
  if (!next_row()) return plan;
  plan.style = detect_style(line);
  auto cells = split_cells(line, plan.style);
  if (!all_numbers(cells, plan.style)) {
    plan.names = header_names(line);
    ENSURE(names_coordinates(plan.names) || !options.columns.empty(), "line ", lines.line(), ": ",
           quote(line), " is not a number in each column, nor a header with x, y and z");
    header_line = lines.line();
    ++plan.skipped_lines;
    if (!next_row()) return plan;
  } else if (cells.size() == 1 && parse_count(cells[0], plan.claimed_points)) {
    ENSURE(plan.claimed_points >= 0, "line ", lines.line(), " claims ", plan.claimed_points,
           " points");
    plan.count_line = lines.line();
    ++plan.skipped_lines;
    if (!next_row()) return plan;
  }
  plan.is_empty = false;
  plan.rest_offset = lines.next_offset();
  plan.rest_line = lines.line() + 1;
  plan.line_end = lines.line_end();
  plan.style = detect_style(line);
  cells = split_cells(line, plan.style);
  ENSURE(cells.size() >= 3, "line ", lines.line(), ": ", cells.size(),
         " columns, at least 3 (x y z) are needed");
  if (header_line == 0 && !comment.empty()) {
    const auto names = header_names(without_comment_mark(comment));
    if (names.size() == cells.size() && names_coordinates(names)) plan.names = names;
  }
  if (header_line != 0) {
    ENSURE(plan.names.size() == cells.size(), "line ", lines.line(), ": ", cells.size(),
           " columns, the header in line ", header_line, " names ", plan.names.size());
    for (std::size_t c = 0; c < cells.size(); ++c)
      plan.is_text.push_back(!cells[c].empty() && !is_number(cells[c], plan.style));
  }
  if (!options.columns.empty()) {
    ENSURE(options.columns.size() == cells.size(), "line ", lines.line(), ": ", cells.size(),
           " columns, ", options.columns.size(), " names are given");
    plan.names = options.columns;
  }
  plan.is_text.resize(cells.size());
  if (plan.names.empty()) plan.names.resize(cells.size());
  return plan;
}

// Columns without names: colours are whole numbers up to 255 (or 65535), three others are normals.
void guess_names(std::vector<std::string>& names, const std::vector<TextColumn>& columns) {
  names = default_names(static_cast<std::int64_t>(columns.size()));
  const auto are_colours = [&](std::size_t first) {
    return first + 3 <= columns.size() && columns[first].fits(0, 65535) &&
           columns[first + 1].fits(0, 65535) && columns[first + 2].fits(0, 65535);
  };
  const auto set = [&](std::size_t first, std::initializer_list<const char*> list) {
    std::copy(list.begin(), list.end(), names.begin() + static_cast<std::ptrdiff_t>(first));
  };
  const std::size_t rest = columns.size() - 3;
  if (rest == 3 || rest == 6) {
    if (are_colours(3))
      set(3, {"r", "g", "b"});
    else
      set(3, {"nx", "ny", "nz"});
    if (rest == 6) {
      if (are_colours(3))
        set(6, {"nx", "ny", "nz"});
      else if (are_colours(6))
        set(6, {"r", "g", "b"});
      else
        names = default_names(9);
    }
  } else if (rest == 4 || rest == 7) {
    if (are_colours(4))
      set(4, {"r", "g", "b"});
    else if (are_colours(3))
      set(3, {"r", "g", "b", "intensity"});
    else
      set(4, {"nx", "ny", "nz"});
    if (rest == 7) set(7, {"nx", "ny", "nz"});
  }
}

// Line feeds, and among the bytes after line feeds those with which numbers begin.
struct LineCount {
  std::int64_t ends = 0, plain_starts = 0;
};

// At most 255 bytes, the last of which is followed by one more: small counters, so that compilers
// take 16 bytes and more at a time.
void count_lines(const char* bytes, std::int64_t size, LineCount& count) {
  std::uint8_t ends = 0, plain_starts = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint8_t is_end = bytes[i] == '\n';
    const char next = bytes[i + 1];
    const std::uint8_t is_plain = (next >= '0' && next <= '9') || next == '-';
    ends = static_cast<std::uint8_t>(ends + is_end);
    plain_starts = static_cast<std::uint8_t>(plain_starts + (is_end & is_plain));
  }
  count.ends += ends;
  count.plain_starts += plain_starts;
}

// Rows from a line's start on when all lines are rows that begin as numbers do, else -1.
std::int64_t count_plain_rows(const Source& source, std::int64_t offset) {
  constexpr std::int64_t kBlock = 240;
  std::vector<char> buffer(static_cast<std::size_t>(kChunkBytes) + 1);
  LineCount count;
  buffer[0] = '\n';  // before the first line
  for (std::int64_t at = offset; at < source.size();) {
    const std::int64_t bytes = std::min(kChunkBytes, source.size() - at);
    source.read(at, buffer.data() + 1, bytes);
    for (std::int64_t begin = 0; begin < bytes; begin += kBlock)
      count_lines(buffer.data() + begin, std::min(kBlock, bytes - begin), count);
    buffer[0] = buffer[static_cast<std::size_t>(bytes)];
    at += bytes;
  }
  const std::int64_t lines = offset < source.size() ? count.ends : 0;  // a last end opens no line
  return lines == count.plain_starts ? lines : -1;
}

std::int64_t count_rows(const Source& source, const TextPlan& plan) {
  if (plan.is_empty) return 0;
  if (plan.line_end == '\n') {
    if (const auto rows = count_plain_rows(source, plan.rest_offset); rows >= 0) return 1 + rows;
  }
  LineReader lines(source, plan.rest_offset, plan.rest_line);
  std::string_view line;
  std::int64_t rows = 1;
  while (lines.next(line)) rows += is_data_line(line);
  return rows;
}

Cloud empty_cloud(const TextPlan& plan) {
  Cloud cloud;
  const auto names = plan.names.empty() ? default_names(3) : plan.names;
  for (const std::string& name : names) {
    if (!name.empty() && name != "_")
      cloud.add(Field{name, base::DType::f64, 1, ""}, base::Tensor::empty({0}, base::DType::f64));
  }
  require_coordinates(names);
  return cloud;
}

bool is_skipped_name(const std::string& name, bool is_given) {
  return is_given && (name.empty() || name == "_");
}

Cloud read_text(const Source& source, const ReadOptions& options) {
  require_text(source);
  TextPlan plan = make_plan(source, options);
  const std::int64_t rows = count_rows(source, plan);
  ENSURE(plan.claimed_points < 0 || plan.claimed_points == rows, "line ", plan.count_line,
         " claims ", plan.claimed_points, " points, ", rows, " rows follow");
  if (plan.is_empty) return empty_cloud(plan);
  const bool is_given = !options.columns.empty(),
             is_named = is_given || names_coordinates(plan.names);
  if (is_given) require_coordinates(plan.names);
  std::vector<bool> is_real, is_skipped;
  for (std::size_t c = 0; c < plan.names.size(); ++c) {
    const std::string& name = plan.names[c];
    const bool is_axis = is_named ? name == "x" || name == "y" || name == "z" : c < 3;
    is_real.push_back(is_axis);
    is_skipped.push_back(is_skipped_name(name, is_given) || (plan.is_text[c] && !is_axis));
  }
  TextTable table(rows, plan.style, is_real, is_skipped);
  LineReader lines(source);
  std::string_view line;
  std::int64_t to_skip = plan.skipped_lines;
  while (lines.next(line)) {
    if (!is_data_line(line) || to_skip-- > 0) continue;
    ENSURE(table.rows() < rows, "line ", lines.line(),
           ": the file became longer while it was read");
    table.parse(line, lines.line());
    if (lines.line_end() != '\n') continue;
    const auto taken = table.parse_plain_rows(lines.buffered_lines());
    lines.advance(taken.bytes, taken.rows);
  }
  ENSURE(table.rows() == rows, "the file became shorter while it was read");
  if (!is_named) guess_names(plan.names, table.columns());
  Cloud cloud(rows);
  for (std::size_t c = 0; c < plan.names.size(); ++c) {
    const std::string& name = plan.names[c];
    if (plan.is_text[c] && is_skipped[c])
      cloud.warnings.push_back("column " + name + " holds text and is not read");
    if (is_skipped[c]) continue;
    base::Tensor values = table.columns()[c].take(name == "r" || name == "g" || name == "b");
    const base::DType type = values.dtype();
    cloud.add(Field{name, type, 1, ""}, std::move(values));
  }
  if (plan.style.decimal_comma)
    cloud.warnings.push_back("commas between digits are read as decimal points");
  return cloud;
}

// Quotes and what may separate columns, which readers look for in the first line.
std::string name_between_blanks(const std::string& name) {
  std::string cell = as_one_word(name);
  for (char& c : cell) {
    if (std::string_view(",;|\"'").find(c) != std::string_view::npos) c = '_';
  }
  return cell;
}

std::string name_between_commas(const std::string& name) {
  std::string cell = name;
  for (char& c : cell) {
    if (c == '"') c = '\'';
    if (static_cast<unsigned char>(c) < ' ') c = '_';
  }
  cell.erase(0, std::min(cell.find_first_not_of(' '), cell.size()));
  cell.resize(cell.find_last_not_of(' ') + 1);
  return cell;
}

std::string quoted_where_needed(const std::string& cell) {
  return cell.find_first_of(",;|' ") == std::string::npos ? cell : '"' + cell + '"';
}

bool has_extension(const Sink& sink, std::string_view extension) {
  std::string own = sink.path().extension().string();
  for (char& c : own) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return own == extension;
}

std::vector<std::string> write_text(Sink& sink, const Cloud& cloud, const WriteOptions&) {
  using enum base::DType;
  static constexpr base::DType kTypes[] = {f32, f64, u8, u16, u32, u64, i8, i16, i32, i64};
  std::vector<std::string> losses;
  report_lost_extras(cloud, {}, losses);
  const Cloud fitted = fit_columns(cloud, kTypes, holds_one_element, losses);
  const char delimiter = has_extension(sink, ".csv") ? ',' : ' ';
  // .xyz files have no header anywhere; the first three columns must be the coordinates then.
  const bool has_header = !has_extension(sink, ".xyz");
  Cloud ordered(cloud.size());
  for (const char* axis : {"x", "y", "z"})
    ordered.add(fitted.get(axis).field, fitted.get(axis).values);
  for (const auto& column : fitted.columns()) ordered.add(column->field, column->values);
  const bool is_csv = delimiter == ',';
  std::vector<std::string> changed;
  std::string header;
  for (const std::string& name : written_names(
           names_of(ordered), is_csv ? name_between_commas : name_between_blanks, changed)) {
    header += header.empty() ? "" : std::string(1, delimiter);
    header += is_csv ? quoted_where_needed(name) : name;
  }
  if (has_header) {
    losses.insert(losses.end(), changed.begin(), changed.end());
    sink.write(header + "\n");
  } else if (ordered.columns().size() > 3) {
    losses.push_back("the names of the columns are not kept: " + header);
  }
  write_rows(sink, ordered, delimiter);
  return losses;
}

std::vector<std::string> write_pts(Sink& sink, const Cloud& cloud, const WriteOptions&) {
  std::vector<std::string> losses;
  report_lost_extras(cloud, {}, losses);
  Cloud chosen(cloud.size());
  const bool has_colours = cloud.find("r") && cloud.find("g") && cloud.find("b");
  for (const char* name : {"x", "y", "z", "intensity", "r", "g", "b"}) {
    const Column* column = cloud.find(name);
    const bool is_colour =
        name[1] == '\0' && std::string_view("rgb").find(name[0]) != std::string_view::npos;
    // Without a line nothing says that there are more columns.
    const bool is_told =
        cloud.size() > 0 || std::string_view("xyz").find(name) != std::string_view::npos;
    if (column != nullptr && column->field.count == 1 && (!is_colour || has_colours) && is_told)
      chosen.add(column->field, column->values);
  }
  for (const auto& column : cloud.columns()) {
    if (chosen.find(column->field.name) == nullptr)
      losses.push_back("field " + column->field.name + " is dropped");
  }
  sink.write(std::to_string(cloud.size()) + "\n");
  write_rows(sink, chosen, ' ');
  return losses;
}

}  // namespace

const Format kTextFormat{
    .name = "text",
    .extensions = {".xyz", ".csv", ".txt", ".asc"},
    .read = read_text,
    .write = write_text,
    .reading = "256 KiB and one column",
    .notes =
        "delimiter, header and column types are detected; coordinates are doubles, whole "
        "numbers stay integers; `.xyz` is written without a header",
    .has_header = false};
const Format kPtsFormat{.name = "pts",
                        .extensions = {".pts"},
                        .read = read_text,
                        .write = write_pts,
                        .reading = "256 KiB and one column",
                        .notes = "count line, then x y z [intensity] [r g b]",
                        .has_header = false};

}  // namespace io

#include "io/formats/text_table.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "gemm_core/base/error.hpp"
#include "io/number_text.hpp"
#include "io/records.hpp"

namespace io {
namespace {

bool is_blank_char(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank_char(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank_char(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view unquoted(std::string_view cell) {
  const bool is_quoted = cell.size() >= 2 && (cell.front() == '"' || cell.front() == '\'') &&
                         cell.front() == cell.back();
  return is_quoted ? trimmed(cell.substr(1, cell.size() - 2)) : cell;
}

// Where the cell that starts at `p` ends: at a delimiter outside quotes.
const char* cell_end(const char* p, const char* end, char delimiter) {
  char quote = 0;
  for (; p < end; ++p) {
    if (quote != 0) {
      if (*p == quote) quote = 0;
    } else if (*p == '"') {
      quote = *p;
    } else if (delimiter == ' ' ? is_blank_char(*p) : *p == delimiter) {
      break;
    }
  }
  return p;
}

std::vector<std::string_view> raw_cells(std::string_view row, char delimiter) {
  std::vector<std::string_view> cells;
  row = trimmed(row);
  const char *p = row.data(), *const end = p + row.size();
  while (p < end) {
    const char* const stop = cell_end(p, end, delimiter);
    cells.push_back(trimmed({p, stop}));
    p = stop;
    if (p == end) break;
    ++p;  // the delimiter; one at the very end of the line opens no cell
    if (delimiter == ' ') {
      while (p < end && is_blank_char(*p)) ++p;
    }
  }
  return cells;
}

bool is_decimal_comma_cell(std::string_view cell) {
  const auto comma = cell.find(',');
  return comma != std::string_view::npos && cell.find(',', comma + 1) == std::string_view::npos &&
         comma > 0 && is_digit(cell[comma - 1]) && comma + 1 < cell.size() &&
         is_digit(cell[comma + 1]) && cell.find('.') == std::string_view::npos;
}

// Delimiters between quotes are part of a cell.
std::string without_quoted_parts(std::string_view row) {
  std::string rest;
  bool is_inside = false;
  for (const char c : row) {
    is_inside = is_inside != (c == '"');
    rest += is_inside ? '"' : c;
  }
  return rest;
}

}  // namespace

TextStyle detect_style(std::string_view whole_row) {
  const std::string row = without_quoted_parts(whole_row);
  const bool has_comma = row.find(',') != std::string_view::npos;
  if (row.find(';') != std::string_view::npos)
    return {.delimiter = ';', .decimal_comma = has_comma};
  if (has_comma) {
    const auto cells = raw_cells(row, ' ');
    if (cells.size() >= 3 && std::any_of(cells.begin(), cells.end(), is_decimal_comma_cell) &&
        std::all_of(cells.begin(), cells.end(), [](std::string_view cell) {
          return is_decimal_comma_cell(cell) || cell.find(',') == std::string_view::npos;
        })) {
      return {.delimiter = ' ', .decimal_comma = true};
    }
    return {.delimiter = ','};
  }
  if (row.find('|') != std::string_view::npos) return {.delimiter = '|'};
  return {};
}

std::vector<std::string> split_cells(std::string_view row, const TextStyle& style) {
  std::vector<std::string> cells;
  for (const std::string_view cell : raw_cells(row, style.delimiter))
    cells.emplace_back(unquoted(cell));
  return cells;
}

bool is_number(std::string_view cell, const TextStyle& style) {
  std::string text(cell);
  if (style.decimal_comma) std::replace(text.begin(), text.end(), ',', '.');
  Number number;
  const char* const end = text.data() + text.size();
  return scan_number(text.data(), end, number) == end && !text.empty();
}

bool is_data_line(std::string_view line) {
  const char *p = line.data(), *const end = p + line.size();
  while (p < end && is_blank_char(*p)) ++p;
  if (p == end || *p == '#' || *p == '%') return false;
  return !(*p == '/' && p + 1 < end && p[1] == '/');
}

TextColumn::TextColumn(std::int64_t rows, bool is_real)
    : mode_(is_real ? Mode::real : Mode::whole), rows_(rows) {
  if (is_real) {
    real_ = new_column({rows}, base::DType::f64);
    real_values_ = real_.data<double>();
    return;
  }
  widen(0, 1);
}

bool TextColumn::store(std::int64_t row, std::int64_t whole) {
  const auto stored = [&]<class T>(T) {
    const T value = static_cast<T>(whole);
    static_cast<T*>(whole_values_)[row] = value;
    return value == whole;
  };
  switch (width_) {
    case 1:
      return stored(std::uint8_t{});
    case 2:
      return stored(std::uint16_t{});
    case 4:
      return stored(std::int32_t{});
    default:
      return stored(std::int64_t{});
  }
}

std::int64_t TextColumn::whole_at(std::int64_t row) const {
  switch (width_) {
    case 1:
      return static_cast<const std::uint8_t*>(whole_values_)[row];
    case 2:
      return static_cast<const std::uint16_t*>(whole_values_)[row];
    case 4:
      return static_cast<const std::int32_t*>(whole_values_)[row];
    default:
      return static_cast<const std::int64_t*>(whole_values_)[row];
  }
}

void TextColumn::widen(std::int64_t filled, int width) {
  using enum base::DType;
  TextColumn wide(*this);
  wide.width_ = width;
  wide.whole_ = new_column({rows_}, width == 1 ? u8 : width == 2 ? u16 : width == 4 ? i32 : i64);
  wide.whole_values_ = wide.whole_.data();
  for (std::int64_t i = 0; i < filled; ++i) wide.store(i, whole_at(i));
  *this = std::move(wide);
}

void TextColumn::become_real(std::int64_t filled) {
  real_ = new_column({rows_}, base::DType::f64);
  real_values_ = real_.data<double>();
  for (std::int64_t i = 0; i < filled; ++i) {
    const std::int64_t whole = whole_at(i);
    real_values_[i] = mode_ == Mode::unsigned_whole
                          ? static_cast<double>(static_cast<std::uint64_t>(whole))
                          : static_cast<double>(whole);
  }
  whole_ = {};
  mode_ = Mode::real;
}

void TextColumn::put_whole(std::int64_t row, const Number& number, const char* begin,
                           const char* end) {
  if (number.is_integer && (mode_ == Mode::whole || number.integer >= 0)) {
    low_ = row == 0 ? number.integer : std::min(low_, number.integer);
    high_ = row == 0 ? number.integer : std::max(high_, number.integer);
    if (store(row, number.integer)) return;
    const bool is_small = low_ >= std::numeric_limits<std::int32_t>::min() &&
                          high_ <= std::numeric_limits<std::int32_t>::max();
    widen(row, low_ >= 0 && high_ <= 65535 ? 2 : is_small ? 4 : 8);
    store(row, number.integer);
    return;
  }
  std::uint64_t word = 0;
  const auto result = std::from_chars(begin, end, word);
  if (!number.is_integer && result.ec == std::errc() && result.ptr == end &&
      (row == 0 || low_ >= 0)) {
    if (row == 0) low_ = std::numeric_limits<std::int64_t>::max();
    if (width_ != 8) widen(row, 8);
    mode_ = Mode::unsigned_whole;
    store(row, static_cast<std::int64_t>(word));
    return;
  }
  become_real(row);
  real_values_[row] = number.value;
}

base::Tensor TextColumn::take(bool is_colour) {
  using enum base::DType;
  if (mode_ == Mode::real) return std::move(real_);
  const base::DType type = mode_ == Mode::unsigned_whole ? u64
                           : width_ == 8                 ? i64
                           : width_ == 4 || !is_colour   ? i32
                           : width_ == 2                 ? u16
                                                         : u8;
  if (type == whole_.dtype()) return std::move(whole_);
  base::Tensor result = new_column({rows_}, type);
  if (type == u64) {
    auto* const values = result.data<std::uint64_t>();
    for (std::int64_t i = 0; i < rows_; ++i) values[i] = static_cast<std::uint64_t>(whole_at(i));
  } else {
    auto* const values = result.data<std::int32_t>();
    for (std::int64_t i = 0; i < rows_; ++i) values[i] = static_cast<std::int32_t>(whole_at(i));
  }
  whole_ = {};
  return result;
}

TextTable::TextTable(std::int64_t rows, const TextStyle& style, std::vector<bool> is_real,
                     std::vector<bool> is_skipped)
    : style_(style), is_skipped_(std::move(is_skipped)), rows_(rows) {
  for (std::size_t c = 0; c < is_real.size(); ++c)
    columns_.emplace_back(is_skipped_[c] ? 0 : rows, is_real[c]);
  has_plain_rows_ = !style.decimal_comma &&
                    std::find(is_skipped_.begin(), is_skipped_.end(), true) == is_skipped_.end();
}

void TextTable::fail_count(std::string_view line, std::int64_t line_number) const {
  base::fail("line ", line_number, ": ", raw_cells(line, style_.delimiter).size(), " columns, ",
             columns_.size(), " are expected");
}

// Quoted numbers, decimal commas, text in skipped columns, and what is no number at all.
const char* TextTable::parse_odd_cell(const char* p, const char* end, std::size_t column,
                                      std::int64_t line_number) {
  const char* const stop = cell_end(p, end, style_.delimiter);
  if (is_skipped_[column]) return stop;
  const std::string_view cell = unquoted(trimmed({p, stop}));
  std::string text(cell);
  if (style_.decimal_comma) std::replace(text.begin(), text.end(), ',', '.');
  Number number;
  const char* const text_end = text.data() + text.size();
  if (text.empty() || scan_number(text.data(), text_end, number) != text_end) {
    const bool has_comma = cell.find(',') != std::string_view::npos;
    base::fail("line ", line_number, ", column ", column + 1, ": ", quote(cell),
               cell.empty() ? " is empty" : " is not a number",
               has_comma ? " (decimal comma?)" : "");
  }
  columns_[column].put(filled_, number, text.data(), text_end);
  return stop;
}

const char* TextTable::parse_cell(const char* p, const char* end, std::size_t column,
                                  std::int64_t line_number) {
  if (!is_skipped_[column]) {
    Number number;
    const char* const after = scan_number(p, end, number);
    if (after != nullptr && (after == end || is_blank_char(*after) || *after == style_.delimiter)) {
      columns_[column].put(filled_, number, p, after);
      return after;
    }
  }
  return parse_odd_cell(p, end, column, line_number);
}

// The start of the next line, or null: this row is for parse(). Cells that were put before are put
// again there, the same.
const char* TextTable::parse_plain_row(const char* p, const char* end) {
  const char delimiter = style_.delimiter;
  const std::size_t last = columns_.size() - 1;
  for (std::size_t c = 0;; ++c) {
    while (p < end && (*p == ' ' || *p == '\t')) ++p;
    Number number;
    const char* after = scan_number(p, end, number);
    if (after == nullptr || after == end) return nullptr;
    const char* const cell_end = after;
    if (c == last) {
      while (after < end && (*after == ' ' || *after == '\t' || *after == '\r')) ++after;
      if (after == end || *after != '\n') return nullptr;
      columns_[c].put(filled_, number, p, cell_end);
      return after + 1;
    }
    if (delimiter != ' ') {
      while (after < end && (*after == ' ' || *after == '\t')) ++after;
      if (after == end || *after != delimiter) return nullptr;
    } else if (*after != ' ' && *after != '\t') {
      return nullptr;
    }
    columns_[c].put(filled_, number, p, cell_end);
    p = after + 1;
  }
}

TakenRows TextTable::parse_plain_rows(std::string_view lines) {
  if (!has_plain_rows_ || columns_.empty()) return {};
  return take_plain_rows(lines, rows_ - filled_, [&](const char* p, const char* end) {
    const char* const next = parse_plain_row(p, end);
    if (next != nullptr) ++filled_;
    return next;
  });
}

void TextTable::parse(std::string_view line, std::int64_t line_number) {
  const char *p = line.data(), *const end = p + line.size();
  const auto skip_blanks = [&] {
    while (p < end && is_blank_char(*p)) ++p;
  };
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    skip_blanks();
    if (p == end) fail_count(line, line_number);
    p = parse_cell(p, end, c, line_number);
    skip_blanks();
    if (style_.delimiter == ' ' || p == end) continue;
    // Blanks alone do not separate where another character does.
    if (*p != style_.delimiter)
      parse_odd_cell(line.data(), end, c, line_number), fail_count(line, line_number);
    ++p;
  }
  skip_blanks();
  if (p < end) fail_count(line, line_number);
  ++filled_;
}

}  // namespace io

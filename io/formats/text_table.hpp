// Tables of numbers in text: which characters separate cells, what the cells are called, and the
// columns themselves.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/cloud.hpp"
#include "io/number_text.hpp"
#include "io/plain_rows.hpp"
#include "io/source.hpp"

namespace io {

struct TextStyle {
  char delimiter = ' ';        // ' ' stands for any run of blanks and tabs
  bool decimal_comma = false;  // 1,5 is one and a half
};

// Chosen by a row of the table: semicolons and tabs before commas; a comma between digits in each
// of three or more cells that something else separates is a decimal comma.
TextStyle detect_style(std::string_view row);

// Cells without blanks around them and without quotes.
std::vector<std::string> split_cells(std::string_view row, const TextStyle& style);
bool is_number(std::string_view cell, const TextStyle& style);
// Blank, or a comment: # // %
bool is_data_line(std::string_view line);

// One column whose type is found while it grows: whole numbers until something else turns up.
class TextColumn {
 public:
  TextColumn(std::int64_t rows, bool is_real);
  void put(std::int64_t row, const Number& number, const char* begin, const char* end) {
    if (mode_ == Mode::real) {
      real_values_[row] = number.value;
    } else {
      put_whole(row, number, begin, end);
    }
  }
  bool is_whole() const { return mode_ != Mode::real; }
  bool fits(std::int64_t low, std::int64_t high) const {
    return mode_ == Mode::whole && low_ >= low && high_ <= high;
  }
  // Doubles, or the smallest of int32, int64, uint64 (uint8, uint16 for colours) that holds the
  // whole numbers.
  base::Tensor take(bool is_colour);

 private:
  enum class Mode { whole, unsigned_whole, real };
  void put_whole(std::int64_t row, const Number& number, const char* begin, const char* end);
  bool store(std::int64_t row, std::int64_t whole);  // false: too large for its width
  void widen(std::int64_t filled, int width);
  std::int64_t whole_at(std::int64_t row) const;
  void become_real(std::int64_t filled);

  Mode mode_;
  std::int64_t rows_, low_ = 0, high_ = 0;
  base::Tensor real_;
  double* real_values_ =
      nullptr;  // of real_; asking the tensor for every value costs more than parsing it
  // Whole numbers take the bytes that the largest so far needs: 1 and 2 without a sign, 4 and 8
  // with one (8 hold uint64 where the mode says so).
  base::Tensor whole_;
  void* whole_values_ = nullptr;  // of whole_
  int width_ = 1;
};

// Parses rows into columns. Cells of columns that are skipped may hold anything.
class TextTable {
 public:
  TextTable(std::int64_t rows, const TextStyle& style, std::vector<bool> is_real,
            std::vector<bool> is_skipped);
  void parse(std::string_view line, std::int64_t line_number);
  // As many plain rows (numbers, delimiters, line feeds) as `lines` begins with; whole lines. The
  // row at which it stops is for parse(), which takes everything and says what is wrong.
  TakenRows parse_plain_rows(std::string_view lines);
  std::int64_t rows() const { return filled_; }
  std::vector<TextColumn>& columns() { return columns_; }

 private:
  const char* parse_cell(const char* p, const char* end, std::size_t column,
                         std::int64_t line_number);
  const char* parse_plain_row(const char* p, const char* end);
  const char* parse_odd_cell(const char* p, const char* end, std::size_t column,
                             std::int64_t line_number);
  [[noreturn]] void fail_count(std::string_view line, std::int64_t line_number) const;

  TextStyle style_;
  std::vector<bool> is_skipped_;
  std::vector<TextColumn> columns_;
  bool has_plain_rows_ = true;  // no column is skipped, no decimal commas
  std::int64_t filled_ = 0, rows_ = 0;
};

}  // namespace io

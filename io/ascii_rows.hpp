// Rows of numbers with declared types, as in ascii PCD and PLY: a line a point, separated by blanks
// or commas.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/plain_rows.hpp"
#include "io/records.hpp"

namespace io {

class AsciiRows {
 public:
  // `is_list[f]`: the field is a count followed by as many values, which are checked and dropped.
  // May be empty.
  AsciiRows(const RecordLayout& layout, std::vector<bool> is_list, std::string_view row_name,
            std::int64_t points);

  // Takes the line as the next point. Error names line, row, field and what stands there.
  void parse(std::string_view line, std::int64_t line_number);
  // As many plain rows (numbers, separators, line feeds) as `lines` begins with; whole lines. The
  // row at which it stops is for parse(), which takes everything and says what is wrong.
  TakenRows parse_plain_rows(std::string_view lines);
  std::int64_t filled() const { return filled_; }
  void move_into(Cloud& cloud);

 private:
  const char* parse_plain_row(const char* p, const char* end) const;
  [[noreturn]] void fail_at(std::int64_t line_number, const std::string& what) const;
  std::int64_t values_expected() const;

  const RecordLayout& layout_;
  std::vector<bool> is_list_;
  std::string_view row_name_;
  bool has_plain_rows_ = true;  // one element a field, all kept
  std::int64_t filled_ = 0, points_ = 0;
  std::vector<base::Tensor> columns_;
  std::vector<char*> begins_;  // of the columns
};

bool is_blank(std::string_view line);

}  // namespace io

#include "io/ascii_rows.hpp"

#include <algorithm>
#include <cstring>

#include "io/number_text.hpp"

namespace io {
namespace {

bool is_separator(char c) {
  return c == ' ' || c == '\t' || c == ',' || c == '\r' || c == '\v' || c == '\f';
}

const char* skip_separators(const char* p, const char* end) {
  while (p < end && is_separator(*p)) ++p;
  return p;
}

const char* token_end(const char* p, const char* end) {
  while (p < end && !is_separator(*p)) ++p;
  return p;
}

std::int64_t count_tokens(std::string_view line) {
  const char *p = line.data(), *const end = p + line.size();
  std::int64_t count = 0;
  for (p = skip_separators(p, end); p < end; p = skip_separators(token_end(p, end), end)) ++count;
  return count;
}

}  // namespace

bool is_blank(std::string_view line) { return std::all_of(line.begin(), line.end(), is_separator); }

AsciiRows::AsciiRows(const RecordLayout& layout, std::vector<bool> is_list,
                     std::string_view row_name, std::int64_t points)
    : layout_(layout), is_list_(std::move(is_list)), row_name_(row_name), points_(points) {
  is_list_.resize(layout.fields.size());
  has_plain_rows_ = std::find(is_list_.begin(), is_list_.end(), true) == is_list_.end();
  for (const RecordField& field : layout.fields) {
    columns_.push_back(field.is_skipped   ? base::Tensor()
                       : field.count == 1 ? new_column({points}, field.type)
                                          : new_column({points, field.count}, field.type));
    begins_.push_back(static_cast<char*>(columns_.back().data()));
    has_plain_rows_ = has_plain_rows_ && !field.is_skipped && field.count == 1;
  }
}

void AsciiRows::fail_at(std::int64_t line_number, const std::string& what) const {
  base::fail("line ", line_number, " (", row_name_, " ", filled_, "): ", what);
}

std::int64_t AsciiRows::values_expected() const {
  std::int64_t count = 0;
  for (const RecordField& field : layout_.fields) count += field.count;
  return count;
}

// The start of the next line, or null: this row is for parse(), which stores the same values again.
const char* AsciiRows::parse_plain_row(const char* p, const char* end) const {
  for (std::size_t f = 0; f < begins_.size(); ++f) {
    while (p < end && (*p == ' ' || *p == '\t')) ++p;
    Number number;
    const char* const after = scan_number(p, end, number);
    if (after == nullptr || after == end || (*after != '\n' && !is_separator(*after)))
      return nullptr;
    const base::DType type = layout_.fields[f].type;
    char* const out = begins_[f] + filled_ * base::bytes(type);
    if (type == base::DType::f64) {
      std::memcpy(out, &number.value, sizeof(double));
    } else if (!store_number(number, p, after, type, out)) {
      return nullptr;
    }
    p = after;
  }
  p = skip_separators(p, end);
  return p < end && *p == '\n' ? p + 1 : nullptr;
}

TakenRows AsciiRows::parse_plain_rows(std::string_view lines) {
  if (!has_plain_rows_ || begins_.empty()) return {};
  return take_plain_rows(lines, points_ - filled_, [&](const char* p, const char* end) {
    const char* const next = parse_plain_row(p, end);
    if (next != nullptr) ++filled_;
    return next;
  });
}

void AsciiRows::parse(std::string_view line, std::int64_t line_number) {
  const char *p = line.data(), *const end = p + line.size();
  for (std::size_t f = 0; f < columns_.size(); ++f) {
    const RecordField& field = layout_.fields[f];
    const std::int64_t element = base::bytes(field.type);
    char* out = field.is_skipped ? nullptr : begins_[f] + filled_ * field.count * element;
    std::int64_t wanted = field.count;
    for (std::int64_t e = 0; e < wanted; ++e) {
      p = skip_separators(p, end);
      if (p == end) {
        fail_at(line_number, base::concat(count_tokens(line), " values, ",
                                          is_list_[f] ? "more" : std::to_string(values_expected()),
                                          " are expected; ", field.name, " is missing"));
      }
      Number number;
      const char* const after = scan_number(p, end, number);
      if (after == nullptr || (after < end && !is_separator(*after))) {
        fail_at(line_number, base::concat("field ", field.name, ": ", quote({p, token_end(p, end)}),
                                          " is not a number"));
      }
      if (is_list_[f] && e == 0) {
        if (!number.is_integer || number.integer < 0 || number.integer > end - p) {
          fail_at(line_number,
                  base::concat("list ", field.name, " has a count of ", quote({p, after})));
        }
        wanted += number.integer;
      } else if (out != nullptr && field.type == base::DType::f64) {
        std::memcpy(out + e * element, &number.value, sizeof(double));
      } else if (out != nullptr && !store_number(number, p, after, field.type, out + e * element)) {
        fail_at(line_number, base::concat("field ", field.name, ": ", quote({p, after}),
                                          " does not fit ", base::name(field.type)));
      }
      p = after;
    }
  }
  p = skip_separators(p, end);
  if (p < end) {
    fail_at(line_number,
            base::concat(count_tokens(line), " values, ", count_tokens({line.data(), p}),
                         " are expected: ", quote({p, end})));
  }
  ++filled_;
}

void AsciiRows::move_into(Cloud& cloud) {
  for (std::size_t f = 0; f < columns_.size(); ++f) {
    const RecordField& field = layout_.fields[f];
    if (!field.is_skipped)
      cloud.add(Field{field.name, field.type, field.count, ""}, std::move(columns_[f]));
  }
}

}  // namespace io

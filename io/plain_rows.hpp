// The fast path of tables of numbers in text: rows without surprises, taken in one pass.
#pragma once
#include <cstdint>
#include <string_view>

namespace io {

struct TakenRows {
  std::size_t bytes = 0;
  std::int64_t rows = 0;
};

// As many rows, at most `wanted`, as `lines` begins with. parse_row(p, end) stores the row at
// p and returns the start of the next line, or null where the row needs another parser.
template <class ParseRow>
TakenRows take_plain_rows(std::string_view lines, std::int64_t wanted, const ParseRow& parse_row) {
  TakenRows taken;
  const char *p = lines.data(), *const end = p + lines.size();
  while (p < end && taken.rows < wanted) {
    const char* const next = parse_row(p, end);
    if (next == nullptr) break;
    p = next;
    ++taken.rows;
  }
  taken.bytes = static_cast<std::size_t>(p - lines.data());
  return taken;
}

}  // namespace io

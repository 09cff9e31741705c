// Numbers in text, independent of the locale: a fast exact path for what files hold,
// std::from_chars for the rest.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "gemm_core/base/dtype.hpp"

namespace io {

struct Number {
  double value = 0;
  std::int64_t integer = 0;
  bool is_integer =
      false;  // written without point or exponent and within int64: then `integer` is exact
};

// Reads one number at the start of [begin, end): decimal, nan or inf in any case, as C and Windows
// spell them. Returns where it ends, or nullptr when there is no number.
const char* scan_number_slowly(const char* begin, const char* end, Number& number);

inline const char* scan_number(const char* begin, const char* end, Number& number) {
  static constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char* p = begin;
  const bool negative = p < end && *p == '-';
  p += negative;
  std::uint64_t mantissa = 0;
  const char* const digits = p;
  while (p < end && static_cast<unsigned char>(*p - '0') < 10)
    mantissa = mantissa * 10 + static_cast<unsigned char>(*p++ - '0');
  std::int64_t count = p - digits, fraction = 0;
  bool is_integer = true;
  if (p < end && *p == '.') {
    const char* const point = ++p;
    while (p < end && static_cast<unsigned char>(*p - '0') < 10)
      mantissa = mantissa * 10 + static_cast<unsigned char>(*p++ - '0');
    fraction = p - point;
    count += fraction;
    is_integer = false;
  }
  // 18 digits fit 64 bits; a power of ten up to 22 and a mantissa up to 2^53 are exact doubles, so
  // one operation rounds correctly (Clinger 1990).
  if (count == 0 || count > 18 || (p < end && ((*p | 32) == 'e' || *p == '#')))
    return scan_number_slowly(begin, end, number);
  if (mantissa > (std::uint64_t{1} << 53) && !is_integer)
    return scan_number_slowly(begin, end, number);
  const double magnitude = static_cast<double>(mantissa) / kPowers[fraction];
  number.value = negative ? -magnitude : magnitude;
  number.integer =
      negative ? -static_cast<std::int64_t>(mantissa) : static_cast<std::int64_t>(mantissa);
  number.is_integer = is_integer && !(negative && mantissa == 0);
  return p;
}

// Writes the number scanned from [begin, end) as an element of `type`; false when the type cannot
// hold it (an integer out of range, a fraction or nan in an integer field). Floats round correctly
// from the text.
bool store_number(const Number& number, const char* begin, const char* end, base::DType type,
                  void* out);

// Unsigned decimal, nothing else around it; false when it is none or does not fit.
bool parse_count(std::string_view text, std::int64_t& out);

// Shortest text that reads back as the same value; nan, inf and -inf. Returns its end; `out` has
// room for kMaxNumberChars.
inline constexpr int kMaxNumberChars = 40;
char* write_number(char* out, float value);
char* write_number(char* out, double value);
char* write_number(char* out, std::int64_t value);
char* write_number(char* out, std::uint64_t value);

// For messages: at most 40 characters, in quotes, bytes that are no printable ASCII as \xNN.
std::string quote(std::string_view text);
// Valid UTF-8: bytes that are none become U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace io

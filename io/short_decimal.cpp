#include "io/short_decimal.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace io {
namespace {

constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                              1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};  // exact
// Here std::to_chars never prefers an exponent.
constexpr double kLeast = 1e-3, kLimit = 1e5;

// Of a magnitude in [kLeast, kLimit): -3 .. 4.
int decimal_exponent(double magnitude) {
  int exponent = -3;
  for (const double power : {1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4}) exponent += magnitude >= power;
  return exponent;
}

// Digits as bytes 0 .. 9, the first in the lowest byte: eight, from a number below 10^8.
std::uint64_t eight_digits(std::uint32_t number) {
  std::uint64_t parts = number / 10000 | std::uint64_t{number % 10000} << 32;  // of 4 digits
  const std::uint64_t hundreds = (parts * 10486 >> 20) & 0x0000007f0000007f;
  parts = hundreds | (parts - 100 * hundreds) << 16;  // of 2
  const std::uint64_t tens = (parts * 103 >> 10) & 0x000f000f000f000f;
  return tens | (parts - 10 * tens) << 8;
}

// digits / 10^fraction of at most 16 digits, without a point where fraction <= 0. In registers: a
// load of bytes that were just stored one by one would wait for them.
char* write_fixed(char* out, std::uint64_t digits, int fraction) {
  __extension__ typedef unsigned __int128 Text;
  const std::uint64_t high = eight_digits(static_cast<std::uint32_t>(digits / 100000000)),
                      low = eight_digits(static_cast<std::uint32_t>(digits % 100000000));
  const int leading =
      (high != 0 ? std::countr_zero(high) : 64 + std::countr_zero(low | std::uint64_t{1} << 56)) /
      8;
  const Text zeros = Text{0x3030303030303030} << 64 | 0x3030303030303030;
  const Text text = (Text{low} << 64 | high | zeros) >> (8 * leading);
  const int length = 16 - leading, whole = length - fraction;
  const auto put = [](char* to, Text bytes) { std::memcpy(to, &bytes, sizeof bytes); };
  if (whole <= 0) {  // 0.00ddd
    std::memcpy(out, "0.000000", 8);
    put(out + 2 - whole, text);
    return out + 2 + fraction;
  }
  put(out, text);
  if (fraction <= 0) {
    std::memset(out + length, '0', 8);
    return out + whole;
  }
  out[whole] = '.';
  put(out + whole + 1, text >> (8 * whole));
  return out + length + 1;
}

}  // namespace

char* write_short_decimal(char* out, double value) {
  const double magnitude = std::fabs(value);
  if (!(magnitude >= kLeast && magnitude < kLimit)) return nullptr;
  // No two decimals of up to 15 digits are the same double, and one division of exact numbers
  // rounds as reading does (Clinger 1990): where it gives the value, these are its digits.
  int fraction = 14 - decimal_exponent(magnitude);
  const double rounded = std::nearbyint(magnitude * kPowers[fraction]);
  if (rounded / kPowers[fraction] != magnitude) return nullptr;
  auto digits = static_cast<std::uint64_t>(rounded);
  while (digits % 10 == 0) {
    digits /= 10;
    --fraction;
  }
  *out = '-';
  return write_fixed(out + (value < 0), digits, fraction);
}

}  // namespace io

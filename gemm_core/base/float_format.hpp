// Floating point formats as data, and the one conversion between them: unpack exactly, round once.
// All narrow types are made of this. Subnormals round like any other value; nothing is flushed to
// zero; zero keeps its sign.
#pragma once
#include <limits>

#include "gemm_core/base/host_device.hpp"

namespace base {

enum class Rounding : std::uint8_t { nearest_even, nearest_away };

// What becomes of values that round past the largest finite one, and of infinities. Formats without
// an infinity give NaN for `infinity`; integers always go to the nearest end of their range.
enum class Overflow : std::uint8_t { infinity, saturate, nan };

struct FloatFormat {
  int exponent_bits, fraction_bits;
  bool has_infinity = true;  // false: only the code of all ones is NaN, the rest of the top
                             // exponent is finite (e4m3)

  BASE_HD constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  BASE_HD constexpr std::uint64_t infinity_code() const {
    return ((std::uint64_t(1) << exponent_bits) - 1) << fraction_bits;
  }
  BASE_HD constexpr std::uint64_t nan_code() const {
    const std::uint64_t ones = (std::uint64_t(1) << (exponent_bits + fraction_bits)) - 1;
    return has_infinity ? infinity_code() | (std::uint64_t(1) << (fraction_bits - 1)) : ones;
  }
  BASE_HD constexpr std::uint64_t largest_code() const {
    return has_infinity ? infinity_code() - 1 : nan_code() - 1;
  }
  BASE_HD constexpr std::uint64_t sign_bit() const {
    return std::uint64_t(1) << (exponent_bits + fraction_bits);
  }
};

// Functions, since device code may not refer to constants of class type.
namespace format {

BASE_HD constexpr FloatFormat f64() { return {11, 52}; }
BASE_HD constexpr FloatFormat f32() { return {8, 23}; }
BASE_HD constexpr FloatFormat f16() { return {5, 10}; }
BASE_HD constexpr FloatFormat bf16() { return {8, 7}; }
BASE_HD constexpr FloatFormat tf32() { return {8, 10}; }
BASE_HD constexpr FloatFormat e5m2() { return {5, 2}; }
BASE_HD constexpr FloatFormat e4m3() { return {4, 3, false}; }

}  // namespace format

// significand * 2^exponent with a sign, an infinity, or NaN.
struct Unpacked {
  enum class Kind : std::uint8_t { finite, infinity, nan } kind = Kind::finite;
  bool is_negative = false;
  std::uint64_t significand = 0;
  int exponent = 0;
};

BASE_HD constexpr Unpacked unpack(FloatFormat format, std::uint64_t code) {
  Unpacked out{.is_negative = (code & format.sign_bit()) != 0};
  const std::uint64_t magnitude = code & (format.sign_bit() - 1);
  if (magnitude > format.largest_code()) {
    const bool infinite = format.has_infinity && magnitude == format.infinity_code();
    out.kind = infinite ? Unpacked::Kind::infinity : Unpacked::Kind::nan;
    return out;
  }
  const int field = static_cast<int>(magnitude >> format.fraction_bits);
  const std::uint64_t one = std::uint64_t(1) << format.fraction_bits;
  out.significand = (magnitude & (one - 1)) | (field != 0 ? one : 0);
  out.exponent = (field != 0 ? field : 1) - format.bias() - format.fraction_bits;
  return out;
}

BASE_HD constexpr Unpacked unpack_integer(std::int64_t value) {
  const std::uint64_t magnitude = static_cast<std::uint64_t>(value);
  return {.is_negative = value < 0, .significand = value < 0 ? 0 - magnitude : magnitude};
}

// value / 2^shift, rounded to an integer.
BASE_HD constexpr std::uint64_t round_shift(std::uint64_t value, int shift, Rounding rounding) {
  if (shift <= 0) return value << -shift;
  if (shift > 64) return 0;
  const std::uint64_t kept = shift == 64 ? 0 : value >> shift;
  const std::uint64_t half = std::uint64_t(1) << (shift - 1);
  const std::uint64_t rest = shift == 64 ? value : value & (2 * half - 1);
  const bool tie_goes_up = rounding == Rounding::nearest_away || (kept & 1) != 0;
  return kept + (rest > half || (rest == half && tie_goes_up));
}

BASE_HD constexpr std::uint64_t overflow_code(FloatFormat format, Overflow overflow) {
  if (overflow == Overflow::saturate) return format.largest_code();
  return overflow == Overflow::infinity && format.has_infinity ? format.infinity_code()
                                                               : format.nan_code();
}

BASE_HD constexpr std::uint64_t pack(FloatFormat format, const Unpacked& x, Rounding rounding,
                                     Overflow overflow) {
  const std::uint64_t sign = x.is_negative ? format.sign_bit() : 0;
  if (x.kind == Unpacked::Kind::nan) return sign | format.nan_code();
  if (x.kind == Unpacked::Kind::infinity) return sign | overflow_code(format, overflow);
  if (x.significand == 0) return sign;
  const int lowest =
      1 - format.bias();  // exponent of the smallest normal number, and of all subnormal ones
  const int top = x.exponent + bit_width(x.significand) - 1;
  if (top > format.bias() + 2) return sign | overflow_code(format, overflow);
  const int exponent = top > lowest ? top : lowest;
  const std::uint64_t rounded =
      round_shift(x.significand, exponent - format.fraction_bits - x.exponent, rounding);
  // A carry out of the fraction runs into the exponent field, which is right in every case.
  const std::uint64_t code =
      rounded + (static_cast<std::uint64_t>(exponent - lowest) << format.fraction_bits);
  return sign | (code > format.largest_code() ? overflow_code(format, overflow) : code);
}

// The nearest integer in [low, high]; NaN gives 0.
BASE_HD constexpr std::int64_t pack_integer(const Unpacked& x, Rounding rounding, std::int64_t low,
                                            std::int64_t high) {
  if (x.kind == Unpacked::Kind::nan) return 0;
  const bool huge =
      x.kind == Unpacked::Kind::infinity || x.exponent + bit_width(x.significand) > 63;
  if (huge && (x.significand != 0 || x.kind == Unpacked::Kind::infinity))
    return x.is_negative ? low : high;
  const std::int64_t magnitude =
      static_cast<std::int64_t>(round_shift(x.significand, -x.exponent, rounding));
  const std::int64_t value = x.is_negative ? -magnitude : magnitude;
  return value < low ? low : value > high ? high : value;
}

}  // namespace base

// Integers of 1, 2 and 4 bits, held in a byte; arrays pack them, element 0 in the lowest bits
// (array.hpp). Conversion rounds to nearest even and saturates; NaN gives 0.
#pragma once
#include "gemm_core/base/float_format.hpp"

namespace base {

template <int kBits, bool kIsSigned>
struct SmallInteger {
  static_assert(kBits >= 1 && kBits < 8);
  static constexpr int kLow = kIsSigned ? -(1 << (kBits - 1)) : 0;
  static constexpr int kHigh = kIsSigned ? (1 << (kBits - 1)) - 1 : (1 << kBits) - 1;

  std::int8_t value = 0;
  SmallInteger() = default;
  BASE_HD constexpr explicit SmallInteger(int v)
      : value(static_cast<std::int8_t>(v < kLow    ? kLow
                                       : v > kHigh ? kHigh
                                                   : v)) {}
  BASE_HD constexpr explicit SmallInteger(float v)
      : value(
            static_cast<std::int8_t>(pack_integer(unpack(format::f32(), bit_cast<std::uint32_t>(v)),
                                                  Rounding::nearest_even, kLow, kHigh))) {}
  BASE_HD constexpr operator int() const { return value; }

  // The low kBits of a word.
  BASE_HD static constexpr SmallInteger from_bits(std::uint32_t word) {
    const int field = static_cast<int>(word & ((1u << kBits) - 1));
    return SmallInteger(field > kHigh ? field - (1 << kBits) : field);
  }
  BASE_HD constexpr std::uint32_t bits() const {
    return static_cast<std::uint32_t>(value) & ((1u << kBits) - 1);
  }
};

using int4_t = SmallInteger<4, true>;
using int2_t = SmallInteger<2, true>;
using int1_t = SmallInteger<1, true>;  // 0 and -1
using uint4_t = SmallInteger<4, false>;
using uint2_t = SmallInteger<2, false>;
using uint1_t = SmallInteger<1, false>;

}  // namespace base

// The two 8-bit floating point types. e4m3_t: no infinity, largest value 448. e5m2_t: IEEE-like,
// largest value 57344. Conversion from float rounds to nearest even and saturates, as quantisation
// wants it; other rules: convert.hpp.
#pragma once
#include "gemm_core/base/float_format.hpp"

namespace base {

namespace detail {

template <FloatFormat (*kFormat)()>
struct Float8 {
  std::uint8_t bits = 0;
  Float8() = default;
  BASE_HD constexpr explicit Float8(float value)
      : bits(static_cast<std::uint8_t>(pack(kFormat(),
                                            unpack(format::f32(), bit_cast<std::uint32_t>(value)),
                                            Rounding::nearest_even, Overflow::saturate))) {}
  BASE_HD constexpr operator float() const {
    return bit_cast<float>(static_cast<std::uint32_t>(
        pack(format::f32(), unpack(kFormat(), bits), Rounding::nearest_even, Overflow::infinity)));
  }
  BASE_HD static constexpr Float8 from_bits(std::uint8_t b) {
    Float8 f;
    f.bits = b;
    return f;
  }
};

}  // namespace detail

using e4m3_t = detail::Float8<&format::e4m3>;
using e5m2_t = detail::Float8<&format::e5m2>;

}  // namespace base

// convert<To>(x): by value, exact to the bit, one rounding from any number type to any other
// (integers included).
//   convert<e4m3_t>(x)                                               // nearest even, saturates
//   convert<e4m3_t, Rounding::nearest_even, Overflow::nan>(x)
//   convert<tf32_t, Rounding::nearest_away>(x)
// NaN gives a NaN of the target, or 0 where the target is an integer; integers go to the nearest
// end of their range.
#pragma once
#include <limits>
#include <type_traits>

#include "gemm_core/base/numeric.hpp"

namespace base {

namespace detail {

template <class T>
struct FormatOf : std::false_type {};
template <>
struct FormatOf<double> : std::true_type {
  BASE_HD static constexpr FloatFormat get() { return format::f64(); }
};
template <>
struct FormatOf<float> : std::true_type {
  BASE_HD static constexpr FloatFormat get() { return format::f32(); }
};
template <>
struct FormatOf<half_t> : std::true_type {
  BASE_HD static constexpr FloatFormat get() { return format::f16(); }
};
template <>
struct FormatOf<bf16_t> : std::true_type {
  BASE_HD static constexpr FloatFormat get() { return format::bf16(); }
};
template <>
struct FormatOf<tf32_t> : std::true_type {
  BASE_HD static constexpr FloatFormat get() { return format::tf32(); }
};
template <>
struct FormatOf<e4m3_t> : std::true_type {
  BASE_HD static constexpr FloatFormat get() { return format::e4m3(); }
};
template <>
struct FormatOf<e5m2_t> : std::true_type {
  BASE_HD static constexpr FloatFormat get() { return format::e5m2(); }
};

template <class T>
struct is_small_integer : std::false_type {};
template <int B, bool S>
struct is_small_integer<SmallInteger<B, S>> : std::true_type {};

// The bits of a floating point type in the low part of a word; tf32 without the 13 that it does not
// have.
template <class T>
BASE_HD constexpr std::uint64_t code_of(const T& x) {
  if constexpr (std::is_same_v<T, double>)
    return bit_cast<std::uint64_t>(x);
  else if constexpr (std::is_same_v<T, float>)
    return bit_cast<std::uint32_t>(x);
  else if constexpr (std::is_same_v<T, tf32_t>)
    return bit_cast<std::uint32_t>(x.value) >> 13;
  else
    return x.bits;
}

template <class T>
BASE_HD constexpr T from_code(std::uint64_t code) {
  if constexpr (std::is_same_v<T, double>)
    return bit_cast<double>(code);
  else if constexpr (std::is_same_v<T, float>)
    return bit_cast<float>(static_cast<std::uint32_t>(code));
  else if constexpr (std::is_same_v<T, tf32_t>)
    return T(bit_cast<float>(static_cast<std::uint32_t>(code << 13)));
  else
    return T::from_bits(static_cast<decltype(T::bits)>(code));
}

template <class T>
BASE_HD constexpr Unpacked unpack_value(const T& x) {
  if constexpr (FormatOf<T>::value)
    return unpack(FormatOf<T>::get(), code_of(x));
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return {.significand = x};
  else
    return unpack_integer(static_cast<std::int64_t>(x));
}

}  // namespace detail

template <class T>
inline constexpr bool is_float_v = detail::FormatOf<T>::value;
template <class T>
inline constexpr bool is_small_integer_v = detail::is_small_integer<T>::value;
template <class T>
inline constexpr bool is_real_v = is_float_v<T> || std::is_integral_v<T> || is_small_integer_v<T>;

template <class T>
inline constexpr Overflow default_overflow =
    std::is_same_v<T, e4m3_t> || std::is_same_v<T, e5m2_t> ? Overflow::saturate
                                                           : Overflow::infinity;

template <class To, Rounding kRounding = Rounding::nearest_even,
          Overflow kOverflow = default_overflow<To>, class From>
BASE_HD constexpr To convert(const From& x) {
  static_assert(is_real_v<To> && is_real_v<From>, "convert: expected number types");
  const Unpacked exact = detail::unpack_value(x);
  if constexpr (is_float_v<To>) {
    return detail::from_code<To>(pack(detail::FormatOf<To>::get(), exact, kRounding, kOverflow));
  } else if constexpr (is_small_integer_v<To>) {
    return To(static_cast<int>(pack_integer(exact, kRounding, To::kLow, To::kHigh)));
  } else {
    static_assert(!std::is_same_v<To, std::uint64_t>,
                  "convert: uint64 is past the range of the exact path");
    return static_cast<To>(pack_integer(exact, kRounding,
                                        static_cast<std::int64_t>(std::numeric_limits<To>::min()),
                                        static_cast<std::int64_t>(std::numeric_limits<To>::max())));
  }
}

}  // namespace base

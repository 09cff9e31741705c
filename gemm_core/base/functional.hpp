// Element-wise functions on single numbers. Narrow floats compute in float and round once (their
// sums, products and quotients are then the correctly rounded ones); integers of up to 8 bits
// saturate, wider ones wrap as C++ casts do.
//   maximum{}(a, b)   propagates NaN: if either is NaN, so is the result; of equal numbers (also -0
//   and 0) the first multiply_add{}(a, b, c)   a*b + c with one rounding, for every real type
#pragma once
#include <cmath>

#include "gemm_core/base/convert.hpp"

namespace base {

namespace detail {

template <class T>
inline constexpr bool is_narrow_float =
    is_float_v<T> && !std::is_same_v<T, float> && !std::is_same_v<T, double>;
template <class T>
inline constexpr bool is_narrow_integer =
    is_small_integer_v<T> || std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::uint8_t>;

// What T computes in: float for narrow floats, a wider integer for integers, itself else.
template <class T>
BASE_HD constexpr auto widen(const T& x) {
  if constexpr (is_narrow_float<T>)
    return static_cast<float>(x);
  else if constexpr (is_small_integer_v<T>)
    return static_cast<std::int64_t>(static_cast<int>(x));
  else if constexpr (std::is_integral_v<T> && sizeof(T) < 8)
    return static_cast<std::int64_t>(x);
  else if constexpr (std::is_integral_v<T>)
    return static_cast<std::uint64_t>(x);
  else
    return x;
}
template <class T, class W>
BASE_HD constexpr T narrow(const W& x) {
  if constexpr (is_narrow_integer<T>)
    return convert<T>(x);
  else
    return static_cast<T>(x);
}

// a + b of two doubles rounded to odd: a later rounding to at most 50 bits is then the rounding of
// the exact sum.
BASE_HD constexpr double add_to_odd(double a, double b) {
  const double sum = a + b, from_b = sum - a;
  const double error = (a - (sum - from_b)) + (b - from_b);
  const std::uint64_t word = bit_cast<std::uint64_t>(sum);
  if (!(error < 0 || error > 0) || (word & 1) != 0)
    return sum;  // exact, already odd, or not finite
  return bit_cast<double>((error > 0) == (sum > 0) ? word + 1 : word - 1);
}

}  // namespace detail

struct plus {
  template <class T>
  BASE_HD constexpr T operator()(const T& a, const T& b) const {
    return detail::narrow<T>(detail::widen(a) + detail::widen(b));
  }
};

struct minus {
  template <class T>
  BASE_HD constexpr T operator()(const T& a, const T& b) const {
    return detail::narrow<T>(detail::widen(a) - detail::widen(b));
  }
};

struct multiplies {
  template <class T>
  BASE_HD constexpr T operator()(const T& a, const T& b) const {
    return detail::narrow<T>(detail::widen(a) * detail::widen(b));
  }
};

// Integers divide towards zero; a divisor of 0 is the caller's mistake.
struct divides {
  template <class T>
  BASE_HD constexpr T operator()(const T& a, const T& b) const {
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
      return static_cast<T>(a / b);
    else
      return detail::narrow<T>(detail::widen(a) / detail::widen(b));
  }
};

struct multiply_add {
  template <class T>
  BASE_HD T operator()(const T& a, const T& b, const T& c) const {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      return std::fma(a, b, c);
    } else if constexpr (is_float_v<T>) {
      // The product of two narrow floats is exact in double.
      const double product =
          static_cast<double>(static_cast<float>(a)) * static_cast<double>(static_cast<float>(b));
      return convert<T, Rounding::nearest_even, Overflow::infinity>(
          detail::add_to_odd(product, static_cast<double>(static_cast<float>(c))));
    } else if constexpr (is_real_v<T>) {
      return detail::narrow<T>(detail::widen(a) * detail::widen(b) + detail::widen(c));
    } else {  // complex: each part is two fused steps
      const auto real = (*this)(a.real, b.real, c.real), imag = (*this)(a.real, b.imag, c.imag);
      return {(*this)(-a.imag, b.imag, real), (*this)(a.imag, b.real, imag)};
    }
  }
};

struct maximum {
  template <class T>
  BASE_HD constexpr T operator()(const T& a, const T& b) const {
    const auto x = detail::widen(a), y = detail::widen(b);
    if (x != x) return a;
    return y != y || order(a) < order(b) ? b : a;
  }

 private:
  template <class T>
  BASE_HD static constexpr auto order(const T& x) {
    if constexpr (std::is_integral_v<T>)
      return x;  // 64-bit integers widen to unsigned
    else
      return detail::widen(x);
  }
  friend struct minimum;
};

struct minimum {
  template <class T>
  BASE_HD constexpr T operator()(const T& a, const T& b) const {
    const auto x = detail::widen(a), y = detail::widen(b);
    if (x != x) return a;
    return y != y || maximum::order(b) < maximum::order(a) ? b : a;
  }
};

// ---- activations: real types
// ------------------------------------------------------------------------------------
struct relu {  // NaN stays NaN
  template <class T>
  BASE_HD constexpr T operator()(const T& x) const {
    return maximum{}(x, T{});
  }
};

struct clamp {  // NaN stays NaN
  template <class T>
  BASE_HD constexpr T operator()(const T& x, const T& low, const T& high) const {
    return minimum{}(maximum{}(x, low), high);
  }
};

struct sigmoid {
  template <class T>
  BASE_HD T operator()(const T& value) const {
    const auto x = detail::widen(value);
    using W = decltype(x + x);
    const W e = std::exp(x < 0 ? x : -x);  // at most 1: no overflow on either side
    return detail::narrow<T>((x < 0 ? e : W(1)) / (W(1) + e));
  }
};

struct silu {  // x * sigmoid(x)
  template <class T>
  BASE_HD T operator()(const T& value) const {
    const auto x = detail::widen(value);
    return detail::narrow<T>(x * sigmoid{}(x));
  }
};

struct gelu {  // x * Phi(x), by erfc: keeps relative accuracy for negative x
  template <class T>
  BASE_HD T operator()(const T& value) const {
    const auto x = detail::widen(value);
    using W = decltype(x + x);
    constexpr W kHalfRoot = W(0.70710678118654752440);  // 1 / sqrt(2)
    return detail::narrow<T>(x * (W(0.5) * std::erfc(-x * kHalfRoot)));
  }
};

struct tanh {
  template <class T>
  BASE_HD T operator()(const T& value) const {
    return detail::narrow<T>(std::tanh(detail::widen(value)));
  }
};

}  // namespace base

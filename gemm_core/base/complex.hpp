// complex<T>: real and imaginary part side by side. Products are the plain formula (no repair of
// NaN to infinity).
#pragma once
#include "gemm_core/base/host_device.hpp"

namespace base {

template <class T>
struct complex {
  T real{}, imag{};

  friend constexpr bool operator==(const complex&, const complex&) = default;
  BASE_HD friend constexpr complex operator+(complex a, complex b) {
    return {a.real + b.real, a.imag + b.imag};
  }
  BASE_HD friend constexpr complex operator-(complex a, complex b) {
    return {a.real - b.real, a.imag - b.imag};
  }
  BASE_HD friend constexpr complex operator*(complex a, complex b) {
    return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
  }
  // Smith's method: no overflow in |b|^2.
  BASE_HD friend constexpr complex operator/(complex a, complex b) {
    const T size_real = b.real < T(0) ? -b.real : b.real,
            size_imag = b.imag < T(0) ? -b.imag : b.imag;
    if (size_imag <= size_real) {
      const T ratio = b.imag / b.real, scale = b.real + b.imag * ratio;
      return {(a.real + a.imag * ratio) / scale, (a.imag - a.real * ratio) / scale};
    }
    const T ratio = b.real / b.imag, scale = b.real * ratio + b.imag;
    return {(a.real * ratio + a.imag) / scale, (a.imag * ratio - a.real) / scale};
  }
};

template <class T>
BASE_HD constexpr complex<T> conj(complex<T> a) {
  return {a.real, -a.imag};
}

}  // namespace base

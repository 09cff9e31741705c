// Array<T, N>: N elements by value; types below 8 bits are packed, element 0 in the lowest bits.
// Functions act element by element with the same bits as on single numbers:
//   const auto d = transform(multiply_add{}, a, b, c);
//   const auto q = convert_array<e4m3_t>(d);
// PackedSpan<T> reads and writes packed elements of any number in memory that it does not own.
#pragma once
#include "gemm_core/base/functional.hpp"

namespace base {

template <class T>
inline constexpr int bits_of = static_cast<int>(8 * sizeof(T));
template <int B, bool S>
inline constexpr int bits_of<SmallInteger<B, S>> = B;
template <class T>
inline constexpr bool is_sub_byte_v = bits_of<T> < 8;

template <class T>
class PackedSpan {
  static_assert(is_sub_byte_v<T> && 8 % bits_of<T> == 0);
  static constexpr int kPerByte = 8 / bits_of<T>;
  static constexpr unsigned kMask = (1u << bits_of<T>)-1;

 public:
  constexpr PackedSpan(std::uint8_t* data, std::int64_t size) : data_(data), size_(size) {}
  BASE_HD constexpr std::int64_t size() const { return size_; }
  BASE_HD constexpr T get(std::int64_t i) const {
    return T::from_bits(static_cast<unsigned>(data_[i / kPerByte]) >> shift(i));
  }
  // Touches the bits of element i only; two threads must not write elements of one byte at the same
  // time.
  BASE_HD constexpr void set(std::int64_t i, T x) const {
    const unsigned kept = data_[i / kPerByte] & ~(kMask << shift(i));
    data_[i / kPerByte] = static_cast<std::uint8_t>(kept | (x.bits() << shift(i)));
  }

 private:
  BASE_HD static constexpr unsigned shift(std::int64_t i) {
    return static_cast<unsigned>(i % kPerByte) * bits_of<T>;
  }
  std::uint8_t* data_;
  std::int64_t size_;
};

template <class T, int N>
struct Array {
  using Element = T;
  static constexpr int kSize = N;
  BASE_HD constexpr T get(int i) const { return value[i]; }
  BASE_HD constexpr void set(int i, T x) { value[i] = x; }
  BASE_HD constexpr T& operator[](int i) { return value[i]; }
  BASE_HD constexpr const T& operator[](int i) const { return value[i]; }

  T value[static_cast<std::size_t>(N)]{};
};

template <class T, int N>
requires is_sub_byte_v<T>
struct Array<T, N> {
  using Element = T;
  static constexpr int kSize = N;
  BASE_HD constexpr T get(int i) const {
    return T::from_bits(static_cast<unsigned>(bytes[i / kPerByte]) >> (i % kPerByte * bits_of<T>));
  }
  BASE_HD constexpr void set(int i, T x) { PackedSpan<T>(bytes, N).set(i, x); }
  BASE_HD constexpr T operator[](int i) const { return get(i); }

  static constexpr int kPerByte = 8 / bits_of<T>;
  std::uint8_t bytes[static_cast<std::size_t>((N + kPerByte - 1) / kPerByte)]{};
};

// function(a[i], b[i], ...) for every i. Arguments that are no arrays serve every element (clamp
// bounds).
namespace detail {

template <class T>
inline constexpr int array_size = 0;
template <class T, int N>
inline constexpr int array_size<Array<T, N>> = N;

template <class A>
BASE_HD constexpr auto element(const A& a, [[maybe_unused]] int i) {
  if constexpr (array_size < A >> 0)
    return a.get(i);
  else
    return a;
}

}  // namespace detail

template <class Function, class T, int N, class... Rest>
BASE_HD constexpr Array<T, N> transform(Function function, const Array<T, N>& first,
                                        const Rest&... rest) {
  static_assert(((detail::array_size<Rest> == 0 || detail::array_size<Rest> == N) && ...),
                "transform: sizes differ");
  Array<T, N> out;
  for (int i = 0; i < N; ++i)
    out.set(i, function(first.get(i), static_cast<T>(detail::element(rest, i))...));
  return out;
}

template <class To, Rounding kRounding = Rounding::nearest_even,
          Overflow kOverflow = default_overflow<To>, class From, int N>
BASE_HD constexpr Array<To, N> convert_array(const Array<From, N>& from) {
  Array<To, N> out;
  for (int i = 0; i < N; ++i) out.set(i, convert<To, kRounding, kOverflow>(from.get(i)));
  return out;
}

}  // namespace base

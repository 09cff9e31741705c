// Compile-time integers, and tuples that take no room for them: Tuple<Int<4>, Tuple<int, Int<8>>>.
#pragma once
#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>

#include "gemm_core/layout/number.hpp"

namespace layout {

template <Index N>
struct Int {
  static constexpr Index value = N;
  BASE_HD constexpr operator Index() const { return N; }
};

// Keeps a mode in a coordinate or a tiler.
struct Underscore {};
BASE_CONSTANT Underscore _{};

template <class T>
struct is_static_integer : std::false_type {};
template <Index N>
struct is_static_integer<Int<N>> : std::true_type {};
template <class T>
concept StaticInteger = is_static_integer<std::remove_cvref_t<T>>::value;
template <class T>
concept Integer = std::integral<std::remove_cvref_t<T>> || StaticInteger<T>;

namespace detail {

template <int I, class T, bool = std::is_empty_v<T>>
struct TupleLeaf {
  T value;
  BASE_HD constexpr TupleLeaf() : value() {}
  BASE_HD constexpr explicit TupleLeaf(const T& v) : value(v) {}
  BASE_HD constexpr const T& get() const { return value; }
};
template <int I, class T>
struct TupleLeaf<I, T, true> {
  BASE_HD constexpr TupleLeaf() {}
  BASE_HD constexpr explicit TupleLeaf(const T&) {}
  BASE_HD constexpr T get() const { return T{}; }
};

template <class Indices, class... T>
struct TupleBase;
template <int... I, class... T>
struct TupleBase<std::integer_sequence<int, I...>, T...> : TupleLeaf<I, T>... {
  BASE_HD constexpr TupleBase() {}
  BASE_HD constexpr explicit TupleBase(const T&... v) : TupleLeaf<I, T>(v)... {}
};

// Tuples of nothing but empty members have no bases: two of them in one object would need two
// addresses.
template <class... T>
struct EmptyBase {
  BASE_HD constexpr EmptyBase() {}
  BASE_HD constexpr explicit EmptyBase(const T&...) requires(sizeof...(T) > 0) {}
};

template <class... T>
using BaseOf = std::conditional_t<(std::is_empty_v<T> && ...), EmptyBase<T...>,
                                  TupleBase<std::make_integer_sequence<int, sizeof...(T)>, T...>>;

template <int I, class T, bool E>
BASE_HD constexpr decltype(auto) leaf_of(const TupleLeaf<I, T, E>& leaf) {
  return leaf.get();
}

}  // namespace detail

template <class... T>
struct Tuple : detail::BaseOf<T...> {
  using Base = detail::BaseOf<T...>;
  static constexpr int kRank = sizeof...(T);
  BASE_HD constexpr Tuple() {}
  BASE_HD constexpr explicit(sizeof...(T) == 1) Tuple(const T&... v) requires(sizeof...(T) > 0)
      : Base(v...) {}
};
template <class... T>
Tuple(T...) -> Tuple<T...>;

template <class T>
struct is_tuple : std::false_type {};
template <class... T>
struct is_tuple<Tuple<T...>> : std::true_type {};
template <class T>
concept IsTuple = is_tuple<std::remove_cvref_t<T>>::value;

template <int I, class... T>
BASE_HD constexpr decltype(auto) get(const Tuple<T...>& tuple) {
  if constexpr ((std::is_empty_v<T> && ...))
    return std::tuple_element_t<I, std::tuple<T...>>{};
  else
    return detail::leaf_of<I>(tuple);
}

// A tuple also of a single entry, which Tuple{x} would copy when x is a tuple itself.
template <class... T>
BASE_HD constexpr Tuple<T...> make_tuple(const T&... v) {
  return Tuple<T...>(v...);
}

// body(Int<0>{}, Int<1>{}, ...), as many as N.
template <int N, class Body>
BASE_HD constexpr decltype(auto) with_indices(Body&& body) {
  return [&]<Index... I>(std::integer_sequence<Index, I...>)->decltype(auto) {
    return body(Int<I>{}...);
  }
  (std::make_integer_sequence<Index, N>{});
}

}  // namespace layout

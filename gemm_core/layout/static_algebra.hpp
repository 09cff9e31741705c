// The algebra on layouts that are types (layout.hpp). A form that cannot exist is a failed
// constraint with the name of the question; values that make it impossible at run time throw
// base::Error (device code stops).
//   auto tiles = zipped_divide(a, Tuple(Int<128>{}, Int<64>{}));   //
//   ((128,64),(ceil(m/128),ceil(n/64)))
// A tiler is a Tuple of layouts, integers n (meaning n:1) and `_` (that mode stays whole).
#pragma once
#include "gemm_core/layout/algebra.hpp"
#include "gemm_core/layout/trace.hpp"

namespace layout {

namespace detail {

// One overload each, so that their addresses name them.
constexpr Answer<LayoutTree> coalesce_all(const LayoutTree& a) { return coalesce(a); }
constexpr Answer<LayoutTree> coalesce_modes(const LayoutTree& a) { return coalesce_by_mode(a); }
constexpr Answer<LayoutTree> filter_all(const LayoutTree& a) { return filter(a); }
constexpr Answer<LayoutTree> invert_right(const LayoutTree& a) { return detail::right_inverse(a); }

}  // namespace detail

template <class A, class B>
concept Composable = IsLayout<A> && IsLayout<B> && detail::Answered<&detail::composition, A, B>;
template <class A, class T>
concept ComposableByMode =
    IsLayout<A> && IsTuple<T> && detail::Answered<&detail::composition_by_mode, A, T>;
template <class A, class Target = Int<1>>
concept HasComplement = IsLayout<A> && detail::Answered<&detail::complement, A, Target>;
template <class A, class T>
concept Divisible = IsLayout<A> && IsLayout<T> && detail::Answered<&detail::logical_divide, A, T>;
template <class A, class T>
concept DivisibleByMode =
    IsLayout<A> && IsTuple<T> && detail::Answered<&detail::logical_divide_by_mode, A, T>;
template <class A, class B>
concept Multipliable =
    IsLayout<A> && IsLayout<B> && detail::Answered<&detail::logical_product, A, B>;
template <class A, class B>
concept MultipliableByMode =
    IsLayout<A> && IsLayout<B> && detail::Answered<&detail::blocked_product, A, B>;
template <class A>
concept HasLeftInverse = IsLayout<A> && detail::Answered<&detail::left_inverse, A>;
template <class A, class B>
concept HasCommonVector = IsLayout<A> && IsLayout<B> && A::kIsStatic && B::kIsStatic &&
    detail::Answered<&detail::max_common_vector, A, B>;

template <IsLayout A>
BASE_HD constexpr auto coalesce(const A& a) {
  return detail::traced<&detail::coalesce_all>(a);
}
template <IsLayout A>
BASE_HD constexpr auto coalesce_by_mode(const A& a) {
  return detail::traced<&detail::coalesce_modes>(a);
}
template <IsLayout A>
BASE_HD constexpr auto filter(const A& a) {
  return detail::traced<&detail::filter_all>(a);
}
template <class A, class B>
requires Composable<A, B> BASE_HD constexpr auto composition(const A& a, const B& b) {
  return detail::traced<&detail::composition>(a, b);
}
template <class A, class T>
requires ComposableByMode<A, T> BASE_HD constexpr auto composition(const A& a, const T& tiler) {
  return detail::traced<&detail::composition_by_mode>(a, tiler);
}
template <class A, Integer Target>
requires HasComplement<A, Target> BASE_HD constexpr auto complement(const A& a,
                                                                    const Target& target) {
  return detail::traced<&detail::complement>(a, target);
}
template <class A, class T>
requires Divisible<A, T> BASE_HD constexpr auto logical_divide(const A& a, const T& tiler) {
  return detail::traced<&detail::logical_divide>(a, tiler);
}
template <class A, class T>
requires DivisibleByMode<A, T> BASE_HD constexpr auto logical_divide(const A& a, const T& tiler) {
  return detail::traced<&detail::logical_divide_by_mode>(a, tiler);
}
template <class A, class T>
requires DivisibleByMode<A, T> BASE_HD constexpr auto zipped_divide(const A& a, const T& tiler) {
  return detail::traced<&detail::zipped_divide>(a, tiler);
}
template <class A, class T>
requires DivisibleByMode<A, T> BASE_HD constexpr auto tiled_divide(const A& a, const T& tiler) {
  return detail::traced<&detail::tiled_divide>(a, tiler);
}
template <class A, class T>
requires DivisibleByMode<A, T> BASE_HD constexpr auto flat_divide(const A& a, const T& tiler) {
  return detail::traced<&detail::flat_divide>(a, tiler);
}
template <class A, class B>
requires Multipliable<A, B> BASE_HD constexpr auto logical_product(const A& a, const B& b) {
  return detail::traced<&detail::logical_product>(a, b);
}
template <class A, class B>
requires MultipliableByMode<A, B> BASE_HD constexpr auto blocked_product(const A& a, const B& b) {
  return detail::traced<&detail::blocked_product>(a, b);
}
template <class A, class B>
requires MultipliableByMode<A, B> BASE_HD constexpr auto raked_product(const A& a, const B& b) {
  return detail::traced<&detail::raked_product>(a, b);
}
template <IsLayout A>
BASE_HD constexpr auto right_inverse(const A& a) {
  return detail::traced<&detail::invert_right>(a);
}
template <class A>
requires HasLeftInverse<A> BASE_HD constexpr auto left_inverse(const A& a) {
  return detail::traced<&detail::left_inverse>(a);
}
template <class A, class B>
requires HasCommonVector<A, B> BASE_HD constexpr auto max_common_vector(const A& a, const B& b) {
  return detail::traced<&detail::max_common_vector>(a, b);
}

}  // namespace layout

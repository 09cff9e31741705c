// Layouts that are types: sizes and strides known to the compiler and at run time mix freely.
//   auto a = make_layout(Tuple(rows, Int<64>{}), Tuple(Int<64>{}, Int<1>{}));   // (rows,64):(64,1)
//   a(3), a(3, 5), a(Tuple(3, 5)), size(a), cosize(a)
// A layout all of whose numbers are known is an empty object. Values are int where the compiler
// knows that they fit, else 64-bit. The operations are in static_algebra.hpp.
#pragma once
#include <limits>

#include "gemm_core/layout/tree.hpp"
#include "gemm_core/layout/tuple.hpp"

namespace layout {

namespace detail {

template <class A, class B>
struct same_profile : std::bool_constant<Integer<A> && Integer<B>> {};
template <class... A, class... B>
requires(sizeof...(A) == sizeof...(B)) struct same_profile<Tuple<A...>, Tuple<B...>>
    : std::bool_constant<(same_profile<A, B>::value && ...)> {
};

}  // namespace detail

template <class A, class B>
concept SameProfile = detail::same_profile<std::remove_cvref_t<A>, std::remove_cvref_t<B>>::value;

template <class Shape, class Stride>
requires SameProfile<Shape, Stride>
struct Layout;

template <class T>
struct is_layout : std::false_type {};
template <class S, class D>
struct is_layout<Layout<S, D>> : std::true_type {};
template <class T>
concept IsLayout = is_layout<std::remove_cvref_t<T>>::value;

namespace detail {

template <class T>
inline constexpr int rank_of = 1;
template <class... T>
inline constexpr int rank_of<Tuple<T...>> = sizeof...(T);

template <class T>
inline constexpr bool all_static = StaticInteger<T>;
template <class... T>
inline constexpr bool all_static<Tuple<T...>> = (all_static<T> && ...);

template <class Shape>
BASE_HD constexpr Index product(const Shape& shape) {
  if constexpr (IsTuple<Shape>)
    return with_indices<Shape::kRank>([&](auto... i) {
      return (Index(1) * ... * product(get<static_cast<int>(i.value)>(shape)));
    });
  else
    return static_cast<Index>(shape);
}

template <class Shape, class Stride>
BASE_HD constexpr Index last_value(const Shape& shape, const Stride& stride) {
  if constexpr (IsTuple<Shape>)
    return with_indices<Shape::kRank>([&](auto... i) {
      return (Index(0) + ... +
              last_value(get<static_cast<int>(i.value)>(shape),
                         get<static_cast<int>(i.value)>(stride)));
    });
  else
    return (static_cast<Index>(shape) - 1) * static_cast<Index>(stride);
}

// Splits an index over the modes, leftmost fastest; the last takes what is left. `V` holds
// coordinates and values.
template <class V, int K = 0, class Shape, class Stride>
BASE_HD constexpr V value_of_index(V index, const Shape& shape, const Stride& stride) {
  if constexpr (!IsTuple<Shape>) {
    return index * static_cast<V>(stride);
  } else if constexpr (Shape::kRank == 0) {
    return 0;
  } else if constexpr (K + 1 == Shape::kRank) {
    return value_of_index<V>(index, get<K>(shape), get<K>(stride));
  } else {
    const V n = static_cast<V>(product(get<K>(shape)));
    return value_of_index<V>(index % n, get<K>(shape), get<K>(stride)) +
           value_of_index<V, K + 1>(index / n, shape, stride);
  }
}

template <class Coord, class Shape>
struct fits_profile : std::bool_constant<Integer<Coord>> {};
template <class... C, class... S>
requires(sizeof...(C) == sizeof...(S)) struct fits_profile<Tuple<C...>, Tuple<S...>>
    : std::bool_constant<(fits_profile<C, S>::value && ...)> {
};

template <class V, class Coord, class Shape, class Stride>
BASE_HD constexpr V value_of_coord(const Coord& coord, const Shape& shape, const Stride& stride) {
  if constexpr (IsTuple<Coord>)
    return with_indices<Coord::kRank>([&](auto... i) {
      return (V(0) + ... +
              value_of_coord<V>(get<static_cast<int>(i.value)>(coord),
                                get<static_cast<int>(i.value)>(shape),
                                get<static_cast<int>(i.value)>(stride)));
    });
  else
    return value_of_index<V>(static_cast<V>(coord), shape, stride);
}

}  // namespace detail

// A coordinate has the shape's nesting down to any level; where it stops, it is an index into what
// is below.
template <class Coord, class L>
concept CoordinateOf = detail::fits_profile < std::remove_cvref_t<Coord>,
typename L::ShapeType > ::value;

template <class Shape, class Stride>
requires SameProfile<Shape, Stride>
struct Layout {
  using ShapeType = Shape;
  using StrideType = Stride;
  static constexpr int kRank = detail::rank_of<Shape>;
  static constexpr bool kIsStatic = detail::all_static<Shape> && detail::all_static<Stride>;

  static constexpr bool fits_int() {
    if constexpr (kIsStatic)
      return detail::last_value(Shape{}, Stride{}) <= std::numeric_limits<int>::max() &&
             detail::product(Shape{}) <= std::numeric_limits<int>::max();
    else
      return false;
  }
  using Value = std::conditional_t<fits_int(), int, Index>;

  template <class Coord>
  requires CoordinateOf<Coord, Layout> BASE_HD constexpr Value operator()(
      const Coord& coord) const {
    return detail::value_of_coord<Value>(coord, shape, stride);
  }
  template <class C0, class C1, class... C>
  requires CoordinateOf<Tuple<C0, C1, C...>, Layout> BASE_HD constexpr Value operator()(
      const C0& c0, const C1& c1, const C&... c) const {
    return (*this)(Tuple<C0, C1, C...>(c0, c1, c...));
  }

  [[no_unique_address]] Shape shape{};
  [[no_unique_address]] Stride stride{};
};

template <class Shape, class Stride>
BASE_HD constexpr auto make_layout(const Shape& shape, const Stride& stride) {
  static_assert(SameProfile<Shape, Stride>,
                "make_layout: shape and stride have different profiles");
  return Layout<Shape, Stride>{shape, stride};
}

template <int K, IsLayout L>
BASE_HD constexpr auto mode(const L& a) {
  static_assert(K < L::kRank, "mode: the layout has fewer modes");
  if constexpr (IsTuple<typename L::ShapeType>)
    return make_layout(get<K>(a.shape), get<K>(a.stride));
  else
    return a;
}

template <IsLayout... L>
BASE_HD constexpr auto make_layout_of_modes(const L&... modes) {
  return make_layout(make_tuple(modes.shape...), make_tuple(modes.stride...));
}

template <IsLayout L>
BASE_HD constexpr Index size(const L& a) {
  return detail::product(a.shape);
}
template <int K, IsLayout L>
BASE_HD constexpr Index size(const L& a) {
  return size(mode<K>(a));
}
template <IsLayout L>
BASE_HD constexpr Index cosize(const L& a) {
  return detail::last_value(a.shape, a.stride) + 1;
}

// The full-depth coordinate of an index, leftmost mode fastest; the last mode takes what is left.
template <class Shape>
BASE_HD constexpr auto idx2crd(Index index, const Shape& shape) {
  if constexpr (!IsTuple<Shape>) {
    return index;
  } else {
    return with_indices<Shape::kRank>([&](auto... i) {
      Index left = index;
      [[maybe_unused]] const auto next = [&](auto k) {
        constexpr int kMode = static_cast<int>(decltype(k)::value);
        const Index n = detail::product(get<kMode>(shape));
        const Index part = kMode + 1 == Shape::kRank ? left : left % n;
        left /= n;
        return idx2crd(part, get<kMode>(shape));
      };
      return Tuple{next(i)...};  // braces: evaluated from left to right
    });
  }
}

// ---- the run-time form
// ------------------------------------------------------------------------------------------
template <class T>
constexpr IntTree to_tree(const T& tree) {
  if constexpr (IsTuple<T>) {
    std::vector<IntTree> list;
    with_indices<T::kRank>(
        [&](auto... i) { (list.push_back(to_tree(get<static_cast<int>(i.value)>(tree))), ...); });
    return IntTree::tuple(std::move(list));
  } else {
    return IntTree(static_cast<Index>(tree));
  }
}
template <IsLayout L>
constexpr LayoutTree to_tree(const L& a) {
  return {to_tree(a.shape), to_tree(a.stride)};
}

}  // namespace layout

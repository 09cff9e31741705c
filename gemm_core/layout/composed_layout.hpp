// ComposedLayout: swizzle(offset + inner(c)) as a type, for tiles in shared memory.
//   auto tile = make_composed_layout<Swizzle{3, 3, 3}>(make_layout(Tuple(Int<64>{}, Int<64>{}),
//   Tuple(Int<64>{}, Int<1>{}))); auto row = slice(tile, Tuple(i, _));       // plain only where
//   that holds for every i
// A plain slice is base + layout(c). Whether a slice is plain is decided from what the types say
// about the bits of the fixed part, so that coordinates known only at run time can be sliced too;
// their strides may then be run-time values.
#pragma once
#include "gemm_core/layout/composed.hpp"
#include "gemm_core/layout/layout.hpp"

namespace layout {

template <Swizzle kSwizzle, IsLayout L, Integer Offset = Int<0>>
struct ComposedLayout {
  static_assert(kSwizzle.is_valid(), "swizzle: expected B >= 0, M >= 0, |S| >= B");

  template <class Coord>
  requires CoordinateOf<Coord, L> BASE_HD constexpr Index operator()(const Coord& coord) const {
    return kSwizzle(static_cast<Index>(offset) + inner(coord));
  }
  template <class C0, class C1, class... C>
  requires CoordinateOf<Tuple<C0, C1, C...>, L> BASE_HD constexpr Index operator()(
      const C0& c0, const C1& c1, const C&... c) const {
    return (*this)(Tuple<C0, C1, C...>(c0, c1, c...));
  }

  [[no_unique_address]] L inner{};
  [[no_unique_address]] Offset offset{};
};

template <Swizzle kSwizzle, IsLayout L, Integer Offset = Int<0>>
BASE_HD constexpr auto make_composed_layout(const L& inner, const Offset& offset = {}) {
  return ComposedLayout<kSwizzle, L, Offset>{inner, offset};
}

// base + layout(c)
template <IsLayout L>
struct OffsetLayout {
  template <class... Coord>
  BASE_HD constexpr Index operator()(const Coord&... coord) const {
    return base + layout(coord...);
  }

  Index base = 0;
  [[no_unique_address]] L layout{};
};

namespace detail {

inline constexpr Index kAllBits = std::numeric_limits<Index>::max();

// Bits that the value of a fixed mode may have: those of its coordinate, or of all its coordinates.
template <class L, class Coord>
constexpr Index possible_bits() {
  if constexpr (!L::kIsStatic)
    return kAllBits;
  else if constexpr (all_static<Coord>)
    return static_cast<Index>(L{}(Coord{}));
  else
    return active_bits(to_tree(L{}));
}
template <class Offset>
constexpr Index possible_bits() {
  if constexpr (StaticInteger<Offset>)
    return Offset::value;
  else
    return kAllBits;
}

// Parts on separate bits add up without a carry, else any bit may come out.
struct BitSum {
  Index bits = 0;
  constexpr BitSum& add(Index part) {
    bits = (bits & part) != 0 ? kAllBits : bits | part;
    return *this;
  }
};

// A run of bits of one kept leaf: untied ones together with their own stride, a tied one alone.
struct BitRun {
  Index size = 1, first = 0;
  bool is_tied = false;
};
struct BitRuns {
  int count = 0;
  BitRun run[62]{};
};

constexpr BitRuns bit_runs(const Swizzle& swizzle, Index s, Index d) {
  BitRuns out;
  for (Index bit = d; bit < s * d; bit *= 2) {
    const bool tied = ((swizzle.source_mask() | swizzle.target_mask()) & bit) != 0;
    if (out.count > 0 && !tied && !out.run[out.count - 1].is_tied)
      out.run[out.count - 1].size *= 2;
    else
      out.run[out.count++] = {2, bit, tied};
  }
  if (out.count == 0) out.run[out.count++] = {1, 0, false};
  return out;
}

template <Swizzle kSwizzle, class Shape, class Stride>
BASE_HD constexpr auto plain_layout(Index base) {
  if constexpr (IsTuple<Shape>) {
    return with_indices<Shape::kRank>([&](auto... i) {
      return make_layout_of_modes(
          plain_layout<
              kSwizzle,
              std::remove_cvref_t<decltype(get<static_cast<int>(decltype(i)::value)>(Shape{}))>,
              std::remove_cvref_t<decltype(get<static_cast<int>(decltype(i)::value)>(Stride{}))>>(
              base)...);
    });
  } else if constexpr (Stride::value == 0) {
    return Layout<Shape, Stride>{};
  } else {
    constexpr BitRuns runs = bit_runs(kSwizzle, Shape::value, Stride::value);
    return with_indices<runs.count>([&](auto... i) {
      const auto one = [&](auto k) {
        constexpr BitRun run = runs.run[decltype(k)::value];
        if constexpr (run.is_tied)
          return make_layout(Int<run.size>{}, (base ^ kSwizzle(run.first)) - base);
        else
          return make_layout(Int<run.size>{}, Int<run.first>{});
      };
      return make_layout_of_modes(one(i)...);
    });
  }
}

template <class C>
inline constexpr bool is_kept = std::is_same_v<std::remove_cvref_t<C>, Underscore>;

template <int K, class L, class C>
BASE_HD constexpr auto kept_mode(const L& inner, const C&) {
  if constexpr (is_kept<C>)
    return Tuple<decltype(mode<K>(inner))>(mode<K>(inner));
  else
    return Tuple<>{};
}

template <class... A, class... B>
BASE_HD constexpr auto concatenate(const Tuple<A...>& a, const Tuple<B...>& b) {
  return with_indices<sizeof...(A)>([&](auto... i) {
    return with_indices<sizeof...(B)>([&](auto... j) {
      return make_tuple(get<static_cast<int>(decltype(i)::value)>(a)...,
                        get<static_cast<int>(decltype(j)::value)>(b)...);
    });
  });
}
BASE_HD constexpr Tuple<> concatenate_all() { return {}; }
template <class First, class... Rest>
BASE_HD constexpr auto concatenate_all(const First& first, const Rest&... rest) {
  return concatenate(first, concatenate_all(rest...));
}

template <class... L>
BASE_HD constexpr auto layout_of(const Tuple<L...>& modes) {
  return with_indices<sizeof...(L)>([&](auto... i) {
    return make_layout_of_modes(get<static_cast<int>(decltype(i)::value)>(modes)...);
  });
}

template <class L, int K, class C>
constexpr Index fixed_bits() {
  if constexpr (is_kept<C>)
    return 0;
  else
    return possible_bits<decltype(mode<K>(std::declval<L>())), C>();
}

template <Swizzle kSwizzle, class Kept>
constexpr bool slices_plain(Index fixed) {
  if constexpr (!Kept::kIsStatic) {
    return false;
  } else {
    const LayoutTree kept = to_tree(Kept{});
    const Index active = active_bits(kept);
    return collision(kSwizzle, active) == 0 && (fixed & active) == 0 &&
           has_separate_bits(leaves(kept));
  }
}

}  // namespace detail

template <Swizzle kSwizzle, class L, class Offset, class... C>
BASE_HD constexpr auto slice(const ComposedLayout<kSwizzle, L, Offset>& a,
                             const Tuple<C...>& coord) {
  static_assert(sizeof...(C) == L::kRank, "slice: one coordinate or _ for each mode");
  return with_indices<L::kRank>([&](auto... i) {
    const auto kept = detail::layout_of(
        detail::concatenate_all(detail::kept_mode<static_cast<int>(decltype(i)::value)>(
            a.inner, get<static_cast<int>(decltype(i)::value)>(coord))...));
    const auto fixed_part = [&](auto k) -> Index {
      constexpr int kMode = static_cast<int>(decltype(k)::value);
      if constexpr (detail::is_kept<decltype(get<kMode>(coord))>)
        return 0;
      else
        return mode<kMode>(a.inner)(get<kMode>(coord));
    };
    const Index fixed = (static_cast<Index>(a.offset) + ... + fixed_part(i));
    using Kept = std::remove_cvref_t<decltype(kept)>;
    constexpr detail::BitSum kFixedBits = [] {
      detail::BitSum sum{detail::possible_bits<Offset>()};
      (sum.add(detail::fixed_bits<L, static_cast<int>(decltype(i)::value), C>()), ...);
      return sum;
    }();
    if constexpr (detail::slices_plain<kSwizzle, Kept>(kFixedBits.bits)) {
      const Index base = kSwizzle(fixed);
      const auto plain =
          detail::plain_layout<kSwizzle, typename Kept::ShapeType, typename Kept::StrideType>(base);
      return OffsetLayout<std::remove_cvref_t<decltype(plain)>>{base, plain};
    } else {
      return make_composed_layout<kSwizzle>(kept, fixed);
    }
  });
}

}  // namespace layout

// Copy atoms and their tiling over threads. Traits: the number type T; kThreads; kElements, the
// most that one thread moves at once; SourceLayout and TargetLayout from (thread, value) to an
// index of what the instruction moves; where the host can run it, `call<n>(T* to, const T* from)`
// moves n side by side.
//
//   using Copy = TiledCopy<CopyAtom<CpuVectorCopy<float, 4>>, Layout<Tuple<Ints<4, 8>, Int<4>>,
//   ...>, 32, 4>; copy<Copy>(Copy::partition(source, t), Copy::partition(target, t));
#pragma once
#include <bit>
#include <cstring>

#include "gemm_core/atom/tensor_view.hpp"

namespace gemm_core {

template <class T>
concept CopyTraits = requires {
  typename T::Element;
  { T::kThreads + T::kElements } -> std::convertible_to<int>;
  requires layout::IsLayout<typename T::SourceLayout> && layout::IsLayout<typename T::TargetLayout>;
};

template <CopyTraits Traits>
struct CopyAtom : Traits {
  using typename Traits::SourceLayout;
  using typename Traits::TargetLayout;
  static_assert(layout::size(SourceLayout{}) == layout::size(TargetLayout{}),
                "copy atom: source and target hold different numbers of elements");
};

// What the instruction does, from its layouts alone: values are held [thread][value].
template <class Atom>
void emulate_copy(typename Atom::Element* to, const typename Atom::Element* from) {
  const typename Atom::SourceLayout source;
  const typename Atom::TargetLayout target;
  const int values = static_cast<int>(layout::size<1>(source));
  std::vector<typename Atom::Element> moved(static_cast<std::size_t>(layout::size(source)));
  for (int t = 0; t < Atom::kThreads; ++t) {
    for (int v = 0; v < values; ++v)
      moved[static_cast<std::size_t>(source(t, v))] = from[t * values + v];
  }
  for (int t = 0; t < Atom::kThreads; ++t) {
    for (int v = 0; v < values; ++v)
      to[t * values + v] = moved[static_cast<std::size_t>(target(t, v))];
  }
}

// ThreadValue takes (thread, value) to an element of a tile of kTileM x kTileN, column-major.
template <class Atom_, layout::IsLayout ThreadValue, int kTileM, int kTileN>
struct TiledCopy {
  using Atom = Atom_;
  using Element = typename Atom::Element;
  static constexpr int kThreads = static_cast<int>(layout::size<0>(ThreadValue{}));
  static constexpr int kValues = static_cast<int>(layout::size<1>(ThreadValue{}));
  static_assert(layout::cosize(ThreadValue{}) <= layout::Index{kTileM} * kTileN,
                "tiled copy: the threads reach past the tile");

  // The part of thread t: (values, rest m, rest n).
  template <class T, layout::IsLayout L>
  BASE_HD static constexpr auto partition(const View<T, L>& tensor, layout::Index thread) {
    const auto split = detail::split_by_thread(tensor.layout, ThreadValue{}, layout::Int<kTileM>{},
                                               layout::Int<kTileN>{});
    return detail::part_of_thread(make_view(tensor.data, split), thread);
  }

  // A thread's registers, held in the order of another operation's values (mode 1 of its
  // thread-value layout of the same tile), in the order of this copy's: register r(i) is value i.
  // Both must give the thread the same elements.
  template <layout::IsLayout OtherThreadValue>
  BASE_HD static constexpr auto retile(const OtherThreadValue& other) {
    return layout::composition(layout::left_inverse(layout::mode<1>(other)),
                               layout::mode<1>(ThreadValue{}));
  }
};

namespace detail {

// Whether values come in runs of `width` side by side.
template <class L>
constexpr bool has_runs(const L& values, layout::Index width) {
  for (layout::Index i = 0; i < layout::size(values); ++i) {
    if (values(i) != values(i / width * width) + i % width) return false;
  }
  return true;
}

}  // namespace detail

// Elements that one instruction moves between two parts: at most the atom's, the longest run that
// both layouts share, and what the alignment in elements of both allows.
template <class Atom, layout::IsLayout From, layout::IsLayout To>
constexpr int vector_elements(const From& from, const To& to, int alignment) {
  if constexpr (From::kIsStatic && To::kIsStatic) {
    const layout::Index shared = layout::size(layout::max_common_vector(from, to));
    for (int width = std::min(Atom::kElements, alignment); width > 1; width /= 2) {
      if (width <= shared && layout::size(from) % width == 0 && detail::has_runs(from, width) &&
          detail::has_runs(to, width)) {
        return width;
      }
    }
  }
  return 1;
}

// One thread's part, by instructions of kWidth elements (from vector_elements).
template <class Atom, int kWidth, class T, layout::IsLayout From, layout::IsLayout To>
void copy(const View<const T, From>& from, const View<T, To>& to) {
  static_assert(kWidth >= 1 && kWidth <= Atom::kElements, "copy: wider than the atom");
  for (layout::Index i = 0; i < layout::size(from.layout); i += kWidth)
    Atom::template call<kWidth>(to.data + to.layout(i), from.data + from.layout(i));
}

}  // namespace gemm_core

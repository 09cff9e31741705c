// Data and a layout: what atoms and tiled operations take apart. A fragment is a view's worth of
// values held by one thread, in the order of the view's coordinates.
#pragma once
#include "gemm_core/base/array.hpp"
#include "gemm_core/layout/static_algebra.hpp"

namespace gemm_core {

template <layout::Index... N>
using Ints = layout::Tuple<layout::Int<N>...>;

template <class T, layout::IsLayout L>
struct View {
  template <class... Coord>
  BASE_HD constexpr T& operator()(const Coord&... coord) const {
    return data[layout(coord...)];
  }
  T* data = nullptr;
  [[no_unique_address]] L layout{};
};

template <class T, layout::IsLayout L>
BASE_HD constexpr View<T, L> make_view(T* data, const L& layout) {
  return {data, layout};
}

namespace detail {

// The same layout with the values of another one on top: tile coordinates, first mode fastest.
template <layout::Index kM, layout::Index kTileM, layout::Index kN>
using InTile = layout::Layout<Ints<kM, kN>, Ints<1, kTileM>>;

// (thread, value) inside a tile, and tiles: ((thread), (value), rest0, rest1).
template <layout::IsLayout L, layout::IsLayout ThreadValue, class TileM, class TileN>
BASE_HD constexpr auto split_by_thread(const L& tensor, const ThreadValue& tv, const TileM& m,
                                       const TileN& n) {
  const auto tiles = layout::zipped_divide(tensor, layout::make_tuple(m, n));
  const auto inside = layout::composition(layout::mode<0>(tiles), tv);
  const auto rest = layout::mode<1>(tiles);
  return layout::make_layout_of_modes(layout::mode<0>(inside), layout::mode<1>(inside),
                                      layout::mode<0>(rest), layout::mode<1>(rest));
}

template <class T, layout::IsLayout L>
BASE_HD constexpr auto part_of_thread(const View<T, L>& split, layout::Index thread) {
  const auto& l = split.layout;
  const auto own =
      layout::make_layout_of_modes(layout::mode<1>(l), layout::mode<2>(l), layout::mode<3>(l));
  return make_view(split.data + layout::mode<0>(l)(thread), own);
}

}  // namespace detail

// Registers for a view of known extents: [value + values * (rest0 + rests0 * rest1)].
template <class T, layout::IsLayout L>
using FragmentOf = base::Array<T, static_cast<int>(layout::size(L{}))>;

}  // namespace gemm_core

// Tiling. logical_divide(A, T) = A o (T, complement of T): mode 0 runs inside a tile, mode 1 over
// tiles.
#pragma once
#include "gemm_core/layout/complement.hpp"
#include "gemm_core/layout/composition.hpp"

namespace layout::detail {

constexpr Answer<LayoutTree> logical_divide(const LayoutTree& a, const LayoutTree& tiler) {
  // The size, not the nested shape, is the target: a ragged tile of a nested mode needs the last
  // partial tile too.
  const Answer<LayoutTree> rest = complement(tiler, size(a));
  if (!rest) return rest;
  return composition(a, LayoutTree::tuple({tiler, rest.value}));
}

// The parts of a division by mode. Modes that the tiler does not name, or names with nothing (`_`),
// stay whole.
struct TileSplit {
  std::vector<LayoutTree> tiles, rests, untouched;
};

constexpr Answer<TileSplit> split(const LayoutTree& a, const Tiler& tiler) {
  if (static_cast<int>(tiler.size()) > rank(a))
    return "the tiler has more entries than the layout has modes";
  TileSplit parts;
  for (int k = 0; k < rank(a); ++k) {
    const LayoutTree* tile = entry(tiler, k);
    if (tile == nullptr) {
      parts.untouched.push_back(mode(a, k));
      continue;
    }
    const Answer<LayoutTree> both = logical_divide(mode(a, k), *tile);
    if (!both) return both.refusal;
    parts.tiles.push_back(both.value.modes[0]);
    parts.rests.push_back(both.value.modes[1]);
  }
  return parts;
}

constexpr void append(std::vector<LayoutTree>& to, const std::vector<LayoutTree>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// ((tile0,rest0),(tile1,rest1),...), untouched modes in their places
constexpr Answer<LayoutTree> logical_divide_by_mode(const LayoutTree& a, const Tiler& tiler) {
  if (static_cast<int>(tiler.size()) > rank(a))
    return "the tiler has more entries than the layout has modes";
  std::vector<LayoutTree> list;
  for (int k = 0; k < rank(a); ++k) {
    const LayoutTree* tile = entry(tiler, k);
    if (tile == nullptr) {
      list.push_back(mode(a, k));
      continue;
    }
    const Answer<LayoutTree> part = logical_divide(mode(a, k), *tile);
    if (!part) return part;
    list.push_back(part.value);
  }
  return LayoutTree::tuple(std::move(list));
}

// ((tile0,tile1,...),(rest0,rest1,...,untouched...))
constexpr Answer<LayoutTree> zipped_divide(const LayoutTree& a, const Tiler& tiler) {
  Answer<TileSplit> parts = split(a, tiler);
  if (!parts) return parts.refusal;
  append(parts.value.rests, parts.value.untouched);
  return LayoutTree::tuple(
      {LayoutTree::tuple(parts.value.tiles), LayoutTree::tuple(parts.value.rests)});
}

// ((tile0,tile1,...),rest0,rest1,...,untouched...)
constexpr Answer<LayoutTree> tiled_divide(const LayoutTree& a, const Tiler& tiler) {
  const Answer<TileSplit> parts = split(a, tiler);
  if (!parts) return parts.refusal;
  std::vector<LayoutTree> list{LayoutTree::tuple(parts.value.tiles)};
  append(list, parts.value.rests);
  append(list, parts.value.untouched);
  return LayoutTree::tuple(std::move(list));
}

// (tile0,tile1,...,rest0,rest1,...,untouched...)
constexpr Answer<LayoutTree> flat_divide(const LayoutTree& a, const Tiler& tiler) {
  const Answer<TileSplit> parts = split(a, tiler);
  if (!parts) return parts.refusal;
  std::vector<LayoutTree> list = parts.value.tiles;
  append(list, parts.value.rests);
  append(list, parts.value.untouched);
  return LayoutTree::tuple(std::move(list));
}

}  // namespace layout::detail

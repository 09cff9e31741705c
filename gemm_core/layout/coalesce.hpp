// The shortest form of a layout, and dropping of what does not change its image.
#pragma once
#include "gemm_core/layout/tree.hpp"

namespace layout {

// Drops modes of size 1 and joins neighbours with s0*d0 == d1. Numbers known only at run time are
// left as they are.
constexpr Modes coalesce(const Modes& modes) {
  Modes out;
  for (const Mode& m : modes) {
    if (m.size.is(1)) continue;
    if (!out.empty()) {
      const Number next = out.back().size * out.back().stride;
      if (next.known() && m.stride.is(next.value())) {
        out.back().size = out.back().size * m.size;
        continue;
      }
    }
    out.push_back(m);
  }
  return out;
}

// Flat, same function on [0, size); 1:0 when nothing is left.
constexpr LayoutTree coalesce(const LayoutTree& a) { return from_modes(coalesce(leaves(a))); }

// Each top-level mode in its shortest form.
constexpr LayoutTree coalesce_by_mode(const LayoutTree& a) {
  if (a.is_leaf) return coalesce(a);
  std::vector<LayoutTree> list;
  for (const LayoutTree& m : a.modes) list.push_back(coalesce(m));
  return LayoutTree::tuple(std::move(list));
}

// Same image: modes of stride 0 go too.
constexpr LayoutTree filter(const LayoutTree& a) {
  Modes kept;
  for (const Mode& m : leaves(a))
    if (!m.stride.is(0)) kept.push_back(m);
  return from_modes(coalesce(kept));
}

}  // namespace layout

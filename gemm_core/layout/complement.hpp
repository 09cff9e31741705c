// complement(A, M): the increasing R such that A and R together reach every number below
// P*ceil(M/P) exactly once.
#pragma once
#include "gemm_core/layout/coalesce.hpp"

namespace layout {

namespace detail {

// By rising stride. Unknown strides have no order; a single one needs none.
constexpr Answer<Modes> sorted_by_stride(Modes modes) {
  for (const Mode& m : modes)
    if (modes.size() > 1 && !m.stride.known())
      return "strides known only at run time cannot be put in order";
  for (std::size_t i = 1; i < modes.size(); ++i)
    for (std::size_t j = i; j > 0 && modes[j].stride.value() < modes[j - 1].stride.value(); --j)
      std::swap(modes[j], modes[j - 1]);
  return modes;
}

// Two sets whose sums fill an interval once are nested runs (de Bruijn), so each stride is a
// multiple of what is covered before it, and the gaps between are the complement.
constexpr Answer<LayoutTree> complement(const LayoutTree& a, Number target) {
  Answer<Modes> sorted = sorted_by_stride(leaves(filter(a)));
  if (!sorted) return sorted.refusal;
  Modes out;
  Number covered = 1;
  for (const Mode& m : sorted.value) {
    if (m.size.is(1)) continue;
    if (!require(Operation::check_multiple, m.stride, covered) ||
        !require(Operation::check_less, covered + Number(-1), m.stride))
      return "the layout overlaps itself or leaves gaps that nothing fills";
    out.push_back({m.stride / covered, covered});
    covered = m.stride * m.size;
  }
  out.push_back({maximum(1, ceil_divide(target, covered)), covered});
  return from_modes(coalesce(out));
}

}  // namespace detail
}  // namespace layout

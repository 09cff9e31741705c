// ComposedTree: swizzle(offset + inner(i)). The offset is inside, since a swizzle is not linear.
// Shape and tiling act on the inner layout; there are no strides. slice() fixes coordinates, and
// gives an ordinary layout where that is sound.
#pragma once
#include <bit>
#include <optional>

#include "gemm_core/layout/coalesce.hpp"
#include "gemm_core/layout/swizzle.hpp"

namespace layout {

struct ComposedTree {
  Swizzle swizzle;
  Index offset = 0;
  LayoutTree inner;

  constexpr Index operator()(Index index) const { return swizzle(offset + inner(index)); }
};

// What is left of a ComposedTree when some modes are fixed: base + plain(i) where is_plain, else
// swizzled(i).
struct Slice {
  bool is_plain = false;
  Index base = 0;  // the value at index 0
  LayoutTree plain;
  ComposedTree swizzled;

  constexpr Index operator()(Index index) const {
    return is_plain ? base + plain(index) : swizzled(index);
  }
};

namespace detail {

// Layouts up to this size are tried value by value where the bit rule does not answer.
inline constexpr Index kEnumerationLimit = 1 << 14;

constexpr bool is_power_of_two(Index x) { return x > 0 && (x & (x - 1)) == 0; }

// Modes of size 1 or stride 0 aside, all sizes and strides are powers of two on separate bits: then
// values combine by or.
constexpr bool has_separate_bits(const Modes& modes) {
  Index used = 0;
  for (const Mode& m : modes) {
    const Index n = m.size.value(), d = m.stride.value();
    if (n == 1 || d == 0) continue;
    const Index bits = (n - 1) * d;
    if (!is_power_of_two(n) || !is_power_of_two(d) || (used & bits) != 0) return false;
    used |= bits;
  }
  return true;
}

}  // namespace detail

// Or of all values. Past the enumeration limit, and off separate bits: every bit up to the largest
// value's.
constexpr Index active_bits(const LayoutTree& a) {
  const Modes modes = leaves(a);
  const Index count = size(modes).value();
  Index active = 0;
  if (detail::has_separate_bits(modes)) {
    for (const Mode& m : modes) active |= (m.size.value() - 1) * m.stride.value();
    return active;
  }
  if (count > detail::kEnumerationLimit)
    return static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(cosize(a).value()))) - 1;
  for (Index i = 0; i < count; ++i) active |= value_at(modes, i);
  return active;
}

// Non-zero exactly when the swizzle ties together two bits that are both active.
constexpr Index collision(const Swizzle& swizzle, Index active) {
  return active & ~swizzle(active);
}

namespace detail {

// The modes of a list of values that starts at 0, if it is a layout.
constexpr Answer<Modes> fit_modes(const std::vector<Index>& values) {
  Modes out;
  const Index count = static_cast<Index>(values.size());
  for (Index unit = 1; unit < count;) {
    const Index step = values[static_cast<std::size_t>(unit)], left = count / unit;
    Index run = 1;
    while (run < left && values[static_cast<std::size_t>(run * unit)] == run * step) ++run;
    if (left % run != 0) return "the values are no layout";
    out.push_back({run, step});
    unit *= run;
  }
  return out;
}

// Replaces leaf after leaf, from left to right, by the modes found for it.
constexpr LayoutTree refined(const LayoutTree& a, const std::vector<Modes>& found,
                             std::size_t& next) {
  if (a.is_leaf) return from_modes(found[next++]);
  std::vector<LayoutTree> list;
  for (const LayoutTree& m : a.modes) list.push_back(refined(m, found, next));
  return LayoutTree::tuple(std::move(list));
}

// A swizzle is linear over xor. With F and the active bits apart and no collision, each active bit
// flips bits of swizzle(F) that no other one touches, so it has a stride of its own: -1, +1 or both
// of its bits, by what F holds there.
constexpr std::vector<Modes> slice_by_bits(const Swizzle& swizzle, Index fixed,
                                           const LayoutTree& kept) {
  std::vector<Modes> found;
  const Index base = swizzle(fixed);
  for (const Mode& m : leaves(kept)) {
    Modes bits;
    if (m.stride.is(0))
      bits.push_back(m);
    else
      for (Index c = 1; c < m.size.value(); c *= 2)
        bits.push_back({2, (base ^ swizzle(c * m.stride.value())) - base});
    found.push_back(coalesce(bits));
  }
  return found;
}

constexpr Answer<LayoutTree> slice_by_values(const Swizzle& swizzle, Index fixed,
                                             const LayoutTree& kept) {
  const Index base = swizzle(fixed);
  std::vector<Modes> found;
  for (const Mode& m : leaves(kept)) {
    std::vector<Index> values;
    for (Index c = 0; c < m.size.value(); ++c)
      values.push_back(swizzle(fixed + c * m.stride.value()) - base);
    const Answer<Modes> modes = fit_modes(values);
    if (!modes) return modes.refusal;
    found.push_back(modes.value);
  }
  std::size_t next = 0;
  LayoutTree plain = refined(kept, found, next);
  const Modes flat_plain = leaves(plain), flat_kept = leaves(kept);
  for (Index i = 0; i < size(flat_kept).value(); ++i)
    if (base + value_at(flat_plain, i) != swizzle(fixed + value_at(flat_kept, i)))

      return "the swizzle ties bits that both vary";
  return plain;
}

}  // namespace detail

// One entry for each top-level mode: a coordinate fixes the mode, nothing keeps it.
using SliceCoord = std::vector<std::optional<IntTree>>;

constexpr Slice slice(const ComposedTree& a, const SliceCoord& coord) {
  ENSURE(static_cast<int>(coord.size()) == rank(a.inner), "slice: ", coord.size(),
         " coordinates, layout has rank ", rank(a.inner));
  Index fixed = a.offset;
  std::vector<LayoutTree> list;
  for (int k = 0; k < rank(a.inner); ++k) {
    const std::optional<IntTree>& c = coord[static_cast<std::size_t>(k)];
    if (c)
      fixed += crd2idx(*c, mode(a.inner, k));
    else
      list.push_back(mode(a.inner, k));
  }
  const LayoutTree kept = LayoutTree::tuple(std::move(list));
  Slice out{false, a.swizzle(fixed), {}, {a.swizzle, fixed, kept}};
  const Index active = active_bits(kept);
  if (collision(a.swizzle, active) == 0 && (fixed & active) == 0 &&
      detail::has_separate_bits(leaves(kept))) {
    std::size_t next = 0;
    out.plain = detail::refined(kept, detail::slice_by_bits(a.swizzle, fixed, kept), next);
    out.is_plain = true;
  } else if (size(kept).value() <= detail::kEnumerationLimit) {
    const Answer<LayoutTree> plain = detail::slice_by_values(a.swizzle, fixed, kept);
    out.is_plain = static_cast<bool>(plain);
    if (plain) out.plain = plain.value;
  }
  return out;
}

}  // namespace layout

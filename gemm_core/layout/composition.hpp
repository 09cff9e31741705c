// Composition R(c) = A(B(c)), on whole layouts and mode by mode.
//
// A's modes but the last are digits of a mixed radix number, the last has no bound. Adding numbers
// without a carry adds their digits, and A is linear in digits. So a leaf s:d of B stays one mode
// for as long as multiples of d carry nowhere; at the first carry the run must divide s, and the
// walk goes on with the next stride. Modes found in this way add up freely as long as the largest
// digits of all of them together still do not carry. This needs none of the usual divisibility
// rules, answers where those give up ((4,4):(1,100) o 3:5 = 3:101) and refuses where they answer
// wrongly
// ((4,4):(1,100) o (3,2):(1,2), whose last value is 100, not 4). It is exact, and it refuses no
// composition that is a layout unless the effects of two simultaneous carries happen to cancel.
#pragma once
#include "gemm_core/layout/coalesce.hpp"

namespace layout {

namespace detail {

// Composes the leaves of one B with one A, and keeps count of the digits that they may reach
// together.
class Composer {
 public:
  constexpr Composer(const LayoutTree& a, const LayoutTree& b) {
    const Modes flat = leaves(a);
    modes_ = coalesce(flat);
    // Past its end A goes on with its last leaf, even where that leaf has size 1 and so no part in
    // the shortest form.
    const Number reach = cosize(b), end = size(flat);
    const bool goes_past = reach.known() && end.known() && reach.value() > end.value();
    if (goes_past && !flat.empty() && flat.back().size.is(1)) keep_open(flat.back());
    if (modes_.empty()) modes_.push_back(flat.empty() ? Mode{1, 0} : Mode{1, flat.back().stride});
    reached_.assign(modes_.size(), 0);
  }

  constexpr Answer<LayoutTree> compose(const LayoutTree& b) {
    if (b.is_leaf) {
      Answer<Modes> found = compose_leaf(b.leaf);
      if (!found) return found.refusal;
      return from_modes(found.value);
    }
    std::vector<LayoutTree> list;
    for (const LayoutTree& m : b.modes) {
      Answer<LayoutTree> part = compose(m);
      if (!part) return part;
      list.push_back(std::move(part.value));
    }
    return LayoutTree::tuple(std::move(list));
  }

 private:
  constexpr void keep_open(const Mode& last) {
    if (!modes_.empty() && (modes_.back().size * modes_.back().stride).is(last.stride.value()))
      return;
    modes_.push_back(last);
  }

  constexpr Answer<Modes> compose_leaf(const Mode& leaf) {
    if (leaf.size.is(1)) return Modes{};
    if (modes_.size() == 1) return Modes{{leaf.size, leaf.stride * modes_[0].stride}};
    bool known = leaf.stride.known();
    for (std::size_t k = 0; k + 1 < modes_.size(); ++k) known = known && modes_[k].size.known();
    if (known && leaf.size.known()) return compose_known(leaf.size.value(), leaf.stride.value());
    return compose_unknown(leaf.size, leaf.stride);
  }

  constexpr Answer<Modes> compose_known(Index s, Index d) {
    Modes out;
    while (s > 1) {
      Index run = s, rest = d;
      Number step = 0;
      std::vector<Index> digits;
      for (std::size_t k = 0; k + 1 < modes_.size(); ++k) {
        const Index n = modes_[k].size.value(), digit = rest % n;
        if (digit > 0) run = std::min(run, (n + digit - 1) / digit);
        step = step + Number(digit) * modes_[k].stride;
        digits.push_back(digit);
        rest /= n;
      }
      step = step + Number(rest) * modes_.back().stride;
      if (s % run != 0) return "a mode of the inner layout ends inside a mode of the outer one";
      for (std::size_t k = 0; k < digits.size(); ++k)
        if (!reach(k, Number((run - 1) * digits[k])))
          return "modes of the inner layout carry into each other";
      out.push_back({run, step});
      s /= run;
      d *= run;
    }
    return out;
  }

  // Where sizes exist only at run time the form must not depend on them: one mode of the result for
  // each mode of A, some of size 1, and the usual divisibility rules as checks.
  constexpr Answer<Modes> compose_unknown(Number s, Number d) {
    Modes out;
    for (std::size_t k = 0; k + 1 < modes_.size(); ++k) {
      const auto& [n, e] = modes_[k];
      if (!d.is(0) && !require(Operation::check_one_divides, n, d))
        return "a stride of the inner layout does not divide a mode of the outer one";
      const Number count = d.is(0) ? s : minimum(maximum(1, n / d), s);
      if (!require(Operation::check_multiple, s, count))
        return "a mode of the inner layout ends inside a mode of the outer one";
      if (!reach(k, (count + Number(-1)) * (d % n)))
        return "modes of the inner layout carry into each other";
      if (!count.is(1)) out.push_back({count, d * e});
      s = s / count;
      d = ceil_divide(d, n);
    }
    if (!s.is(1)) out.push_back({s, d * modes_.back().stride});
    return out;
  }

  constexpr bool reach(std::size_t k, Number digits) {
    reached_[k] = reached_[k] + digits;
    return require(Operation::check_less, reached_[k], modes_[k].size);
  }

  Modes modes_;  // of A; the last has no bound
  std::vector<Number>
      reached_;  // in each mode of A: the largest digit that all modes so far add up to
};

constexpr Answer<LayoutTree> composition(const LayoutTree& a, const LayoutTree& b) {
  return Composer(a, b).compose(b);
}

}  // namespace detail

// An entry of a tiler: a layout for that mode, or nothing (`_`): the mode stays as it is.
struct TilerEntry {
  constexpr TilerEntry() = default;
  constexpr TilerEntry(LayoutTree a) : layout(std::move(a)), is_named(true) {}

  LayoutTree layout;
  bool is_named = false;
};
using Tiler = std::vector<TilerEntry>;

namespace detail {

// The layout for mode k, or null where the mode stays as it is.
constexpr const LayoutTree* entry(const Tiler& tiler, int k) {
  if (k >= static_cast<int>(tiler.size())) return nullptr;
  const TilerEntry& named = tiler[static_cast<std::size_t>(k)];
  return named.is_named ? &named.layout : nullptr;
}

constexpr Answer<LayoutTree> composition_by_mode(const LayoutTree& a, const Tiler& tiler) {
  if (static_cast<int>(tiler.size()) > rank(a))
    return "the tiler has more entries than the layout has modes";
  std::vector<LayoutTree> list;
  for (int k = 0; k < rank(a); ++k) {
    const LayoutTree* inner = entry(tiler, k);
    if (inner == nullptr) {
      list.push_back(mode(a, k));
      continue;
    }
    Answer<LayoutTree> part = composition(mode(a, k), *inner);
    if (!part) return part;
    list.push_back(std::move(part.value));
  }
  return LayoutTree::tuple(std::move(list));
}

}  // namespace detail
}  // namespace layout

// Run-time nested integers (IntTree: shapes, strides, coordinates) and run-time layouts
// (LayoutTree).
//   const LayoutTree tile({4, {2, 3}}, {2, {1, 8}});     // (4,(2,3)):(2,(1,8))
//   tile(5), size(tile), cosize(tile), crd2idx({1, {0, 2}}, tile)
// A tree is a leaf or a tuple of trees; a tuple of one entry means the same as that entry, but is
// kept as written.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "gemm_core/base/error.hpp"
#include "gemm_core/layout/number.hpp"

namespace layout {

struct IntTree {
  constexpr IntTree(Number v = 0) : value(v) {}
  constexpr IntTree(Index v) : value(v) {}
  constexpr IntTree(int v) : value(v) {}
  constexpr IntTree(std::initializer_list<IntTree> list) : children(list), is_leaf(false) {}
  static constexpr IntTree tuple(std::vector<IntTree> list) {
    IntTree tree;
    tree.children = std::move(list);
    tree.is_leaf = false;
    return tree;
  }
  friend constexpr bool operator==(const IntTree& a, const IntTree& b) {
    return a.is_leaf == b.is_leaf &&
           (a.is_leaf ? a.value.value() == b.value.value() : a.children == b.children);
  }

  Number value;  // of a leaf
  std::vector<IntTree> children;
  bool is_leaf = true;
};

// One leaf of a layout.
struct Mode {
  Number size = 1, stride = 0;
};
using Modes = std::vector<Mode>;

struct LayoutTree {
  constexpr LayoutTree() = default;
  constexpr LayoutTree(Mode mode) : leaf(mode) {}
  constexpr LayoutTree(const IntTree& shape, const IntTree& stride) : is_leaf(shape.is_leaf) {
    ENSURE(shape.is_leaf == stride.is_leaf && shape.children.size() == stride.children.size(),
           "layout: shape and stride have different profiles");
    if (is_leaf) {
      leaf = {shape.value, stride.value};
      ENSURE(leaf.size.value() >= 1, "layout: size ", leaf.size.value(), ", expected at least 1");
      return;
    }
    for (std::size_t i = 0; i < shape.children.size(); ++i)
      modes.push_back({shape.children[i], stride.children[i]});
  }
  static constexpr LayoutTree tuple(std::vector<LayoutTree> list) {
    LayoutTree tree;
    tree.modes = std::move(list);
    tree.is_leaf = false;
    return tree;
  }
  constexpr Index operator()(Index index) const;

  Mode leaf;
  std::vector<LayoutTree> modes;
  bool is_leaf = true;
};

// ---- form
// -------------------------------------------------------------------------------------------------------
constexpr int rank(const LayoutTree& a) { return a.is_leaf ? 1 : static_cast<int>(a.modes.size()); }

// Mode k; a leaf is its own mode 0.
constexpr const LayoutTree& mode(const LayoutTree& a, int k) {
  return a.is_leaf ? a : a.modes[static_cast<std::size_t>(k)];
}

constexpr int depth(const LayoutTree& a) {
  int deepest = -1;
  for (const LayoutTree& m : a.modes) deepest = std::max(deepest, depth(m));
  return a.is_leaf ? 0 : deepest + 1;
}

constexpr void append_leaves(const LayoutTree& a, Modes& out) {
  if (a.is_leaf) out.push_back(a.leaf);
  for (const LayoutTree& m : a.modes) append_leaves(m, out);
}
constexpr Modes leaves(const LayoutTree& a) {
  Modes out;
  append_leaves(a, out);
  return out;
}

// Flat modes as a layout: 1:0 when there are none, a leaf when there is one.
constexpr LayoutTree from_modes(const Modes& modes) {
  if (modes.empty()) return Mode{1, 0};
  if (modes.size() == 1) return modes[0];
  return LayoutTree::tuple({modes.begin(), modes.end()});
}

constexpr IntTree shape(const LayoutTree& a) {
  if (a.is_leaf) return a.leaf.size;
  std::vector<IntTree> list;
  for (const LayoutTree& m : a.modes) list.push_back(shape(m));
  return IntTree::tuple(std::move(list));
}
constexpr IntTree stride(const LayoutTree& a) {
  if (a.is_leaf) return a.leaf.stride;
  std::vector<IntTree> list;
  for (const LayoutTree& m : a.modes) list.push_back(stride(m));
  return IntTree::tuple(std::move(list));
}

// ---- numbers
// ----------------------------------------------------------------------------------------------------
constexpr Number size(const Modes& modes) {
  Number product = 1;
  for (const Mode& m : modes) product = product * m.size;
  return product;
}
constexpr Number size(const LayoutTree& a) { return size(leaves(a)); }

// Largest value + 1 (strides are not negative).
constexpr Number cosize(const LayoutTree& a) {
  Number last = 1;
  for (const Mode& m : leaves(a)) last = last + (m.size + Number(-1)) * m.stride;
  return last;
}

// The value at an index; the last mode takes what is left undivided, so a layout goes on past its
// end.
constexpr Index value_at(const Modes& modes, Index index) {
  Index sum = 0;
  for (std::size_t k = 0; k < modes.size(); ++k) {
    const Index n = modes[k].size.value();
    const bool last = k + 1 == modes.size();
    sum += (last ? index : index % n) * modes[k].stride.value();
    index /= n;
  }
  return sum;
}

namespace detail {

// Takes its share of `left` for each leaf; only the last leaf of all has no bound.
constexpr Index take_value(const LayoutTree& a, Index& left, bool is_last) {
  if (a.is_leaf) {
    const Index n = a.leaf.size.value(), c = is_last ? left : left % n;
    left /= n;
    return c * a.leaf.stride.value();
  }
  Index sum = 0;
  for (std::size_t k = 0; k < a.modes.size(); ++k)
    sum += take_value(a.modes[k], left, is_last && k + 1 == a.modes.size());
  return sum;
}

}  // namespace detail

constexpr Index LayoutTree::operator()(Index index) const {
  return detail::take_value(*this, index, true);
}

constexpr std::vector<Index> table(const LayoutTree& a) {
  const Modes modes = leaves(a);
  std::vector<Index> values;
  for (Index i = 0; i < size(modes).value(); ++i) values.push_back(value_at(modes, i));
  return values;
}

constexpr Index size(const IntTree& shape) {
  Index product = shape.is_leaf ? shape.value.value() : 1;
  for (const IntTree& child : shape.children) product *= size(child);
  return product;
}

namespace detail {

constexpr Answer<Index> crd2idx(const IntTree& coord, const LayoutTree& a) {
  if (coord.is_leaf) return a(coord.value.value());
  if (a.is_leaf || coord.children.size() != a.modes.size())
    return "the coordinate has another profile than the shape";
  Index sum = 0;
  for (std::size_t k = 0; k < a.modes.size(); ++k) {
    const Answer<Index> part = crd2idx(coord.children[k], a.modes[k]);
    if (!part) return part;
    sum += part.value;
  }
  return sum;
}

}  // namespace detail

// The value at a coordinate, which may stop at any level of the shape: there it is an index into
// what is below.
constexpr Index crd2idx(const IntTree& coord, const LayoutTree& a) {
  const Answer<Index> answer = detail::crd2idx(coord, a);
  ENSURE(answer, "crd2idx: ", answer.refusal);
  return answer.value;
}

// The full-depth coordinate of an index, leftmost mode fastest; the last mode takes what is left.
constexpr IntTree idx2crd(Index index, const IntTree& shape) {
  if (shape.is_leaf) return index;
  std::vector<IntTree> list;
  for (std::size_t k = 0; k < shape.children.size(); ++k) {
    const Index n = size(shape.children[k]);
    const bool last = k + 1 == shape.children.size();
    list.push_back(idx2crd(last ? index : index % n, shape.children[k]));
    index /= n;
  }
  return IntTree::tuple(std::move(list));
}

}  // namespace layout

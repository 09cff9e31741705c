// The algebra on run-time layouts. Each function returns the result, or throws base::Error when no
// layout of the required form has the right values (docs/layout_algebra.md defines each). The same
// names work on layouts that are types.
//   zipped_divide(LayoutTree({9, {4, 8}}, {59, {13, 1}}), {{LayoutTree(3, 3)}, {LayoutTree({2, 4},
//   {1, 8})}})
#pragma once
#include "gemm_core/layout/divide.hpp"
#include "gemm_core/layout/inverse.hpp"
#include "gemm_core/layout/print.hpp"
#include "gemm_core/layout/product.hpp"

namespace layout {

namespace detail {

template <class... Inputs>
LayoutTree answered(Answer<LayoutTree> answer, const char* operation, const Inputs&... inputs) {
  ENSURE(answer, operation, "(", ((print(inputs) + " ") + ...), "): ", answer.refusal);
  return std::move(answer.value);
}

}  // namespace detail

inline LayoutTree composition(const LayoutTree& a, const LayoutTree& b) {
  return detail::answered(detail::composition(a, b), "composition", a, b);
}
// Modes that the tiler does not name, or names with nothing, stay as they are.
inline LayoutTree composition(const LayoutTree& a, const Tiler& tiler) {
  return detail::answered(detail::composition_by_mode(a, tiler), "composition by mode", a);
}
inline LayoutTree complement(const LayoutTree& a, Index target) {
  return detail::answered(detail::complement(a, target), "complement", a);
}
inline LayoutTree logical_divide(const LayoutTree& a, const LayoutTree& tiler) {
  return detail::answered(detail::logical_divide(a, tiler), "logical_divide", a, tiler);
}
inline LayoutTree logical_divide(const LayoutTree& a, const Tiler& tiler) {
  return detail::answered(detail::logical_divide_by_mode(a, tiler), "logical_divide by mode", a);
}
inline LayoutTree zipped_divide(const LayoutTree& a, const Tiler& tiler) {
  return detail::answered(detail::zipped_divide(a, tiler), "zipped_divide", a);
}
inline LayoutTree tiled_divide(const LayoutTree& a, const Tiler& tiler) {
  return detail::answered(detail::tiled_divide(a, tiler), "tiled_divide", a);
}
inline LayoutTree flat_divide(const LayoutTree& a, const Tiler& tiler) {
  return detail::answered(detail::flat_divide(a, tiler), "flat_divide", a);
}
inline LayoutTree logical_product(const LayoutTree& a, const LayoutTree& b) {
  return detail::answered(detail::logical_product(a, b), "logical_product", a, b);
}
inline LayoutTree blocked_product(const LayoutTree& a, const LayoutTree& b) {
  return detail::answered(detail::blocked_product(a, b), "blocked_product", a, b);
}
inline LayoutTree raked_product(const LayoutTree& a, const LayoutTree& b) {
  return detail::answered(detail::raked_product(a, b), "raked_product", a, b);
}
inline LayoutTree right_inverse(const LayoutTree& a) { return detail::right_inverse(a); }
inline LayoutTree left_inverse(const LayoutTree& a) {
  return detail::answered(detail::left_inverse(a), "left_inverse", a);
}
inline LayoutTree max_common_vector(const LayoutTree& a, const LayoutTree& b) {
  return detail::answered(detail::max_common_vector(a, b), "max_common_vector", a, b);
}

namespace detail {

constexpr LayoutTree with_strides(const IntTree& shape, const std::vector<Number>& strides,
                                  std::size_t& next) {
  if (shape.is_leaf) return Mode{shape.value, strides[next++]};
  std::vector<LayoutTree> list;
  for (const IntTree& child : shape.children) list.push_back(with_strides(child, strides, next));
  return LayoutTree::tuple(std::move(list));
}

constexpr void append_values(const IntTree& tree, std::vector<Number>& out) {
  if (tree.is_leaf) out.push_back(tree.value);
  for (const IntTree& child : tree.children) append_values(child, out);
}

// Compact strides, the leaf with the smallest order fastest; equal orders go from left to right.
constexpr Answer<LayoutTree> ordered_layout(const IntTree& shape, const IntTree& order) {
  std::vector<Number> sizes, orders;
  append_values(shape, sizes);
  append_values(order, orders);
  if (sizes.size() != orders.size()) return "shape and order have different numbers of leaves";
  std::vector<Number> strides(sizes.size());
  std::vector<bool> done(sizes.size());
  Number next = 1;
  for (std::size_t turn = 0; turn < sizes.size(); ++turn) {
    std::size_t least = sizes.size();
    for (std::size_t k = 0; k < sizes.size(); ++k)
      if (!done[k] && (least == sizes.size() || orders[k].value() < orders[least].value()))
        least = k;
    done[least] = true;
    strides[least] = next;
    next = next * sizes[least];
  }
  std::size_t leaf = 0;
  return with_strides(shape, strides, leaf);
}

}  // namespace detail

inline LayoutTree ordered_layout(const IntTree& shape, const IntTree& order) {
  return detail::answered(detail::ordered_layout(shape, order), "ordered_layout", shape, order);
}

}  // namespace layout

// Layouts as text: (4,(2,3)):(2,(1,8)).
#pragma once
#include <ostream>
#include <string>

#include "gemm_core/layout/composed.hpp"
#include "gemm_core/layout/layout.hpp"

namespace layout {

inline std::string print(const IntTree& tree) {
  if (tree.is_leaf) return std::to_string(tree.value.value());
  std::string text = "(";
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    if (i > 0) text += ',';
    text += print(tree.children[i]);
  }
  text += ')';
  return text;
}

inline std::string print(const LayoutTree& a) { return print(shape(a)) + ":" + print(stride(a)); }

template <IsLayout L>
std::string print(const L& a) {
  return print(to_tree(a));
}

inline std::string print(const Swizzle& s) {
  return "Sw<" + std::to_string(s.bits) + "," + std::to_string(s.base) + "," +
         std::to_string(s.shift) + ">";
}

inline std::string print(const ComposedTree& a) {
  return print(a.swizzle) + " o " + std::to_string(a.offset) + " o " + print(a.inner);
}

inline std::ostream& operator<<(std::ostream& out, const IntTree& tree) {
  return out << print(tree);
}
inline std::ostream& operator<<(std::ostream& out, const LayoutTree& a) { return out << print(a); }
template <IsLayout L>
std::ostream& operator<<(std::ostream& out, const L& a) {
  return out << print(a);
}
inline std::ostream& operator<<(std::ostream& out, const Swizzle& s) { return out << print(s); }
inline std::ostream& operator<<(std::ostream& out, const ComposedTree& a) {
  return out << print(a);
}

// The values of a layout of rank 2 as rows and columns of text.
inline std::string print_grid(const LayoutTree& a) {
  ENSURE(rank(a) == 2, "print_grid: ", print(a), " has rank ", rank(a), ", expected 2");
  const Index rows = size(mode(a, 0)).value(), columns = size(mode(a, 1)).value();
  const std::size_t width = std::to_string(cosize(a).value() - 1).size() + 1;
  std::string text;
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      const std::string value = std::to_string(a(i + rows * j));
      text += std::string(width > value.size() ? width - value.size() : 0, ' ') + value;
    }
    text += '\n';
  }
  return text;
}

}  // namespace layout

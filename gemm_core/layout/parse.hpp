// The inverse of print: "(4,(2,3)):(2,(1,8))" as a layout. Spaces are skipped; anything else that
// is no layout is an Error that gives the position.
#pragma once
#include <string_view>

#include "gemm_core/layout/tree.hpp"

namespace layout {

namespace detail {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  LayoutTree layout() {
    const IntTree shape = tree(0);
    expect(':');
    const IntTree stride = tree(0);
    skip_spaces();
    ENSURE(at_ == text_.size(), "layout \"", text_, "\": unexpected text at position ", at_);
    return {shape, stride};
  }

 private:
  static constexpr int kMaxDepth = 64;  // text is untrusted: no recursion without end

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char wanted) {
    skip_spaces();
    const bool there = at_ < text_.size() && text_[at_] == wanted;
    at_ += there;
    return there;
  }
  void expect(char wanted) {
    ENSURE(take(wanted), "layout \"", text_, "\": expected '", wanted, "' at position ", at_);
  }

  IntTree tree(int depth) {
    ENSURE(depth < kMaxDepth, "layout \"", text_, "\": nested deeper than ", kMaxDepth);
    if (!take('(')) return number();
    std::vector<IntTree> list;
    do list.push_back(tree(depth + 1));
    while (take(','));
    expect(')');
    return IntTree::tuple(std::move(list));
  }

  Index number() {
    const bool negative = take('-');
    const std::size_t begin = at_;
    Index value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      ENSURE(at_ - begin < 15, "layout \"", text_, "\": number too long at position ", begin);
      value = 10 * value + (text_[at_] - '0');
    }
    ENSURE(at_ > begin, "layout \"", text_, "\": expected a number at position ", begin);
    return negative ? -value : value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace detail

inline LayoutTree parse_layout(std::string_view text) { return detail::Parser(text).layout(); }

}  // namespace layout

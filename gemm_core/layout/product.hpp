// Copies of a layout. logical_product(A, B) = (A, complement(A) o B): mode 0 is A, mode 1 runs over
// copies laid out as B.
#pragma once
#include "gemm_core/layout/complement.hpp"
#include "gemm_core/layout/composition.hpp"

namespace layout::detail {

constexpr Answer<LayoutTree> logical_product(const LayoutTree& a, const LayoutTree& b) {
  const Answer<LayoutTree> room = complement(a, size(a) * cosize(b));
  if (!room) return room;
  Answer<LayoutTree> copies = composition(room.value, b);
  if (!copies) return copies;
  return LayoutTree::tuple({a, copies.value});
}

constexpr LayoutTree padded(const LayoutTree& a, int wanted_rank) {
  std::vector<LayoutTree> list;
  for (int k = 0; k < rank(a); ++k) list.push_back(mode(a, k));
  for (int k = rank(a); k < wanted_rank; ++k) list.push_back(Mode{1, 0});
  return LayoutTree::tuple(std::move(list));
}

enum class CopyOrder : std::uint8_t { block_fastest, copy_fastest };

constexpr Answer<LayoutTree> ranked_product(const LayoutTree& a, const LayoutTree& b,
                                            CopyOrder order) {
  const int modes = std::max(rank(a), rank(b));
  const Answer<LayoutTree> both = logical_product(padded(a, modes), padded(b, modes));
  if (!both) return both;
  std::vector<LayoutTree> list;
  for (int k = 0; k < modes; ++k) {
    const LayoutTree &block = mode(both.value.modes[0], k), &copy = mode(both.value.modes[1], k);
    if (order == CopyOrder::block_fastest)
      list.push_back(LayoutTree::tuple({block, copy}));
    else
      list.push_back(LayoutTree::tuple({copy, block}));
  }
  return LayoutTree::tuple(std::move(list));
}

// Neighbours stay together: mode k is (mode k of A, mode k of the copies).
constexpr Answer<LayoutTree> blocked_product(const LayoutTree& a, const LayoutTree& b) {
  return ranked_product(a, b, CopyOrder::block_fastest);
}

// Neighbours are dealt out in turn: mode k is (mode k of the copies, mode k of A).
constexpr Answer<LayoutTree> raked_product(const LayoutTree& a, const LayoutTree& b) {
  return ranked_product(a, b, CopyOrder::copy_fastest);
}

}  // namespace layout::detail

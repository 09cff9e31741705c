// GatherLayout: outer(gather) o (offset + inner). The inner layouts take an index to a slot of an
// index buffer and to a dense offset; the outer one turns the slot into index[slot] * row_pitch.
// The index buffer is no linear function, so it can only be outermost. A negative entry is a hole:
// the element does not exist, and the reader fills in zero.
//   A of a sparse convolution, M rows x (channel c, tap r):
//     slots (M,(C,R)):(R,(0,1))  dense (M,(C,R)):(0,(1,0))  index = neighbour[m][r]  row_pitch =
//     channels of a row
#pragma once
#include "gemm_core/base/error.hpp"
#include "gemm_core/layout/tree.hpp"

namespace layout {

inline constexpr Index kHole = -1;

// `SlotLayout` and `DenseLayout` are run-time trees or layouts that are types, of one shape.
template <class Integer, class SlotLayout, class DenseLayout>
struct GatherLayout {
  SlotLayout slots;
  DenseLayout dense;
  const Integer* index = nullptr;  // not owned
  Index row_pitch = 1;
  Index slot_offset = 0, dense_offset = 0;

  // The offset of the element in the gathered tensor, or kHole.
  template <class Coord>
  BASE_HD constexpr Index operator()(const Coord& coord) const {
    const Index row = static_cast<Index>(index[slot_offset + slots(coord)]);
    return row < 0 ? kHole : row * row_pitch + dense_offset + dense(coord);
  }
  template <class Coord>
  BASE_HD constexpr bool exists(const Coord& coord) const {
    return index[slot_offset + slots(coord)] >= 0;
  }
};

template <class Integer, class SlotLayout, class DenseLayout>
GatherLayout(SlotLayout, DenseLayout, const Integer*, Index)
    -> GatherLayout<Integer, SlotLayout, DenseLayout>;

// Checks what a caller hands over: one shape, and an index buffer with an entry for every slot.
template <class Integer>
GatherLayout<Integer, LayoutTree, LayoutTree> make_gather_layout(const LayoutTree& slots,
                                                                 const LayoutTree& dense,
                                                                 const Integer* index,
                                                                 Index index_count,
                                                                 Index row_pitch) {
  ENSURE(shape(slots) == shape(dense),
         "gather layout: slots and dense offsets have different shapes");
  ENSURE(cosize(slots).value() <= index_count, "gather layout: slots reach entry ",
         cosize(slots).value() - 1, ", the index buffer has ", index_count);
  return {slots, dense, index, row_pitch};
}

// How many elements in a row lie next to each other in one gathered row, whatever the index buffer
// holds: the dense stride-1 run along which the slot stays the same. Vectors of a power of two
// elements may be this wide, alignment of the rows permitting.
template <class Integer>
Index max_vector(const GatherLayout<Integer, LayoutTree, LayoutTree>& a) {
  const Modes slots = leaves(a.slots), dense = leaves(a.dense);
  Index run = 1;
  for (std::size_t k = 0; k < dense.size(); ++k) {
    if (dense[k].size.is(1)) continue;
    if (!slots[k].stride.is(0) || !dense[k].stride.is(run)) break;
    run *= dense[k].size.value();
  }
  return run;
}

}  // namespace layout

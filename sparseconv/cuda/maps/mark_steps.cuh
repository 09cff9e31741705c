// Steps that mark the cells of general sets (general_steps.cuh), block by block of the sets they
// come from: a set is marked from one whose rows have no numbers yet, so that all sets of a chain
// are numbered together. Most strided sets are marked by plain_marks.cuh.
#pragma once
#include "sparseconv/conv_geometry.hpp"
#include "sparseconv/cuda/maps/block_table.cuh"

namespace sparseconv::cuda {

enum CoordinateError : std::int32_t { kOutsideKeyRange = 1 };

// Cells of a block along an axis: bit v of four says that there is one at v.
namespace block_axis {

// Bit of the cell at v along an axis and 0 along the others.
SPARSECONV_DEVICE constexpr int place(int axis, int v) {
  return (v & 1) << axis | (v >> 1) << (axis + 3);
}
// Cells at 0 along an axis.
SPARSECONV_DEVICE constexpr std::uint64_t first_cells(int axis) {
  std::uint64_t cells = 0;
  for (int cell = 0; cell < 64; ++cell) {
    if ((cell >> axis & 1) == 0 && (cell >> (axis + 3) & 1) == 0) cells |= std::uint64_t{1} << cell;
  }
  return cells;
}
// Cells whose place along an axis is one of four.
template <int kAxis>
SPARSECONV_DEVICE inline std::uint64_t cells_at(std::uint32_t places) {
  constexpr std::uint64_t kFirst = first_cells(kAxis);
  std::uint64_t cells = 0;
  SPARSECONV_UNROLL
  for (int v = 0; v < 4; ++v) cells |= (places >> v & 1) != 0 ? kFirst << place(kAxis, v) : 0;
  return cells;
}
// Moves cells at v along an axis to each t that has its bit 4 v + t.
template <int kAxis>
SPARSECONV_DEVICE inline std::uint64_t moved(std::uint64_t cells, std::uint32_t places) {
  constexpr std::uint64_t kFirst = first_cells(kAxis);
  std::uint64_t there = 0;
  SPARSECONV_UNROLL
  for (int v = 0; v < 4; ++v) {
    const std::uint64_t from = cells >> place(kAxis, v) & kFirst;
    SPARSECONV_UNROLL
    for (int t = 0; t < 4; ++t)
      there |= (places >> (4 * v + t) & 1) != 0 ? from << place(kAxis, t) : 0;
  }
  return there;
}

}  // namespace block_axis

// Marks cells of a block.
SPARSECONV_DEVICE inline void mark_cells(const BlockTable& table, Key id, std::uint64_t bits,
                                         std::int32_t* errors, std::int32_t* full) {
  constexpr std::uint64_t kLastCell = std::uint64_t{1} << 63;
  if (id == kNoKey >> kBlockBits && (bits & kLastCell) != 0) {
    *errors = kOutsideKeyRange;
    bits &= ~kLastCell;
  }
  if (bits == 0) return;
  // Most blocks and many cells were marked before: then looking is enough. What is seen may be old,
  // but blocks stay and marks only grow.
  const std::int32_t home = table.home(id);
  const BlockHead head = table.entries[home].head;
  if (head.id == id && (head.mask & bits) == 0) return;
  const std::int32_t slot = head.id == id ? home : table.insert(id);
  if (slot < 0) {
    *full = 1;
    return;
  }
  atomic_clear(&table.entries[slot].head.mask, bits);
}

// A set that cells of another are marked from.
struct MarkSource {
  BlockTable table;
  ConvGeometry geometry;
  std::int32_t is_marked;  // its own cells are marked only; else it has keys
};

struct MarkOutputs {
  // Threads of a block of the source; they take the blocks of the outputs in turn.
  static constexpr std::int32_t kShares = 8, kAtOnce = 1 << 18;
  JobList<MarkSource> sources;
  BlockTable table;      // of the new set
  std::int32_t last[3];  // bounds of the new set, 0 <= output <= last, where `is_bounded`
  bool is_bounded, is_strided;
  std::int32_t *errors, *full;

  SPARSECONV_DEVICE std::int32_t jobs() const { return sources.count; }
  std::int32_t capacity(int job) const { return threads_for(sources[job].table.slots); }
  SPARSECONV_DEVICE std::int32_t size(int job) const {
    return threads_for(*sources[job].table.used);
  }
  SPARSECONV_DEVICE void operator()(int job, std::int32_t i, bool is_active) const {
    if (!is_active) return;
    const MarkSource& source = sources[job];
    for (std::int32_t item = i / kShares; item < *source.table.used; item += kAtOnce / kShares) {
      const BlockHead head = source.table.entries[source.table.list[item]].head;
      mark_from(source, head.id, source.is_marked != 0 ? ~head.mask : head.mask, i % kShares);
    }
  }

 private:
  SPARSECONV_DEVICE static std::int32_t threads_for(std::int32_t blocks) {
    return blocks < kAtOnce / kShares ? blocks * kShares : kAtOnce;
  }
  // Outputs along an axis that has bounds: first, first + step ... last. `is_outside`: some more
  // are beyond the key range.
  struct Outputs {
    std::int64_t first, last, step;
    bool is_none, is_outside;
  };

  SPARSECONV_DEVICE static std::int32_t floor_div(std::int32_t a, std::int32_t b) {
    const std::int32_t quotient = a / b;
    return a % b < 0 ? quotient - 1 : quotient;
  }
  SPARSECONV_DEVICE static Key axis_bits(std::int64_t out, int axis) {
    return spread_bits(static_cast<std::uint32_t>(out + kAxisBias)) << axis;
  }

  SPARSECONV_DEVICE Outputs outputs(const MarkSource& source, std::int32_t value, int axis) const {
    const ConvGeometry& geometry = source.geometry;
    const std::int32_t stride = geometry.stride[axis], dilation = geometry.dilation[axis];
    const std::int32_t reach = (geometry.kernel[axis] - 1) * dilation;
    Outputs along{};
    if (is_strided) {
      // value = out * stride - padding + tap * dilation, 0 <= tap < kernel. Where the dilation is
      // not 1, outputs repeat after as many strides as the dilation needs.
      const std::int32_t above = value + geometry.padding[axis];
      if (dilation == 1 || reach == 0) {
        along.first = -floor_div(reach - above, stride);
        along.last = floor_div(above, stride);
        along.step = 1;
      } else {
        along = dilated(above, stride, dilation, geometry.kernel[axis]);
      }
    } else {
      along.first = std::int64_t{value} * stride - geometry.padding[axis];
      along.last = along.first + reach;
      along.step = dilation;
    }
    return clipped(along, axis);
  }

  // Taps whose remainder by the stride is that of `above`, if there are any, are evenly spaced.
  SPARSECONV_DEVICE static Outputs dilated(std::int32_t above, std::int32_t stride,
                                           std::int32_t dilation, std::int32_t kernel) {
    std::int32_t first_tap = -1, second_tap = -1, last_tap = -1;
    for (std::int32_t tap = 0; tap < kernel; ++tap) {
      if ((above - tap * dilation) % stride != 0) continue;
      if (first_tap < 0) {
        first_tap = tap;
      } else if (second_tap < 0) {
        second_tap = tap;
      }
      last_tap = tap;
    }
    if (first_tap < 0) return {0, -1, 1, false, false};
    const auto out = [&](std::int32_t tap) { return floor_div(above - tap * dilation, stride); };
    return {out(last_tap), out(first_tap), second_tap < 0 ? 1 : out(first_tap) - out(second_tap),
            false, false};
  }

  SPARSECONV_DEVICE static void clip(Outputs& along, std::int64_t low, std::int64_t high) {
    while (along.first <= along.last && along.first < low) along.first += along.step;
    while (along.first <= along.last && along.last > high) along.last -= along.step;
  }
  SPARSECONV_DEVICE Outputs clipped(Outputs along, int axis) const {
    if (is_bounded) clip(along, 0, last[axis]);
    along.is_none = along.first > along.last;
    along.is_outside = along.first < kAxisMin || along.last > kAxisMax;
    clip(along, kAxisMin, kAxisMax);
    return along;
  }

  // What the four places of a block along an axis give, and the blocks that it falls into.
  struct Along {
    std::int32_t first[4], last[4], step[4];  // outputs of a place; first > last: none
    std::uint32_t none = 0, outside = 0;      // of the four
    std::int32_t first_block = 0, blocks = 0;

    // Bit 4 v + t: place v gives the cell at t of a block.
    SPARSECONV_DEVICE std::uint32_t places_in(std::int32_t block) const {
      std::uint32_t places = 0;
      SPARSECONV_UNROLL
      for (int v = 0; v < 4; ++v) {
        const std::int32_t from = first[v] - 4 * block, to = last[v] - 4 * block;
        std::uint32_t of_place = 0;
        if (step[v] == 1) {
          const std::int32_t low = from > 0 ? from : 0, high = to < 3 ? to : 3;
          of_place = low <= high ? (2u << high) - (1u << low) : 0;
        } else {
          for (std::int32_t t = 0; t < 4; ++t)
            of_place |= (t >= from && t <= to && (t - from) % step[v] == 0 ? 1u : 0u) << t;
        }
        places |= of_place << (4 * v);
      }
      return places;
    }
  };
  // Quotients by `divisor`, rounded down, of `first` and what follows it.
  struct Quotients {
    std::int32_t quotient, rest, divisor;
    SPARSECONV_DEVICE Quotients(std::int32_t first, std::int32_t by)
        : quotient(floor_div(first, by)), rest(first - quotient * by), divisor(by) {}
    SPARSECONV_DEVICE std::int32_t operator[](int v) const {
      const std::int32_t at = rest + v;
      return quotient + (at >= divisor ? 1 : 0) + (at >= 2 * divisor ? 1 : 0) +
             (at >= 3 * divisor ? 1 : 0);
    }
  };
  SPARSECONV_DEVICE Along along(const MarkSource& source, std::int32_t first, int axis) const {
    const ConvGeometry& geometry = source.geometry;
    const std::int32_t stride = geometry.stride[axis], padding = geometry.padding[axis];
    const std::int32_t reach = (geometry.kernel[axis] - 1) * geometry.dilation[axis];
    const bool is_plain = is_strided && (geometry.dilation[axis] == 1 || reach == 0);
    Along a;
    if (is_plain) {
      // As outputs(), with two divisions for the four places.
      const Quotients lasts(first + padding, stride),
          firsts(first + padding - reach + stride - 1, stride);
      SPARSECONV_UNROLL
      for (int v = 0; v < 4; ++v) {
        a.first[v] = is_bounded && firsts[v] < 0 ? 0 : firsts[v];
        a.last[v] = is_bounded && lasts[v] > last[axis] ? last[axis] : lasts[v];
        a.step[v] = 1;
        if (a.first[v] > a.last[v]) a.none |= 1u << v;
        if (a.first[v] < kAxisMin || a.last[v] > kAxisMax) a.outside |= 1u << v;
        a.first[v] = a.first[v] < kAxisMin ? kAxisMin : a.first[v];
        a.last[v] = a.last[v] > kAxisMax ? kAxisMax : a.last[v];
      }
    } else {
      SPARSECONV_UNROLL
      for (int v = 0; v < 4; ++v) {
        const Outputs of = outputs(source, first + v, axis);
        if (of.is_none) a.none |= 1u << v;
        if (of.is_outside) a.outside |= 1u << v;
        // Within the key range by now, where there are any.
        const bool is_empty = of.first > of.last;
        a.first[v] = is_empty ? 1 : static_cast<std::int32_t>(of.first);
        a.last[v] = is_empty ? 0 : static_cast<std::int32_t>(of.last);
        a.step[v] = static_cast<std::int32_t>(of.step);
      }
    }
    std::int32_t low = 1, high = 0;
    SPARSECONV_UNROLL
    for (int v = 0; v < 4; ++v) {
      if (a.first[v] > a.last[v]) continue;
      const std::int32_t begin = a.first[v] >> 2, end = a.last[v] >> 2;
      const bool is_first = low > high;
      low = is_first || begin < low ? begin : low;
      high = is_first || end > high ? end : high;
    }
    a.first_block = low;
    a.blocks = high - low + 1;
    return a;
  }

  SPARSECONV_DEVICE void mark_from(const MarkSource& source, Key id, std::uint64_t cells,
                                   int share) const {
    const Coord c = unpack(id << kBlockBits);
    const Along x = along(source, c.x, 0), y = along(source, c.y, 1), z = along(source, c.z, 2);
    if ((x.none | y.none | z.none | x.outside | y.outside | z.outside) != 0) {
      cells &= ~(block_axis::cells_at<0>(x.none) | block_axis::cells_at<1>(y.none) |
                 block_axis::cells_at<2>(z.none));
      const std::uint64_t outside = block_axis::cells_at<0>(x.outside) |
                                    block_axis::cells_at<1>(y.outside) |
                                    block_axis::cells_at<2>(z.outside);
      if ((cells & outside) != 0) *errors = kOutsideKeyRange;
    }
    const Key batch = id << kBlockBits >> (3 * kAxisBits) << (3 * kAxisBits);
    // Large steps leave most blocks between the first and the last empty: then cell by cell.
    constexpr std::int32_t kFewBlocks = 16;
    if (x.blocks > kFewBlocks || y.blocks > kFewBlocks || z.blocks > kFewBlocks) {
      for (std::uint64_t left = cells; left != 0; left &= left - 1) {
        const int cell = lowest_bit(left);
        if (cell % kShares == share)
          mark_cell(batch, outputs(source, c.x + place_of(cell, 0), 0),
                    outputs(source, c.y + place_of(cell, 1), 1),
                    outputs(source, c.z + place_of(cell, 2), 2));
      }
      return;
    }
    const std::int32_t count = x.blocks * y.blocks * z.blocks;
    for (std::int32_t block = share; block < count; block += kShares) {
      const std::int32_t at_x = x.first_block + block % x.blocks,
                         at_y = y.first_block + block / x.blocks % y.blocks,
                         at_z = z.first_block + block / (x.blocks * y.blocks);
      const std::uint64_t of_z = block_axis::moved<2>(cells, z.places_in(at_z));
      const std::uint64_t of_y = block_axis::moved<1>(of_z, y.places_in(at_y));
      const std::uint64_t out = block_axis::moved<0>(of_y, x.places_in(at_x));
      const Key key = batch | axis_bits(std::int64_t{4} * at_x, 0) |
                      axis_bits(std::int64_t{4} * at_y, 1) | axis_bits(std::int64_t{4} * at_z, 2);
      mark(key >> kBlockBits, out);
    }
  }
  SPARSECONV_DEVICE static int place_of(int cell, int axis) {
    return (cell >> axis & 1) | (cell >> (axis + 3) & 1) << 1;
  }
  // The outputs of one cell. Neighbours are mostly of one block: their bits go there together.
  SPARSECONV_DEVICE void mark_cell(Key batch, const Outputs& x, const Outputs& y,
                                   const Outputs& z) const {
    Key id = kFreeSlot;
    std::uint64_t bits = 0;
    for (std::int64_t at_z = z.first; at_z <= z.last; at_z += z.step) {
      const Key of_z = batch | axis_bits(at_z, 2);
      for (std::int64_t at_y = y.first; at_y <= y.last; at_y += y.step) {
        const Key of_y = of_z | axis_bits(at_y, 1);
        for (std::int64_t at_x = x.first; at_x <= x.last; at_x += x.step) {
          const Key out = of_y | axis_bits(at_x, 0);
          if (out >> kBlockBits != id) {
            mark(id, bits);
            id = out >> kBlockBits;
            bits = 0;
          }
          bits |= std::uint64_t{1} << (out & 63);
        }
      }
    }
    mark(id, bits);
  }
  SPARSECONV_DEVICE void mark(Key id, std::uint64_t bits) const {
    mark_cells(table, id, bits, errors, full);
  }
};

}  // namespace sparseconv::cuda

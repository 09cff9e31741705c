// Where the neighbours of a kernel map come from. No map is stored in between: whoever needs the
// input row of (output row, tap) asks a finder made for that row, in the order that suits him.
#pragma once
#include "sparseconv/conv_geometry.hpp"
#include "sparseconv/cuda/maps/block_table.cuh"

namespace sparseconv::cuda {

struct MapSource {
  enum class Kind : std::int32_t {
    window,           // convolution 3x3x3 without dilation
    search,           // other convolutions: input (fine) rows looked up
    transposed,       // transposed convolution: input (coarse) rows looked up
    halving,          // kernel 2 stride 2: the children of a cell follow each other
    halving_inverse,  // the parent of a cell
    table,            // a table by output row, e.g. an inverse derived from one
  } kind = Kind::search;
  CoordinateView input, output;
  ConvGeometry geometry;
  std::int32_t taps = 1;
  const std::int32_t* link =
      nullptr;  // halving: first_child of the output; halving_inverse: parent of the output
  const std::int32_t* table = nullptr;  // [taps][pitch]
  std::int64_t pitch = 0;

  // Finders give ranks of the input, in a table rows.
  SPARSECONV_DEVICE const std::int32_t* input_rows() const {
    return kind == Kind::table ? nullptr : input.rows;
  }
  // Output row of the i-th row that steps visit: by rank, in a table by row.
  SPARSECONV_DEVICE std::int32_t output_row(std::int32_t i) const {
    return kind == Kind::table ? i : output.row(i);
  }
};

// Tap of the cell that `key` is within its parent: keys order z, y, x; taps x, y, z.
SPARSECONV_DEVICE constexpr int child_tap(Key key) {
  return static_cast<int>((key & 1) << 2 | (key & 2) | (key >> 2 & 1));
}

// The 27 cells of a window lie in at most eight blocks, in two layers along z. The four blocks of a
// layer are asked for before the first answer is looked at. Kept as halves of 32 cells, so that a
// neighbour costs a dozen instructions.
class WindowFinder {
 public:
  static constexpr int kWords = 16;  // of a StepContext: the first rank of a half, and its cells

  SPARSECONV_DEVICE WindowFinder(const MapSource& source, std::int32_t rank,
                                 const StepContext& context)
      : input_(source.input), context_(context) {
    const Key key = source.output.keys[rank];
    const Coord at = unpack(key);
    Edge edge[3];
    SPARSECONV_UNROLL
    for (int a = 0; a < 3; ++a) {
      const std::int32_t first =
          begin_of(std::int64_t{at[a]} * source.geometry.stride[a] - source.geometry.padding[a]);
      const std::int32_t block = first >> 2, place = first & 3;
      edge[a].near = spread_bits(static_cast<std::uint32_t>(block)) << a;
      edge[a].far = spread_bits(static_cast<std::uint32_t>(block + 1)) << a;
      edge[a].has_near = block >= 0 && block < kAxisBlocks;
      edge[a].has_far = place > 1 && block + 1 >= 0 && block + 1 < kAxisBlocks;
      SPARSECONV_UNROLL
      for (int d = 0; d < 3; ++d) {
        const int v = (place + d) & 3;
        cell_[a][d] = a < 2 ? ((v & 1) | (v & 2) << 2) << a : (v & 1) << 2;
        half_of_[a][d] = (place + d > 3 ? 2 << a : 0) + (a == 2 ? v >> 1 : 0);
      }
    }
    const Key batch = key >> (3 * kAxisBits) << (3 * kAxisBits - kBlockBits);
    const Key layer[2] = {batch | edge[2].near, batch | edge[2].far};
    std::uint32_t elsewhere = fetch_layer(layer[0], edge, edge[2].has_near, 0);
    elsewhere |= fetch_layer(layer[1], edge, edge[2].has_far, 8) << 4;
    // Blocks whose homes hold others, of all eight: a thread follows its own, one access a time, so
    // that a warp waits for the thread that has most to follow and not for one a block.
    std::int32_t slot = -1, probes = 0;
    while (elsewhere != 0) {
      const int b = lowest_bit(elsewhere);
      const Key id = id_of(b < 4 ? layer[0] : layer[1], edge, b);
      slot = next_slot(slot < 0 ? input_.table.home(id) : slot, input_.table.slots);
      const BlockEntry& entry = input_.table.entries[slot];
      const BlockHead head = entry.head;
      if (head.id == id) keep(2 * b, head.mask, entry.first);
      if (head.id != id && head.id != kFreeSlot && ++probes < input_.table.slots) continue;
      elsewhere &= elsewhere - 1;
      slot = -1;
      probes = 0;
    }
  }
  SPARSECONV_DEVICE std::int32_t operator()(int tap) const {
    const int x = tap / 9, y = tap / 3 % 3, z = tap % 3;
    const MemoryWord half = context_.word(half_of_[0][x] + half_of_[1][y] + half_of_[2][z]);
    const int cell = cell_[0][x] | cell_[1][y] | cell_[2][z];
    const std::int32_t there = half.number + bit_count(half.bits & ((1u << cell) - 1));
    return (half.bits >> cell & 1) != 0 ? there : -1;
  }

 private:
  static constexpr std::int32_t kAxisBlocks = 1 << (kAxisBits - 2);
  // Along an axis, bits of the block where the window begins and of the next one; whether they
  // are within the key range and of the window.
  struct Edge {
    Key near, far;
    bool has_near, has_far;
  };

  // Where a window begins, counted from the lowest cell; what is far outside comes closer.
  SPARSECONV_DEVICE static std::int32_t begin_of(std::int64_t cell) {
    constexpr std::int64_t kLow = -4, kHigh = std::int64_t{1} << kAxisBits;
    const std::int64_t begin = cell + kAxisBias;
    return static_cast<std::int32_t>(begin < kLow ? kLow : begin > kHigh ? kHigh : begin);
  }
  SPARSECONV_DEVICE static Key id_of(Key layer, const Edge (&edge)[3], int b) {
    return layer | ((b & 1) != 0 ? edge[0].far : edge[0].near) |
           ((b & 2) != 0 ? edge[1].far : edge[1].near);
  }
  SPARSECONV_DEVICE void keep(int word, std::uint64_t mask, std::int32_t first) const {
    const auto low = static_cast<std::uint32_t>(mask),
               high = static_cast<std::uint32_t>(mask >> 32);
    context_.word(word) = {low, first};
    context_.word(word + 1) = {high, first + bit_count(low)};
  }
  // Keeps four blocks where they are in their homes; which of them may be elsewhere.
  SPARSECONV_DEVICE std::uint32_t fetch_layer(Key layer, const Edge (&edge)[3], bool is_there,
                                              int word) const {
    BlockHead head[4];
    std::int32_t first[4];
    SPARSECONV_UNROLL
    for (int b = 0; b < 4; ++b) {
      const bool is_asked = is_there && ((b & 1) != 0 ? edge[0].has_far : edge[0].has_near) &&
                            ((b & 2) != 0 ? edge[1].has_far : edge[1].has_near);
      head[b] = {kFreeSlot, 0};
      first[b] = 0;
      if (!is_asked) continue;
      const BlockEntry& entry = input_.table.entries[input_.table.home(id_of(layer, edge, b))];
      head[b] = entry.head;
      first[b] = entry.first;
    }
    std::uint32_t elsewhere = 0;
    SPARSECONV_UNROLL
    for (int b = 0; b < 4; ++b) {
      const bool is_it = head[b].id == id_of(layer, edge, b);
      if (!is_it && head[b].id != kFreeSlot) elsewhere |= 1u << b;
      keep(word + 2 * b, is_it ? head[b].mask : 0, first[b]);
    }
    return elsewhere;
  }

  CoordinateView input_;
  int cell_[3][3], half_of_[3][3];  // what 0, 1, 2 along an axis add to the cell and the half
  StepContext context_;
};

// Looks keys up one by one; neighbouring taps often lie in one block.
class SearchFinder {
 public:
  SPARSECONV_DEVICE SearchFinder(const MapSource& source, std::int32_t rank)
      : input_(source.input),
        geometry_(source.geometry),
        is_transposed_(source.kind == MapSource::Kind::transposed) {
    const Key key = source.output.keys[rank];
    at_ = unpack(key);
    batch_ = key >> (3 * kAxisBits) << (3 * kAxisBits);
  }
  SPARSECONV_DEVICE std::int32_t operator()(int tap) {
    const ConvGeometry& g = geometry_;
    const int r[3] = {tap / (g.kernel[1] * g.kernel[2]), tap / g.kernel[2] % g.kernel[1],
                      tap % g.kernel[2]};
    Key key = batch_;
    for (int a = 0; a < 3; ++a) {
      const std::int64_t reach = static_cast<std::int64_t>(r[a]) * g.dilation[a];
      std::int64_t value = static_cast<std::int64_t>(at_[a]) * g.stride[a] - g.padding[a] + reach;
      if (is_transposed_) {
        const std::int64_t scaled = static_cast<std::int64_t>(at_[a]) + g.padding[a] - reach;
        if (scaled % g.stride[a] != 0) return -1;
        value = scaled / g.stride[a];
      }
      if (value < kAxisMin || value > kAxisMax) return -1;
      key |= spread_bits(static_cast<std::uint32_t>(value + kAxisBias)) << a;
    }
    const Key id = key >> kBlockBits;
    if (id != known_) {
      known_ = id;
      block_ = input_.table.find(id);
    }
    return rank_in(block_, static_cast<int>(key & 63));
  }

 private:
  CoordinateView input_;
  ConvGeometry geometry_;
  bool is_transposed_;
  Coord at_;
  Key batch_, known_ = kFreeSlot;
  BlockCells block_{0, 0, 0};
};

class HalvingFinder {
 public:
  SPARSECONV_DEVICE HalvingFinder(const MapSource& source, std::int32_t rank)
      : input_(source.input), first_(source.link[rank]) {
    if (first_ >= input_.size()) return;  // of a set that its memory could not take
    const Key parent = input_.keys[first_] >> 3;
    for (std::int32_t j = first_; j < input_.size() && input_.keys[j] >> 3 == parent; ++j) {
      present_ |= 1u << (input_.keys[j] & 7);
    }
  }
  SPARSECONV_DEVICE std::int32_t operator()(int tap) const {
    const int cell = child_tap(static_cast<Key>(tap));  // its own inverse
    if ((present_ >> cell & 1) == 0) return -1;
    return first_ + bit_count(present_ & ((1u << cell) - 1));
  }

 private:
  CoordinateView input_;
  std::int32_t first_;
  std::uint32_t present_ = 0;
};

class HalvingInverseFinder {
 public:
  SPARSECONV_DEVICE HalvingInverseFinder(const MapSource& source, std::int32_t rank)
      : parent_(source.link[rank]), tap_(child_tap(source.output.keys[rank] & 7)) {}
  SPARSECONV_DEVICE std::int32_t operator()(int tap) const { return tap == tap_ ? parent_ : -1; }

 private:
  std::int32_t parent_;
  int tap_;
};

class TableFinder {
 public:
  SPARSECONV_DEVICE TableFinder(const MapSource& source, std::int32_t row)
      : column_(source.table + row), pitch_(source.pitch) {}
  SPARSECONV_DEVICE std::int32_t operator()(int tap) const { return column_[tap * pitch_]; }

 private:
  const std::int32_t* column_;
  std::int64_t pitch_;
};

// use(finder of the i-th row), where the source is no window.
template <class Use>
SPARSECONV_DEVICE void with_other_finder(const MapSource& source, std::int32_t i, const Use& use) {
  switch (source.kind) {
    case MapSource::Kind::window:
      break;
    case MapSource::Kind::search:
    case MapSource::Kind::transposed: {
      SearchFinder finder(source, i);
      use(finder);
      break;
    }
    case MapSource::Kind::halving: {
      HalvingFinder finder(source, i);
      use(finder);
      break;
    }
    case MapSource::Kind::halving_inverse: {
      HalvingInverseFinder finder(source, i);
      use(finder);
      break;
    }
    case MapSource::Kind::table: {
      TableFinder finder(source, i);
      use(finder);
      break;
    }
  }
}

// use(finder of the i-th row).
template <class Use>
SPARSECONV_DEVICE void with_finder(const MapSource& source, std::int32_t i,
                                   const StepContext& context, const Use& use) {
  if (source.kind == MapSource::Kind::window) {
    WindowFinder finder(source, i, context);
    use(finder);
  } else {
    with_other_finder(source, i, use);
  }
}

}  // namespace sparseconv::cuda

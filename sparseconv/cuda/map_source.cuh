// Where the neighbours of a kernel map come from. No map is stored in between: whoever needs the
// input row of (output row, tap) asks a finder made for that row, in the order that suits him.
#pragma once
#include "sparseconv/conv_geometry.hpp"
#include "sparseconv/cuda/block_table.cuh"

namespace sparseconv::cuda {

struct MapSource {
  enum class Kind : std::int32_t {
    adjacent,         // submanifold 3x3x3 without dilation
    search,           // convolution: input (fine) rows looked up
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

  // Output row of the i-th row that steps visit: by rank, in a table by row.
  SPARSECONV_DEVICE std::int32_t output_row(std::int32_t i) const {
    return kind == Kind::table ? i : output.row(i);
  }
};

// Tap of the cell that `key` is within its parent: keys order z, y, x; taps x, y, z.
SPARSECONV_DEVICE constexpr int child_tap(Key key) {
  return static_cast<int>((key & 1) << 2 | (key & 2) | (key >> 2 & 1));
}

// The 27 neighbours of a cell lie in at most eight blocks, fetched once.
class AdjacentFinder {
 public:
  SPARSECONV_DEVICE AdjacentFinder(const MapSource& source, std::int32_t rank)
      : input_(source.input) {
    const Key key = source.output.keys[rank], id = key >> kBlockBits;
    for (int a = 0; a < 3; ++a) {
      place_[a] = static_cast<int>((key >> a & 1) | (key >> (a + 3) & 1) << 1);
      side_[a] = place_[a] == 0 ? -1 : place_[a] == 3 ? 1 : 0;
    }
    for (int b = 0; b < 8; ++b) {
      block_[b] = {0, 0, 0};
      Key there = id;
      bool is_needed = true;
      for (int a = 0; a < 3; ++a) {
        if ((b >> a & 1) != 0) is_needed = is_needed && side_[a] != 0 && step(there, a, side_[a]);
      }
      if (is_needed) block_[b] = input_.table.find(there);
    }
  }
  SPARSECONV_DEVICE std::int32_t operator()(int tap) const {
    const int d[3] = {tap / 9 - 1, tap / 3 % 3 - 1, tap % 3 - 1};
    int block = 0, cell = 0;
    for (int a = 0; a < 3; ++a) {
      if (d[a] != 0 && d[a] == side_[a]) block |= 1 << a;
      const int at = (place_[a] + d[a]) & 3;
      cell |= ((at & 1) | (at & 2) << 2) << a;
    }
    return input_.row_in(block_[block], cell);
  }

 private:
  // One block along an axis; false at the end of the key range.
  SPARSECONV_DEVICE static bool step(Key& id, int axis, int direction) {
    const Key mask = axis_mask(axis) & (~Key{0} >> (kBlockBits + 10)), one = Key{1} << axis;
    const Key field = id & mask;
    if (direction > 0) {
      if (field == mask) return false;
      id = (((field | ~mask) + one) & mask) | (id & ~mask);
    } else {
      if (field == 0) return false;
      id = ((field - one) & mask) | (id & ~mask);
    }
    return true;
  }

  CoordinateView input_;
  int place_[3], side_[3];
  BlockPayload block_[8];
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
    return input_.row_in(block_, static_cast<int>(key & 63));
  }

 private:
  CoordinateView input_;
  ConvGeometry geometry_;
  bool is_transposed_;
  Coord at_;
  Key batch_, known_ = kFreeSlot;
  BlockPayload block_{0, 0, 0};
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
    return input_.row(first_ + bit_count(present_ & ((1u << cell) - 1)));
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

// use(finder of the i-th row).
template <class Use>
SPARSECONV_DEVICE void with_finder(const MapSource& source, std::int32_t i, const Use& use) {
  switch (source.kind) {
    case MapSource::Kind::adjacent: {
      AdjacentFinder finder(source, i);
      use(finder);
      break;
    }
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

}  // namespace sparseconv::cuda

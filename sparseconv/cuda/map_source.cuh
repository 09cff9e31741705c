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

// Planes of 27 taps along z: 0 below (tap % 3 == 0), 1 above (2), 2 centre (1); all taps:
// kAllPlanes.
inline constexpr int kAllPlanes = 3;
SPARSECONV_DEVICE constexpr std::uint32_t plane_taps(int plane) {
  return plane == 0 ? 0x1249249u : plane == 1 ? 0x4924924u : plane == 2 ? 0x2492492u : ~0u;
}

// The 27 neighbours of a cell lie in at most eight blocks. All are asked for before the first
// answer is looked at.
class AdjacentFinder {
 public:
  SPARSECONV_DEVICE AdjacentFinder(const MapSource& source, std::int32_t rank, int plane)
      : input_(source.input) {
    const Key key = source.output.keys[rank], id = key >> kBlockBits;
    Key beyond[3];  // the block across the face that the cell touches, where there is one
    bool has_beyond[3];
    SPARSECONV_UNROLL
    for (int a = 0; a < 3; ++a) {
      place_[a] = static_cast<int>((key >> a & 1) | (key >> (a + 3) & 1) << 1);
      side_[a] = place_[a] == 0 ? -1 : place_[a] == 3 ? 1 : 0;
      has_beyond[a] = step(id, a, side_[a], beyond[a]) && side_[a] != 0;
    }
    // A plane of taps lies in the blocks of one layer along z.
    const int dz = plane == 0 ? -1 : plane == 1 ? 1 : 0;
    const bool asks_own = plane == kAllPlanes || dz == 0 || dz != side_[2];
    const bool asks_beyond = has_beyond[2] && (plane == kAllPlanes || dz == side_[2]);
    BlockHead head[8];
    std::int32_t first[8];
    Key ids[8];
    bool is_asked[8];
    SPARSECONV_UNROLL
    for (int b = 0; b < 8; ++b) {
      is_asked[b] = ((b & 1) == 0 || has_beyond[0]) && ((b & 2) == 0 || has_beyond[1]) &&
                    ((b & 4) == 0 ? asks_own : asks_beyond);
      ids[b] = id;
      SPARSECONV_UNROLL
      for (int a = 0; a < 3; ++a) {
        if ((b >> a & 1) != 0) ids[b] = (ids[b] & ~id_mask(a)) | (beyond[a] & id_mask(a));
      }
      if (is_asked[b]) {
        const BlockEntry& entry = input_.table.entries[input_.table.home(ids[b])];
        head[b] = entry.head;
        first[b] = entry.first;
      }
    }
    SPARSECONV_UNROLL
    for (int b = 0; b < 8; ++b) {
      block_[b] = {0, 0, 0};
      if (is_asked[b])
        block_[b] = input_.table.resolve(ids[b], input_.table.home(ids[b]), head[b], first[b]);
    }
  }
  SPARSECONV_DEVICE bool has(int tap) const {
    return (block_[block_of(tap)].mask >> cell_of(tap) & 1) != 0;
  }
  SPARSECONV_DEVICE std::int32_t operator()(int tap) const {
    return input_.row_in(block_[block_of(tap)], cell_of(tap));
  }

 private:
  SPARSECONV_DEVICE static constexpr Key id_mask(int axis) {
    return axis_mask(axis) & (~Key{0} >> (kBlockBits + kBatchBits));
  }
  // One block along an axis; false at the end of the key range, where there is nothing.
  SPARSECONV_DEVICE static bool step(Key id, int axis, int direction, Key& there) {
    const Key mask = id_mask(axis), one = Key{1} << axis, field = id & mask;
    there = (direction > 0 ? (field | ~mask) + one : field - one) & mask;
    return field != (direction > 0 ? mask : Key{0});
  }
  SPARSECONV_DEVICE int block_of(int tap) const {
    const int d[3] = {tap / 9 - 1, tap / 3 % 3 - 1, tap % 3 - 1};
    int block = 0;
    SPARSECONV_UNROLL
    for (int a = 0; a < 3; ++a) block |= d[a] != 0 && d[a] == side_[a] ? 1 << a : 0;
    return block;
  }
  SPARSECONV_DEVICE int cell_of(int tap) const {
    const int d[3] = {tap / 9 - 1, tap / 3 % 3 - 1, tap % 3 - 1};
    int cell = 0;
    SPARSECONV_UNROLL
    for (int a = 0; a < 3; ++a) {
      const int at = (place_[a] + d[a]) & 3;
      cell |= ((at & 1) | (at & 2) << 2) << a;
    }
    return cell;
  }

  CoordinateView input_;
  int place_[3], side_[3];
  BlockCells block_[8];
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
  SPARSECONV_DEVICE bool has(int tap) { return (*this)(tap) >= 0; }
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
  SPARSECONV_DEVICE bool has(int tap) const {
    return (present_ >> child_tap(static_cast<Key>(tap)) & 1) != 0;
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
  SPARSECONV_DEVICE bool has(int tap) const { return tap == tap_ && parent_ >= 0; }
  SPARSECONV_DEVICE std::int32_t operator()(int tap) const { return tap == tap_ ? parent_ : -1; }

 private:
  std::int32_t parent_;
  int tap_;
};

class TableFinder {
 public:
  SPARSECONV_DEVICE TableFinder(const MapSource& source, std::int32_t row)
      : column_(source.table + row), pitch_(source.pitch) {}
  SPARSECONV_DEVICE bool has(int tap) const { return column_[tap * pitch_] >= 0; }
  SPARSECONV_DEVICE std::int32_t operator()(int tap) const { return column_[tap * pitch_]; }

 private:
  const std::int32_t* column_;
  std::int64_t pitch_;
};

// use(finder of the i-th row); only taps of the plane will be asked for.
template <class Use>
SPARSECONV_DEVICE void with_finder(const MapSource& source, std::int32_t i, int plane,
                                   const Use& use) {
  switch (source.kind) {
    case MapSource::Kind::adjacent: {
      AdjacentFinder finder(source, i, plane);
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

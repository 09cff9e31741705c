// Kernel 2, stride 2, no padding: the step between the levels of most networks. A coarse key is a
// shift of the fine one and keeps its order, so that coarse coordinates are an adjacent-unique and
// the children of a cell are neighbours in rank.
#pragma once
#include <algorithm>
#include <array>
#include <optional>

#include "sparseconv/conv_geometry.hpp"
#include "sparseconv/coord.hpp"

namespace sparseconv::detail {

constexpr bool is_halving(const ConvGeometry& g) {
  for (std::size_t a = 0; a < 3; ++a) {
    if (g.kernel[a] != 2 || g.stride[a] != 2 || g.padding[a] != 0 || g.dilation[a] != 1)
      return false;
  }
  return true;
}

// floor(value / 2) on every axis: a shift, then the bias 2^16 that the shift took away.
constexpr Key halved(Key key) {
  constexpr int kTop = 3 * (kAxisBits - 2), kMorton = 3 * kAxisBits;
  const Key batch = key >> kMorton << kMorton;
  const Key shifted = (key ^ batch) >> 3;
  const Key top = shifted >> kTop;
  return batch | (shifted & ((Key{1} << kTop) - 1)) | (~top & 7) << kTop | top << (kTop + 3);
}
static_assert(unpack(halved(pack({3, -1, 5, -8}))) == Coord{3, -1, 2, -4});
static_assert(unpack(halved(pack({0, kAxisMin, kAxisMax, 0}))) ==
              Coord{0, kAxisMin / 2, kAxisMax / 2, 0});

// Highest axis keys of a bounded set; no bound: all ones. An axis of no cells admits none.
struct KeyLimits {
  Key x = kNoKey, y = kNoKey, z = kNoKey;
  bool is_empty = false;
  constexpr bool admits(Key key) const {
    return !is_empty && (key & axis_mask(0)) <= x && (key & axis_mask(1)) <= y &&
           (key & axis_mask(2)) <= z;
  }
};
constexpr KeyLimits key_limits(const std::optional<std::array<std::int64_t, 3>>& shape) {
  if (!shape) return {};
  Key limit[3]{};
  bool is_empty = false;
  for (int a = 0; a < 3; ++a) {
    const std::int64_t size = (*shape)[static_cast<std::size_t>(a)];
    is_empty = is_empty || size <= 0;
    const std::int64_t last = std::clamp<std::int64_t>(size - 1, 0, kAxisMax);
    limit[a] = spread_bits(static_cast<std::uint32_t>(last + kAxisBias)) << a;
  }
  return {limit[0], limit[1], limit[2], is_empty};
}

}  // namespace sparseconv::detail

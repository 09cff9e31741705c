// Keys of points by vector instructions, chosen when the program runs.
#pragma once
#include <array>
#include <cstdint>

#include "sparseconv/coord.hpp"

namespace sparseconv::detail {

// Of one axis: cell = floor((p - origin) / size), for p in [from, to) and cells in [low, high),
// which lie within the range of a key.
struct AxisBounds {
  double origin, size, from, to, low, high;
};

struct PointKeys {
  std::array<AxisBounds, 3> bounds;
  Key batch;  // its bits of a key
  std::int64_t count;
  Key* keys;  // [count]
};

// Writes keys of the points [count] of columns x, y, z: kNoKey for those outside the bounds or not
// finite; false where there are any. Cells are rounded as the same expression in double is, by
// every instruction set.
bool pack_points(const PointKeys& to, const std::array<const float*, 3>& from);
bool pack_points(const PointKeys& to, const std::array<const double*, 3>& from);

}  // namespace sparseconv::detail

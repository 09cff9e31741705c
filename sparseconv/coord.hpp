// Coordinates and their packed keys. A key is 64 bits: batch (10 bits) above the Morton
// interleaving of x, y, z (18 bits each, biased by 2^17 so that negative coordinates sort before
// positive ones). Sorting by key is the canonical row order: batch first, then Morton order.
#pragma once
#include <array>
#include <cstdint>

#include "gemm_core/base/error.hpp"

namespace sparseconv {

struct Coord {
  std::int32_t batch = 0, x = 0, y = 0, z = 0;
  friend bool operator==(const Coord&, const Coord&) = default;
  friend auto operator<=>(const Coord&, const Coord&) = default;
  constexpr std::int32_t operator[](int axis) const { return axis == 0 ? x : axis == 1 ? y : z; }
};
static_assert(sizeof(Coord) == 16);

using Key = std::uint64_t;
inline constexpr int kAxisBits = 18, kBatchBits = 10;
inline constexpr std::int32_t kAxisBias = 1 << (kAxisBits - 1);
inline constexpr std::int32_t kAxisMin = -kAxisBias, kAxisMax = kAxisBias - 1;
inline constexpr std::int32_t kBatchMax = (1 << kBatchBits) - 1;
inline constexpr Key kNoKey = ~Key{0};  // batch 1023 at the last corner: refused by is_in_key_range

// The bits of one axis (0 x, 1 y, 2 z) in a key.
constexpr Key axis_mask(int axis) { return 0x0009249249249249ull << axis; }

// Bits 0..17 of v moved to every third bit.
constexpr std::uint64_t spread_bits(std::uint32_t v) {
  std::uint64_t x = v & 0x3ffffu;
  x = (x | x << 32) & 0x001f00000000ffffull;
  x = (x | x << 16) & 0x001f0000ff0000ffull;
  x = (x | x << 8) & 0x100f00f00f00f00full;
  x = (x | x << 4) & 0x10c30c30c30c30c3ull;
  x = (x | x << 2) & 0x1249249249249249ull;
  return x;
}
constexpr std::uint32_t gather_bits(std::uint64_t x) {
  x &= 0x1249249249249249ull;
  x = (x | x >> 2) & 0x10c30c30c30c30c3ull;
  x = (x | x >> 4) & 0x100f00f00f00f00full;
  x = (x | x >> 8) & 0x001f0000ff0000ffull;
  x = (x | x >> 16) & 0x001f00000000ffffull;
  x = (x | x >> 32) & 0x3ffffull;
  return static_cast<std::uint32_t>(x);
}
// clang-format off
constexpr bool is_in_key_range(const Coord& c) {
  return c.batch >= 0 && c.batch <= kBatchMax && c.x >= kAxisMin && c.x <= kAxisMax && c.y >= kAxisMin &&
         c.y <= kAxisMax && c.z >= kAxisMin && c.z <= kAxisMax &&
         !(c.batch == kBatchMax && c.x == kAxisMax && c.y == kAxisMax && c.z == kAxisMax);
}
// clang-format on
// Precondition: is_in_key_range(c). x takes the lowest bit of each triple, z the highest.
constexpr Key pack(const Coord& c) {
  return static_cast<Key>(c.batch) << (3 * kAxisBits) |
         spread_bits(static_cast<std::uint32_t>(c.x + kAxisBias)) |
         spread_bits(static_cast<std::uint32_t>(c.y + kAxisBias)) << 1 |
         spread_bits(static_cast<std::uint32_t>(c.z + kAxisBias)) << 2;
}
constexpr Coord unpack(Key key) {
  return {static_cast<std::int32_t>(key >> (3 * kAxisBits)),
          static_cast<std::int32_t>(gather_bits(key)) - kAxisBias,
          static_cast<std::int32_t>(gather_bits(key >> 1)) - kAxisBias,
          static_cast<std::int32_t>(gather_bits(key >> 2)) - kAxisBias};
}

}  // namespace sparseconv

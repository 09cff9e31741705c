// Keys of the taps of one output, an axis at a time: key = batch | x[rx] | y[ry] | z[rz]. A
// dilated-integer addition steps from tap to tap without packing again.
#pragma once
#include <array>

#include "sparseconv/conv_geometry.hpp"
#include "sparseconv/coord.hpp"

namespace sparseconv::detail {

constexpr Key batch_bits(Key key) { return key >> (3 * kAxisBits) << (3 * kAxisBits); }

inline constexpr int kHalfBits = kAxisBits / 2;
inline constexpr auto kSpreadHalf = [] {  // spread_bits of half an axis
  std::array<std::uint32_t, 1 << kHalfBits> table{};
  for (std::uint32_t v = 0; v < table.size(); ++v) {
    table[v] = static_cast<std::uint32_t>(spread_bits(v));
  }
  return table;
}();

// The bits of one axis in a key, for a value in range.
constexpr Key axis_key(std::int64_t value, int axis) {
  const auto biased = static_cast<std::uint32_t>(value + kAxisBias) & ((1u << kAxisBits) - 1);
  return (kSpreadHalf[biased & (kSpreadHalf.size() - 1)] |
          static_cast<Key>(kSpreadHalf[biased >> kHalfBits]) << (3 * kHalfBits))
         << axis;
}

constexpr bool is_in_axis_range(std::int64_t value) {
  return value >= kAxisMin && value <= kAxisMax;
}

class TapKeys {
 public:
  explicit TapKeys(const ConvGeometry& geometry) : geometry_(geometry) {
    for (int a = 0; a < 3; ++a) {
      const auto step = static_cast<std::uint32_t>(geometry.dilation[static_cast<std::size_t>(a)]);
      step_[static_cast<std::size_t>(a)] = spread_bits(step) << a;
    }
  }
  // Fine coordinates of `coarse` under all taps. kNoKey, which no set contains, stands for "outside
  // the key range".
  void set_coarse(const Coord& coarse) {
    for (int a = 0; a < 3; ++a) set_axis(coarse[a], a);
  }
  Key x(int r) const { return keys_[0][static_cast<std::size_t>(r)]; }
  Key y(int r) const { return keys_[1][static_cast<std::size_t>(r)]; }
  Key z(int r) const { return keys_[2][static_cast<std::size_t>(r)]; }

 private:
  void set_axis(std::int64_t coarse, int axis) {
    const auto a = static_cast<std::size_t>(axis);
    const int taps = geometry_.kernel[a];
    const std::int64_t dilation = geometry_.dilation[a];
    const std::int64_t first = coarse * geometry_.stride[a] - geometry_.padding[a];
    auto& keys = keys_[a];
    if (is_in_axis_range(first) && is_in_axis_range(first + (taps - 1) * dilation)) {
      const Key mask = axis_mask(axis);
      Key key = axis_key(first, axis);
      for (int r = 0; r < taps; ++r) {
        keys[static_cast<std::size_t>(r)] = key;
        key = ((key | ~mask) + step_[a]) & mask;
      }
      return;
    }
    for (int r = 0; r < taps; ++r) {
      const std::int64_t fine = first + r * dilation;
      keys[static_cast<std::size_t>(r)] = is_in_axis_range(fine) ? axis_key(fine, axis) : kNoKey;
    }
  }

  ConvGeometry geometry_;
  std::array<Key, 3> step_{};
  std::array<std::array<Key, ConvGeometry::kMaxKernel>, 3> keys_;
};

}  // namespace sparseconv::detail

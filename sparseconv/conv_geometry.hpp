// The one relation behind every kernel map, oracle and gradient, per axis; tap r in [0, kernel):
//   fine = coarse * stride - padding + r * dilation
// "fine" is the input of a convolution or pooling, the output of a transposed one. No flip. Tap
// index = (rx * kernel[1] + ry) * kernel[2] + rz, as weights [Cout, kx, ky, kz, Cin] are stored.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "sparseconv/coord.hpp"

namespace sparseconv {

struct ConvGeometry {
  static constexpr int kMaxKernel = 255, kMaxTaps = 1 << 15, kMaxStep = 1 << 17;  // of check()
  std::array<int, 3> kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  // clang-format off
  // Odd kernel, stride 1, padding (k-1)/2*dilation: outputs stand where inputs stand.
  static ConvGeometry submanifold(std::array<int, 3> kernel, std::array<int, 3> dilation = {1, 1, 1});
  // clang-format on
  int taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  std::array<int, 3> tap(int index) const {
    return {index / (kernel[1] * kernel[2]), index / kernel[2] % kernel[1], index % kernel[2]};
  }
  // Fine coordinate per axis as 64-bit, so that no product overflows; the caller checks ranges.
  std::array<std::int64_t, 3> fine(const Coord& coarse, int tap_index) const {
    const auto r = tap(tap_index);
    std::array<std::int64_t, 3> f{};
    for (std::size_t a = 0; a < 3; ++a) {
      f[a] = static_cast<std::int64_t>(coarse[static_cast<int>(a)]) * stride[a] - padding[a] +
             static_cast<std::int64_t>(r[a]) * dilation[a];
    }
    return f;
  }
  // Extent of a convolution's output: floor((size + 2p - d(k-1) - 1) / s) + 1, at least 0.
  std::array<std::int64_t, 3> coarse_shape(const std::array<std::int64_t, 3>& size) const;
  // Extent of a transposed convolution's output: (size-1)*s - 2p + d(k-1) + 1, at least 0.
  std::array<std::int64_t, 3> fine_shape(const std::array<std::int64_t, 3>& size) const;

  void check(const char* operation) const;  // Error naming field, value and limit
  friend bool operator==(const ConvGeometry&, const ConvGeometry&) = default;
  friend auto operator<=>(const ConvGeometry&, const ConvGeometry&) = default;
};
std::string to_string(const ConvGeometry& geometry);

}  // namespace sparseconv

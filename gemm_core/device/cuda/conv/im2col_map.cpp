#include "gemm_core/device/cuda/conv/im2col_map.hpp"

#include "gemm_core/device/cuda/tensor_map_encoder.hpp"

namespace gemm_core::cuda {
namespace {

bool fits(const Im2colMapDesc& d) {
  constexpr std::int64_t kMostStep = 8;
  // Corners are 16, 8 and 5 bits signed for 1, 2 and 3 axes, offsets as many without a sign.
  const std::int64_t corner = std::int64_t{1} << (d.axes == 1 ? 15 : d.axes == 2 ? 7 : 4);
  if (!is_map_address(d.data) || !is_map_extent(d.batch) || !is_map_extent(d.channels) ||
      !is_map_stride(d.batch_stride)) {
    return false;
  }
  for (std::size_t i = 3 - static_cast<std::size_t>(d.axes); i < 3; ++i) {
    const std::int64_t upper = d.corner[i] + (d.positions[i] - 1) * d.step[i] + 1 - d.extent[i];
    if (!is_map_stride(d.axis_stride[i]) || !is_map_extent(d.extent[i]) || d.step[i] < 1 ||
        d.step[i] > kMostStep || d.corner[i] < -corner || d.corner[i] >= corner ||
        upper < -corner || upper >= corner || d.most_offset[i] >= 2 * corner ||
        d.positions[i] < 1) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<CUtensorMap> make_im2col_map(const Im2colMapDesc& d) {
  if (!fits(d)) return std::nullopt;
  std::array<cuuint64_t, 5> extents{};
  std::array<cuuint64_t, 4> strides{};
  std::array<cuuint32_t, 5> steps{1, 1, 1, 1, 1};
  std::array<int, 3> lower{}, upper{};
  extents[0] = static_cast<cuuint64_t>(d.channels);
  std::size_t at = 0;  // the innermost axis first
  for (; at < static_cast<std::size_t>(d.axes); ++at) {
    const std::size_t axis = 2 - at;
    extents[at + 1] = static_cast<cuuint64_t>(d.extent[axis]);
    strides[at] = static_cast<cuuint64_t>(d.axis_stride[axis]);
    steps[at + 1] = static_cast<cuuint32_t>(d.step[axis]);
    lower[at] = static_cast<int>(d.corner[axis]);
    // Beside the last pixel that is a position, as a distance from the last of the tensor.
    upper[at] = static_cast<int>(d.corner[axis] + (d.positions[axis] - 1) * d.step[axis] + 1 -
                                 d.extent[axis]);
  }
  extents[at + 1] = static_cast<cuuint64_t>(d.batch);
  strides[at] = static_cast<cuuint64_t>(d.batch_stride);
  const std::size_t rank = static_cast<std::size_t>(d.axes) + 2;
  return encode_im2col(
      {d.data, d.element, std::span(extents).first(rank), std::span(strides).first(rank - 1)},
      lower, upper, std::span(steps).first(rank), d.box_channels, d.box_pixels);
}

}  // namespace gemm_core::cuda

// Tensor maps in im2col mode: pixels of a bounding box, in order, with some of their channels.
#pragma once
#include <cuda.h>

#include <array>
#include <cstdint>
#include <optional>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core::cuda {

// [n][x0][x1][x2][channels] of which the last `axes` of x are there. Position p of an axis is the
// pixel corner + p * step, p in [0, positions). Strides are bytes; rows of 128 bytes are swizzled.
struct Im2colMapDesc {
  const void* data = nullptr;
  base::DType element = base::DType::f16;
  int axes = 2;
  std::int64_t batch = 1, channels = 0;
  std::array<std::int64_t, 3> extent{1, 1, 1};
  std::int64_t batch_stride = 0;
  std::array<std::int64_t, 3> axis_stride{0, 0, 0};
  std::array<std::int64_t, 3> corner{0, 0, 0}, step{1, 1, 1}, positions{1, 1, 1};
  std::array<std::int64_t, 3> most_offset{0, 0, 0};  // of the taps, that copies ask for
  int box_channels = 64, box_pixels = 128;
};

// Empty where the hardware cannot copy this (addresses and strides no multiples of 16; corners,
// offsets and steps past its limits). base::Error where the driver has no encoder.
std::optional<CUtensorMap> make_im2col_map(const Im2colMapDesc& desc);

}  // namespace gemm_core::cuda

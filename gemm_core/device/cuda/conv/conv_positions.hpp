// Which positions and taps a launch of a convolution takes, axis by axis.
#pragma once
#include <array>
#include <vector>

#include "gemm_core/collective/sm90_conv_load.cuh"
#include "gemm_core/device/conv.hpp"

namespace gemm_core::cuda {

// Positions and taps of a launch along one axis, and where its results lie.
struct ConvPartAxis {
  std::int64_t positions = 0, corner = 0, step = 1;
  ConvTapAxis taps;
  std::int64_t most_offset = 0;
  std::int64_t first = 0, stride = 1;  // of the results' positions
};
using ConvPart = std::array<ConvPartAxis, 3>;

// Forward and filter gradient: one part. Gradient of the activation: one a class of positions with
// the same remainders by the strides; without positions, none.
std::vector<ConvPart> conv_parts(const ConvArguments& arguments);

}  // namespace gemm_core::cuda

// What a weight gradient is asked to do (device/gather_conv_gradient.hpp runs it).
#pragma once
#include <cstdint>

#include "gemm_core/base/tensor.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"

namespace gemm_core {

struct WeightGradientArguments {
  base::ConstTensorView input;     // [rows_in, cin], unit stride along channels; f32, f16, bf16
  base::ConstTensorView gradient;  // [rows, cout], of the convolution's output; as input
  // [taps][rows] as in the forward pass. Null: taps must be 1, row m reads row m.
  const std::int32_t* neighbours = nullptr;
  std::int64_t rows = 0, taps = 1, groups = 1;
  float* weight_gradient = nullptr;  // [cout][taps][cin/groups], overwritten
  AlignedBuffer* workspace =
      nullptr;  // kept by the caller, so that a steady state allocates nothing
};

}  // namespace gemm_core

// Gradients of the gathered convolution (device/gather_conv.hpp). That of its input is a gathered
// convolution itself, over the inverse map with weights packed `is_transposed`; this is that of its
// weights: a grouped GEMM with a group a tap, whose K runs over the pairs of the tap.
//
//   gather_conv_weight_gradient({.input = x, .gradient = dy, .neighbours = map, .rows = n,
//                                .taps = 27, .weight_gradient = dw});
#pragma once
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

// dw[n][r][k] = sum over output rows m of dy[m][n] * x[neighbours[r][m]][k], in fp32 whatever the
// operands. Runs in the caller's task arena. Rows are cut into chunks by sizes alone and chunks are
// added in order: the same bits for any thread count. No rows give zeros. Throws base::Error naming
// operand and extent.
void gather_conv_weight_gradient(const WeightGradientArguments& arguments);

}  // namespace gemm_core

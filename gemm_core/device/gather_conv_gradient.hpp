// Gradients of the gathered convolution (device/gather_conv.hpp). That of its input is a gathered
// convolution itself, over the inverse map with weights packed `is_transposed`; this is that of its
// weights: a grouped GEMM with a group a tap, whose K runs over the pairs of the tap.
//
//   gather_conv_weight_gradient({.input = x, .gradient = dy, .neighbours = map, .rows = n,
//                                .taps = 27, .weight_gradient = dw});
#pragma once
#include "gemm_core/collective/weight_gradient_arguments.hpp"

namespace gemm_core {

// dw[n][r][k] = sum over output rows m of dy[m][n] * x[neighbours[r][m]][k], in fp32 whatever the
// operands. Runs in the caller's task arena. Rows are cut into chunks by sizes alone and chunks are
// added in order: the same bits for any thread count. No rows give zeros. Throws base::Error naming
// operand and extent.
void gather_conv_weight_gradient(const WeightGradientArguments& arguments);

}  // namespace gemm_core

// What a dense convolution refuses of the memory that it is given.
#pragma once
#include "gemm_core/device/conv.hpp"

namespace gemm_core {

// Pointers, alignment, strides and overlap of A, B, C, D and what epilogue nodes read; the problem
// itself has been checked.
GemmStatus check_conv_tensors(const ConvArguments& arguments);

}  // namespace gemm_core

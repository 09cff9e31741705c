// Host side of kernel/depthwise_rows.cuh.
#pragma once
#include <cuda_runtime_api.h>

#include "gemm_core/device/conv.hpp"

namespace gemm_core::cuda {

// Whether those kernels take a depthwise convolution that depthwise_strips could: 3 x 3, 5 x 5
// (steps of 1 and 2) or 7 x 7 taps (steps of 1) in a plane, without dilation; gradients of the
// activation with steps of 1.
bool takes_depthwise_rows(const ConvArguments& arguments);
// Forward, and the gradient of the activation.
void run_depthwise_rows(const ConvArguments& arguments, cudaStream_t stream);
// The gradient of the filter: blocks of positions, and their sums [block][tap][channel].
int depthwise_filter_blocks(const ConvArguments& arguments, int multiprocessors);
void run_depthwise_filter_rows(const ConvArguments& arguments, int blocks, float* sums,
                               cudaStream_t stream);

}  // namespace gemm_core::cuda

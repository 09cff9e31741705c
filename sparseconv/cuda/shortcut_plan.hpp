// The shortcut of a residual block as one more tap of its second convolution:
//
//   y = act(s * (W x) + b + (t * (V z) + c))  =  act(n * (W' x + V' z) + (b + c))
//
// with W' = W s / n, V' = V t / n and n a power of two a channel that keeps both near 1. One launch
// instead of two, and the sum neither leaves the registers nor is rounded in between.
#pragma once
#include "sparseconv/cuda/device_steps.hpp"

namespace sparseconv::cuda {

// Rewrites pointwise steps that add what a submanifold convolution wrote for them alone: they
// become that convolution with StepExtras::own_weight, and it is_absorbed. For types and devices on
// which every such step runs on the matrix cores.
void merge_shortcuts(DeviceSteps& plan);

}  // namespace sparseconv::cuda

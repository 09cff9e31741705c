// The epilogue description as kernels read it.
#pragma once
#include <span>

#include "gemm_core/epilogue/cuda/device_epilogue.cuh"

namespace gemm_core::cuda {

// Error where there are more nodes than a kernel takes, or an operand does not fit the output.
// `factors`: of the operands of additions, in order; empty: 1 all.
DeviceEpilogue lower_epilogue(const Epilogue& epilogue, const base::TensorView& output,
                              std::span<const float> factors = {});

}  // namespace gemm_core::cuda

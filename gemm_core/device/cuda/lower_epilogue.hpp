// The epilogue description as kernels read it.
#pragma once
#include "gemm_core/epilogue/cuda/device_epilogue.cuh"

namespace gemm_core::cuda {

// Error where there are more nodes than a kernel takes, or an operand does not fit the output.
DeviceEpilogue lower_epilogue(const Epilogue& epilogue, const base::TensorView& output);

}  // namespace gemm_core::cuda

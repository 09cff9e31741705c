// How large values are: what 8-bit inference takes its scales from.
#pragma once
#include "sparseconv/cuda/step_kernels.hpp"

namespace sparseconv::cuda {

// *largest = max(*largest, magnitudes of the finite values) of [rows, channels] f32, f16 or bf16.
void find_largest(const base::ConstTensorView& input, const RowCount& rows, float* largest,
                  cudaStream_t stream);

}  // namespace sparseconv::cuda

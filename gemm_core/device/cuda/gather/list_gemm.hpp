// Gemm's products whose operands have gather lists, on any GPU: by strides and lists alone, slowly.
// Rows of A on Hopper: gather_gemm.hpp. Lists are in device memory and read in every run; an index
// that is not below its limit counts as a hole, which reads zero and stores nothing.
#pragma once
#include <cuda_runtime_api.h>

#include "gemm_core/device/gemm.hpp"

namespace gemm_core::cuda {

bool has_lists(const GemmArguments& arguments);
GemmStatus check_list_gemm(const GemmArguments& arguments);
// Pointer arrays, if any, are in device memory.
void launch_list_gemm(const GemmArguments& arguments, cudaStream_t stream);

}  // namespace gemm_core::cuda

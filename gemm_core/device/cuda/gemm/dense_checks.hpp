// What a product on CUDA refuses, and how it says so.
#pragma once
#include "gemm_core/device/gemm.hpp"

namespace gemm_core::cuda {

// Launches nothing. The current device is the one that would run it.
GemmStatus check_dense(const GemmArguments& arguments);

// Their parts, for other operations on dense operands; messages begin with "gemm on CUDA".
GemmStatus check_device();
GemmStatus check_pointer(const char* operand, const void* pointer, int device);
GemmStatus check_nodes(const GemmArguments& arguments, int device);  // shapes, types, memory

}  // namespace gemm_core::cuda

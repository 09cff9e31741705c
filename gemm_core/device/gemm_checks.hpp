// What a product on the CPU refuses, and how it says so.
#pragma once
#include "gemm_core/device/gemm.hpp"

namespace gemm_core {

GemmStatus check_gemm(const GemmArguments& arguments);
// Types, alpha, beta, schedule and tiling alone.
GemmStatus check_gemm_types(const GemmArguments& arguments);
// Index lists, scales and zero points by themselves: types, alignment, groups, indices and limits.
GemmStatus check_gemm_side_operands(const GemmArguments& arguments);
GemmStatus check_gemm_schedule(const GemmArguments& arguments);
// Alignment of what epilogue nodes read.
GemmStatus check_gemm_nodes(const GemmArguments& arguments);

}  // namespace gemm_core

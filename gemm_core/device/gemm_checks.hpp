// What a product on the CPU refuses, and how it says so.
#pragma once
#include "gemm_core/device/gemm.hpp"

namespace gemm_core {

GemmStatus check_gemm(const GemmArguments& arguments);
// Types, alpha, beta, schedule and tiling alone.
GemmStatus check_gemm_types(const GemmArguments& arguments);

}  // namespace gemm_core

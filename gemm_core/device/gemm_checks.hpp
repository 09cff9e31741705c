// What a product on the CPU refuses, and how it says so.
#pragma once
#include "gemm_core/device/gemm.hpp"

namespace gemm_core {

GemmStatus check_gemm(const GemmArguments& arguments);

}  // namespace gemm_core

// Kernels of dense products that were measured to be the fastest for a problem on a device.
// A Gemm without a plan asks default_kernel() first, then the cost model; no choice changes a
// result beyond rounding.
#pragma once
#include <string>

#include "gemm_core/device/cuda/gemm/gemm.hpp"

namespace gemm_core::cuda {

// Of the current device, as a key of a TuningTable (device/gemm_config.hpp): "NVIDIA H200 float16 x
// ...".
std::string tuning_key(const GemmArguments& arguments);
// What was shipped for this key; "" where nothing was.
std::string default_kernel(const std::string& key);

// A configuration of a product by name: a kernel, and "+stream_k" where sums are cut.
std::string config_name(const std::string& kernel, const GemmArguments& arguments);
// Makes `arguments` cut sums as the name says, and returns the plan for its kernel.
GemmPlan apply_config(const std::string& config, GemmArguments& arguments);

// Milliseconds that a kernel would take by the cost model, about; 0 for kernels that it does not
// know.
double estimate_ms(const GemmArguments& arguments, const std::string& kernel);

}  // namespace gemm_core::cuda

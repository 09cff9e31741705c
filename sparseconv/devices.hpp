// Names of devices as users write them.
#pragma once
#include <string_view>
#include <vector>

#include "gemm_core/base/tensor.hpp"

namespace sparseconv {

// "cpu", "cuda", "cuda:1", or several GPUs: "cuda:0,2". Error: anything else, a device named twice.
std::vector<base::Device> parse_devices(std::string_view text);

}  // namespace sparseconv

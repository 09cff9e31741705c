// Names of devices as users write them.
#pragma once
#include <string_view>
#include <vector>

#include "gemm_core/base/tensor.hpp"

namespace sparseconv {

// "cpu", "cuda", "cuda:1", or several GPUs: "cuda:0,2". Error: anything else, a device named twice.
std::vector<base::Device> parse_devices(std::string_view text);

// Makes a GPU ready for this process, which takes some tenths of a second: to be done beside other
// work that comes before the first engine. Nothing for the CPU. Error: no such device.
void wake_device(base::Device device);

}  // namespace sparseconv

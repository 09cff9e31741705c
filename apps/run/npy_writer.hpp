// A tensor as a plain NPY file (version 1.0, C order). Through a temporary name: whole or not at
// all.
#pragma once
#include <filesystem>

#include "gemm_core/base/tensor.hpp"

namespace apps {

void write_npy(const std::filesystem::path& path, const base::Tensor& tensor);  // f32 or i32, CPU

}  // namespace apps

#pragma once
#include <cstdint>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core {

// An operand of a depthwise convolution: steps in elements, channels contiguous.
struct DepthwiseTensor {
  const void* data = nullptr;
  base::DType type = base::DType::f32;
  std::int64_t batch_step = 0, step[3] = {0, 0, 0};
};

}  // namespace gemm_core

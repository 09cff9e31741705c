// Descriptors of bulk tensor copies of matrices.
#pragma once
#include <cuda.h>

#include <array>
#include <cstdint>
#include <optional>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core::cuda {

// [batch][rows][inner] with the inner extent contiguous, copied in boxes of box_rows x box_inner
// whose rows of `line_bytes` are swizzled (16: not). Strides are bytes.
struct TensorMapDesc {
  const void* data = nullptr;
  base::DType element = base::DType::f16;
  std::int64_t inner = 0, rows = 0, batch = 1;
  std::int64_t row_stride = 0, batch_stride = 0;
  int box_inner = 0, box_rows = 0, line_bytes = 128;
};

// Empty where the hardware cannot copy this: addresses and strides that are no multiples of 16,
// extents of 2^32 and more, strides of 2^40 and more. base::Error where the driver has no encoder.
std::optional<CUtensorMap> make_tensor_map(const TensorMapDesc& desc);

}  // namespace gemm_core::cuda

// Tensor maps of five dimensions: tiles of the first two, one element of the others at a time.
#pragma once
#include <cuda.h>

#include <array>
#include <cstdint>
#include <optional>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core::cuda {

// Dimension 0 is contiguous; strides of the others are bytes, rows of 128 bytes are swizzled.
// Dimensions of extent 1 have any stride.
struct NestedMapDesc {
  const void* data = nullptr;
  base::DType element = base::DType::f16;
  std::array<std::int64_t, 5> extent{1, 1, 1, 1, 1};
  std::array<std::int64_t, 4> stride{0, 0, 0, 0};  // of dimensions 1 to 4
  int box_inner = 64, box_rows = 64;
};

// Empty where the hardware cannot copy this: addresses and strides that are no multiples of 16, or
// too large.
std::optional<CUtensorMap> make_nested_map(const NestedMapDesc& desc);

}  // namespace gemm_core::cuda

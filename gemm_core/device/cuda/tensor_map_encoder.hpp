// The driver's encoders of tensor maps, found at run time, so that nothing links to the driver
// library; and what all kinds of maps share. Callers check what the hardware can copy.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <optional>
#include <span>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core::cuda {

inline constexpr std::int64_t kMostMapStride = (std::int64_t{1} << 40) - 16;
inline constexpr std::int64_t kMostMapExtent = std::int64_t{1} << 31;  // coordinates are signed

// Strides in bytes and extents that a map can have.
inline bool is_map_stride(std::int64_t stride) {
  return stride >= 0 && stride <= kMostMapStride && stride % 16 == 0;
}
inline bool is_map_extent(std::int64_t extent) { return extent >= 1 && extent < kMostMapExtent; }
inline bool is_map_address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

// What is copied: dimensions from the contiguous one on, strides of all but that one in bytes.
struct EncodedTensor {
  const void* data = nullptr;
  base::DType element = base::DType::f16;
  std::span<const cuuint64_t> extents, strides;
  int line_bytes = 128;  // of rows in shared memory, swizzled (16: not)
};

// Empty where the driver refuses; base::Error where it has no encoder.
std::optional<CUtensorMap> encode_tiled(const EncodedTensor& tensor,
                                        std::span<const cuuint32_t> box);
// Steps of all dimensions; corners of the axes between channels and batch.
std::optional<CUtensorMap> encode_im2col(const EncodedTensor& tensor, std::span<const int> lower,
                                         std::span<const int> upper,
                                         std::span<const cuuint32_t> steps, int box_channels,
                                         int box_pixels);

}  // namespace gemm_core::cuda

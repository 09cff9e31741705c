#include "gemm_core/device/cuda/tensor_map.hpp"

#include "gemm_core/device/cuda/tensor_map_encoder.hpp"

namespace gemm_core::cuda {

std::optional<CUtensorMap> make_tensor_map(const TensorMapDesc& desc) {
  if (!is_map_address(desc.data) || !is_map_stride(desc.row_stride) ||
      !is_map_stride(desc.batch_stride) || !is_map_extent(desc.inner) ||
      !is_map_extent(desc.rows) || !is_map_extent(desc.batch)) {
    return std::nullopt;
  }
  const std::array<cuuint64_t, 3> extents{static_cast<cuuint64_t>(desc.inner),
                                          static_cast<cuuint64_t>(desc.rows),
                                          static_cast<cuuint64_t>(desc.batch)};
  const std::array<cuuint64_t, 2> strides{static_cast<cuuint64_t>(desc.row_stride),
                                          static_cast<cuuint64_t>(desc.batch_stride)};
  const std::array<cuuint32_t, 3> box{static_cast<cuuint32_t>(desc.box_inner),
                                      static_cast<cuuint32_t>(desc.box_rows), 1};
  return encode_tiled({desc.data, desc.element, extents, strides, desc.line_bytes}, box);
}

}  // namespace gemm_core::cuda

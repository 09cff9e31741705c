#include "gemm_core/device/cuda/contraction/nested_map.hpp"

#include "gemm_core/device/cuda/tensor_map_encoder.hpp"

namespace gemm_core::cuda {

std::optional<CUtensorMap> make_nested_map(const NestedMapDesc& d) {
  if (!is_map_address(d.data)) return std::nullopt;
  std::array<cuuint64_t, 5> extents{};
  std::array<cuuint64_t, 4> strides{};
  for (std::size_t i = 0; i < 5; ++i) {
    if (!is_map_extent(d.extent[i])) return std::nullopt;
    extents[i] = static_cast<cuuint64_t>(d.extent[i]);
    if (i == 0) continue;
    const std::int64_t stride = d.extent[i] > 1 ? d.stride[i - 1] : 16;
    if (stride == 0 || !is_map_stride(stride)) return std::nullopt;
    strides[i - 1] = static_cast<cuuint64_t>(stride);
  }
  const std::array<cuuint32_t, 5> box{static_cast<cuuint32_t>(d.box_inner),
                                      static_cast<cuuint32_t>(d.box_rows), 1, 1, 1};
  return encode_tiled({d.data, d.element, extents, strides}, box);
}

}  // namespace gemm_core::cuda

#include "gemm_core/device/cuda/im2col_map.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/cuda_check.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t,
                            const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

Encode encoder() {
  static const Encode encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &function, 12000,
                                                cudaEnableDefault, &found));
    ENSURE(found == cudaDriverEntryPointSuccess, "the driver has no cuTensorMapEncodeIm2col");
    return reinterpret_cast<Encode>(function);
  }();
  return encode;
}

CUtensorMapDataType type_of(DType element) {
  switch (element) {
    case DType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

bool fits(const Im2colMapDesc& d) {
  constexpr std::int64_t kMostStride = (std::int64_t{1} << 40) - 16;
  constexpr std::int64_t kMostExtent = std::int64_t{1} << 31, kMostStep = 8;
  // Corners are 16, 8 and 5 bits signed for 1, 2 and 3 axes, offsets as many without a sign.
  const std::int64_t corner = std::int64_t{1} << (d.axes == 1 ? 15 : d.axes == 2 ? 7 : 4);
  if (reinterpret_cast<std::uintptr_t>(d.data) % 16 != 0 || d.batch < 1 || d.channels < 1 ||
      std::max(d.batch, d.channels) >= kMostExtent || d.batch_stride < 0 ||
      d.batch_stride > kMostStride || d.batch_stride % 16 != 0) {
    return false;
  }
  for (std::size_t i = 3 - static_cast<std::size_t>(d.axes); i < 3; ++i) {
    const std::int64_t upper = d.corner[i] + (d.positions[i] - 1) * d.step[i] + 1 - d.extent[i];
    if (d.axis_stride[i] < 0 || d.axis_stride[i] > kMostStride || d.axis_stride[i] % 16 != 0 ||
        d.extent[i] < 1 || d.extent[i] >= kMostExtent || d.step[i] < 1 || d.step[i] > kMostStep ||
        d.corner[i] < -corner || d.corner[i] >= corner || upper < -corner || upper >= corner ||
        d.most_offset[i] >= 2 * corner || d.positions[i] < 1) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<CUtensorMap> make_im2col_map(const Im2colMapDesc& d) {
  if (!fits(d)) return std::nullopt;
  std::array<cuuint64_t, 5> extents{};
  std::array<cuuint64_t, 4> strides{};
  std::array<cuuint32_t, 5> steps{1, 1, 1, 1, 1};
  std::array<int, 3> lower{}, upper{};
  extents[0] = static_cast<cuuint64_t>(d.channels);
  std::size_t at = 0;  // the innermost axis first
  for (; at < static_cast<std::size_t>(d.axes); ++at) {
    const std::size_t axis = 2 - at;
    extents[at + 1] = static_cast<cuuint64_t>(d.extent[axis]);
    strides[at] = static_cast<cuuint64_t>(d.axis_stride[axis]);
    steps[at + 1] = static_cast<cuuint32_t>(d.step[axis]);
    lower[at] = static_cast<int>(d.corner[axis]);
    // Beside the last pixel that is a position, as a distance from the last of the tensor.
    upper[at] = static_cast<int>(d.corner[axis] + (d.positions[axis] - 1) * d.step[axis] + 1 -
                                 d.extent[axis]);
  }
  extents[at + 1] = static_cast<cuuint64_t>(d.batch);
  strides[at] = static_cast<cuuint64_t>(d.batch_stride);
  CUtensorMap map;
  const CUresult result = encoder()(
      &map, type_of(d.element), static_cast<cuuint32_t>(d.axes + 2), const_cast<void*>(d.data),
      extents.data(), strides.data(), lower.data(), upper.data(),
      static_cast<cuuint32_t>(d.box_channels), static_cast<cuuint32_t>(d.box_pixels), steps.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) return std::nullopt;
  return map;
}

}  // namespace gemm_core::cuda

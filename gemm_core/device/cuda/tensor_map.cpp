#include "gemm_core/device/cuda/tensor_map.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/cuda_check.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                            CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                            CUtensorMapFloatOOBfill);

Encode encoder() {
  static const Encode encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                cudaEnableDefault, &found));
    ENSURE(found == cudaDriverEntryPointSuccess, "the driver has no cuTensorMapEncodeTiled");
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
    case DType::i32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::f64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::f32:
    case DType::tf32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

CUtensorMapSwizzle swizzle_of(int line_bytes) {
  switch (line_bytes) {
    case 16:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_128B;
  }
}

}  // namespace

std::optional<CUtensorMap> make_tensor_map(const TensorMapDesc& desc) {
  constexpr std::int64_t kMostStride = (std::int64_t{1} << 40) - 16;
  constexpr std::int64_t kMostExtent = std::int64_t{1} << 31;  // coordinates are signed
  const auto fits = [](std::int64_t stride) {
    return stride >= 0 && stride <= kMostStride && stride % 16 == 0;
  };
  if (reinterpret_cast<std::uintptr_t>(desc.data) % 16 != 0 || !fits(desc.row_stride) ||
      !fits(desc.batch_stride) || std::min({desc.inner, desc.rows, desc.batch}) < 1 ||
      std::max({desc.inner, desc.rows, desc.batch}) >= kMostExtent) {
    return std::nullopt;
  }
  const std::array<cuuint64_t, 3> extents{static_cast<cuuint64_t>(desc.inner),
                                          static_cast<cuuint64_t>(desc.rows),
                                          static_cast<cuuint64_t>(desc.batch)};
  const std::array<cuuint64_t, 2> strides{static_cast<cuuint64_t>(desc.row_stride),
                                          static_cast<cuuint64_t>(desc.batch_stride)};
  const std::array<cuuint32_t, 3> box{static_cast<cuuint32_t>(desc.box_inner),
                                      static_cast<cuuint32_t>(desc.box_rows), 1};
  const std::array<cuuint32_t, 3> steps{1, 1, 1};
  CUtensorMap map;
  const CUresult result = encoder()(
      &map, type_of(desc.element), 3, const_cast<void*>(desc.data), extents.data(), strides.data(),
      box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(desc.line_bytes),
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) return std::nullopt;
  return map;
}

}  // namespace gemm_core::cuda

#include "gemm_core/device/cuda/tensor_map_encoder.hpp"

#include <array>

#include "gemm_core/base/cuda/cuda_check.hpp"

namespace gemm_core::cuda {
namespace {

using base::DType;

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
using EncodeIm2col = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                  const cuuint64_t*, const cuuint64_t*, const int*, const int*,
                                  cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave,
                                  CUtensorMapSwizzle, CUtensorMapL2promotion,
                                  CUtensorMapFloatOOBfill);

template <class Encode>
Encode find_encoder(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
  ENSURE(found == cudaDriverEntryPointSuccess, "the driver has no ", name);
  return reinterpret_cast<Encode>(function);
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

std::optional<CUtensorMap> encode_tiled(const EncodedTensor& tensor,
                                        std::span<const cuuint32_t> box) {
  static const auto encode = find_encoder<EncodeTiled>("cuTensorMapEncodeTiled");
  const std::array<cuuint32_t, 5> steps{1, 1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, type_of(tensor.element), static_cast<cuuint32_t>(tensor.extents.size()),
             const_cast<void*>(tensor.data), tensor.extents.data(), tensor.strides.data(),
             box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(tensor.line_bytes),
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) return std::nullopt;
  return map;
}

std::optional<CUtensorMap> encode_im2col(const EncodedTensor& tensor, std::span<const int> lower,
                                         std::span<const int> upper,
                                         std::span<const cuuint32_t> steps, int box_channels,
                                         int box_pixels) {
  static const auto encode = find_encoder<EncodeIm2col>("cuTensorMapEncodeIm2col");
  CUtensorMap map;
  const CUresult result = encode(
      &map, type_of(tensor.element), static_cast<cuuint32_t>(tensor.extents.size()),
      const_cast<void*>(tensor.data), tensor.extents.data(), tensor.strides.data(), lower.data(),
      upper.data(), static_cast<cuuint32_t>(box_channels), static_cast<cuuint32_t>(box_pixels),
      steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(tensor.line_bytes),
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) return std::nullopt;
  return map;
}

}  // namespace gemm_core::cuda

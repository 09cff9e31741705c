#include "gemm_core/device/cuda/nested_map.hpp"

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

}  // namespace

std::optional<CUtensorMap> make_nested_map(const NestedMapDesc& d) {
  constexpr std::int64_t kMostStride = (std::int64_t{1} << 40) - 16;
  constexpr std::int64_t kMostExtent = std::int64_t{1} << 31;  // coordinates are signed
  if (reinterpret_cast<std::uintptr_t>(d.data) % 16 != 0) return std::nullopt;
  std::array<cuuint64_t, 5> extents{};
  std::array<cuuint64_t, 4> strides{};
  for (std::size_t i = 0; i < 5; ++i) {
    if (d.extent[i] < 1 || d.extent[i] >= kMostExtent) return std::nullopt;
    extents[i] = static_cast<cuuint64_t>(d.extent[i]);
    if (i == 0) continue;
    const std::int64_t stride = d.extent[i] > 1 ? d.stride[i - 1] : 16;
    if (stride < 16 || stride > kMostStride || stride % 16 != 0) return std::nullopt;
    strides[i - 1] = static_cast<cuuint64_t>(stride);
  }
  const std::array<cuuint32_t, 5> box{static_cast<cuuint32_t>(d.box_inner),
                                      static_cast<cuuint32_t>(d.box_rows), 1, 1, 1};
  const std::array<cuuint32_t, 5> steps{1, 1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result = encoder()(
      &map,
      d.element == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      5, const_cast<void*>(d.data), extents.data(), strides.data(), box.data(), steps.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) return std::nullopt;
  return map;
}

}  // namespace gemm_core::cuda

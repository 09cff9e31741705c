#include "gemm_core/device/cuda/gemm/dense_instances.hpp"

#include <vector>

namespace gemm_core::cuda {

extern const DenseInstance kDenseF16KK[4], kDenseF16KN[4], kDenseF16MK[2], kDenseF16MN[2],
    kDenseBF16KK[4], kDenseBF16KN[4], kDenseBF16MK[2], kDenseBF16MN[2], kDenseTF32[3], kDenseFP8[6],
    kDenseI8[2];

std::span<const DenseInstance* const> dense_instances() {
  static const auto all = [] {
    std::vector<const DenseInstance*> rows;
    for (const std::span<const DenseInstance> file :
         {std::span<const DenseInstance>(kDenseF16KK), std::span<const DenseInstance>(kDenseF16KN),
          std::span<const DenseInstance>(kDenseF16MK), std::span<const DenseInstance>(kDenseF16MN),
          std::span<const DenseInstance>(kDenseBF16KK),
          std::span<const DenseInstance>(kDenseBF16KN),
          std::span<const DenseInstance>(kDenseBF16MK),
          std::span<const DenseInstance>(kDenseBF16MN), std::span<const DenseInstance>(kDenseTF32),
          std::span<const DenseInstance>(kDenseFP8), std::span<const DenseInstance>(kDenseI8)}) {
      for (const DenseInstance& instance : file) rows.push_back(&instance);
    }
    return rows;
  }();
  return all;
}

}  // namespace gemm_core::cuda

#include "gemm_core/device/cuda/conv/conv_instances.hpp"

#include <vector>

namespace gemm_core::cuda {

extern const ConvInstance kConvForwardF16[3], kConvActivationF16[3], kConvScatteredF16[2],
    kConvFilterF16[3], kConvForwardBF16[3], kConvActivationBF16[3], kConvScatteredBF16[2],
    kConvFilterBF16[3], kConvForwardTF32[2];

std::span<const ConvInstance* const> conv_instances() {
  static const auto all = [] {
    std::vector<const ConvInstance*> rows;
    for (const std::span<const ConvInstance> file :
         {std::span<const ConvInstance>(kConvForwardF16),
          std::span<const ConvInstance>(kConvActivationF16),
          std::span<const ConvInstance>(kConvScatteredF16),
          std::span<const ConvInstance>(kConvFilterF16),
          std::span<const ConvInstance>(kConvForwardBF16),
          std::span<const ConvInstance>(kConvActivationBF16),
          std::span<const ConvInstance>(kConvScatteredBF16),
          std::span<const ConvInstance>(kConvFilterBF16),
          std::span<const ConvInstance>(kConvForwardTF32)}) {
      for (const ConvInstance& instance : file) rows.push_back(&instance);
    }
    return rows;
  }();
  return all;
}

}  // namespace gemm_core::cuda

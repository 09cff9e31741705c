#include "gemm_core/device/cuda/mixed_instances.hpp"

#include <vector>

namespace gemm_core::cuda {

extern const MixedInstance kMixedF16W4[3], kMixedBF16W4[3], kMixedF16W8[2], kMixedBF16W8[2],
    kMixedF16W2[2], kMixedBF16W2[2], kMixedF16FP8[2], kMixedBF16FP8[2];

std::span<const MixedInstance* const> mixed_instances() {
  static const auto all = [] {
    std::vector<const MixedInstance*> rows;
    for (const std::span<const MixedInstance> file :
         {std::span<const MixedInstance>(kMixedF16W4), std::span<const MixedInstance>(kMixedBF16W4),
          std::span<const MixedInstance>(kMixedF16W8), std::span<const MixedInstance>(kMixedBF16W8),
          std::span<const MixedInstance>(kMixedF16W2), std::span<const MixedInstance>(kMixedBF16W2),
          std::span<const MixedInstance>(kMixedF16FP8),
          std::span<const MixedInstance>(kMixedBF16FP8)}) {
      for (const MixedInstance& instance : file) rows.push_back(&instance);
    }
    return rows;
  }();
  return all;
}

}  // namespace gemm_core::cuda

#include "gemm_core/device/cuda/mixed/mixed_instances.hpp"

#include <vector>

namespace gemm_core::cuda {

extern const MixedInstance kMixedF16W4[4], kMixedBF16W4[4], kMixedF16W8[3], kMixedBF16W8[3],
    kMixedF16W2[3], kMixedBF16W2[3], kMixedF16FP8[3], kMixedBF16FP8[3], kFewRowsF16W4[1],
    kFewRowsF16W8[1], kFewRowsBF16W4[1], kFewRowsBF16W8[1], kFewRowsF16FP8[1], kFewRowsBF16FP8[1];

std::span<const MixedInstance* const> mixed_instances() {
  static const auto all = [] {
    std::vector<const MixedInstance*> rows;
    for (const std::span<const MixedInstance> file :
         {std::span<const MixedInstance>(kMixedF16W4), std::span<const MixedInstance>(kMixedBF16W4),
          std::span<const MixedInstance>(kMixedF16W8), std::span<const MixedInstance>(kMixedBF16W8),
          std::span<const MixedInstance>(kMixedF16W2), std::span<const MixedInstance>(kMixedBF16W2),
          std::span<const MixedInstance>(kMixedF16FP8),
          std::span<const MixedInstance>(kMixedBF16FP8),
          std::span<const MixedInstance>(kFewRowsF16W4),
          std::span<const MixedInstance>(kFewRowsF16W8),
          std::span<const MixedInstance>(kFewRowsBF16W4),
          std::span<const MixedInstance>(kFewRowsBF16W8),
          std::span<const MixedInstance>(kFewRowsF16FP8),
          std::span<const MixedInstance>(kFewRowsBF16FP8)}) {
      for (const MixedInstance& instance : file) rows.push_back(&instance);
    }
    return rows;
  }();
  return all;
}

}  // namespace gemm_core::cuda

// One piece of a weight gradient: some output rows under one tap, some input channels.
#pragma once
#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/collective/weight_gradient_arguments.hpp"

namespace gemm_core {

struct WeightGradientPiece {
  std::int64_t tap = 0, group = 0;
  std::int64_t row_begin = 0, row_end = 0;          // output rows
  std::int64_t channel_begin = 0, channel_end = 0;  // input channels within the group
  // [channel_end - channel_begin][ldc]: sums over the rows, overwritten. A depthwise convolution
  // has one piece for all groups: [1][channels].
  float* to = nullptr;
  std::int64_t ldc = 0;
};

void run_weight_gradient_piece(const CpuAtoms& atoms, const WeightGradientArguments& arguments,
                               const WeightGradientPiece& piece);

inline bool is_depthwise(const WeightGradientArguments& a) {
  return a.groups > 1 && a.input.shape[1] == a.groups && a.gradient.shape[1] == a.groups;
}

}  // namespace gemm_core

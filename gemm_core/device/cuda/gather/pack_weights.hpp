// Weights of convolutions on the device, packed there from fp32 masters: as the forward pass reads
// them, and with channels exchanged, as the gradient of the input does. One launch for all layers
// of a network.
#pragma once
#include <span>

#include "gemm_core/device/cuda/gather/gather_conv.hpp"

namespace gemm_core::cuda {

// Zeros, [cout][taps][pitch] in the storage of `compute`.
ConvWeights zero_conv_weights(std::int64_t cout, std::int64_t taps, std::int64_t cin,
                              std::int64_t groups, base::DType compute);

struct PackWeightsJob {
  const float* weight = nullptr;  // device, [cout][taps][cin / groups]
  std::int64_t cout = 0, taps = 1, cin = 0, groups = 1;
  // Of these channels or more; what lies beyond is left alone. Null: not wanted.
  ConvWeights* forward = nullptr;   // cout, cin
  ConvWeights* backward = nullptr;  // [cin][taps][cout / groups]
  // Backward: taps in opposite order, so that a submanifold map serves as its own inverse.
  bool reverses_taps = false;
};

class WeightPacker {
 public:
  WeightPacker() = default;
  // Error where operands are smaller than the weights, or differ in type.
  explicit WeightPacker(std::span<const PackWeightsJob> jobs);
  void run(cudaStream_t stream) const;

  struct Job {
    const float* weight;
    void *forward, *backward;
    std::int32_t group_cout, group_cin, taps, row_tiles, column_tiles;
    std::int32_t forward_pitch, backward_pitch, reverses_taps, first_block;
  };

 private:
  base::cuda::Buffer<Job> jobs_;
  std::int32_t count_ = 0, blocks_ = 0;
  base::DType compute_ = base::DType::f32;
};

}  // namespace gemm_core::cuda

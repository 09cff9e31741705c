// A dense convolution as launches of the Hopper kernels: one a group, and for the gradient of a
// strided convolution's activation one a class of positions with the same remainders by the
// strides.
#pragma once
#include <vector>

#include "gemm_core/device/conv.hpp"
#include "gemm_core/device/cuda/conv_instances.hpp"
#include "gemm_core/kernel/sm90_conv.cuh"

namespace gemm_core::cuda {

struct LoweredConv {
  const ConvInstance* instance = nullptr;
  Sm90ConvParams params;
  DenseWalk walk = DenseWalk::tiles;
  int clusters = 0;
  std::size_t flag_bytes = 0, sum_bytes = 0;  // of partial sums
  double cycles = 0;                          // by the model of dense products
};

// By `instance`; empty where it cannot take the convolution.
std::vector<LoweredConv> lower_conv_to(const ConvInstance& instance, const ConvArguments& arguments,
                                       std::uint32_t group, int multiprocessors);

}  // namespace gemm_core::cuda

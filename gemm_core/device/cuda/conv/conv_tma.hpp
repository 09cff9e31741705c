// A dense convolution as launches of the Hopper kernels: one a group, and for the gradient of a
// strided convolution's activation one a class of positions with the same remainders by the
// strides.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "gemm_core/device/conv.hpp"
#include "gemm_core/device/cuda/conv/conv_instances.hpp"
#include "gemm_core/kernel/filter_parts.cuh"
#include "gemm_core/kernel/sm90_conv.cuh"
#include "gemm_core/kernel/sm90_strided_gradient.cuh"

namespace gemm_core::cuda {

struct LoweredConv {
  const ConvInstance* instance = nullptr;
  Sm90ConvParams params;
  DenseWalk walk = DenseWalk::tiles;
  int clusters = 0;
  std::size_t flag_bytes = 0, sum_bytes = 0;  // of partial sums
  double cycles = 0;                          // by the model of dense products
  // A filter gradient in parts: `launch` leaves their sums, and adds them by a second kernel.
  std::optional<FilterPartsParams> parts;
  // Where results are scattered: instead of `params`. Shared by copies.
  std::shared_ptr<const Sm90StridedParams> strided;

  void bind(std::uint32_t* flags, void* sums);
  void launch(cudaStream_t stream) const;
};

// One class of positions of a scattered gradient, before classes are joined.
struct LoweredClass {
  LoweredConv lowered;
  ScatteredRows rows;
  std::int64_t m = 0;
};
// Launches of the classes, the heaviest first, a few classes each.
void add_classes(std::vector<LoweredClass>& classes, int processors,
                 std::vector<LoweredConv>& launches);

// By `instance`; empty where it cannot take the convolution.
std::vector<LoweredConv> lower_conv_to(const ConvInstance& instance, const ConvArguments& arguments,
                                       std::uint32_t group, int multiprocessors);

}  // namespace gemm_core::cuda

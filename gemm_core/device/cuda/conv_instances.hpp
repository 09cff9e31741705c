// The compiled kernels of dense convolution on Hopper: one row an instance, one file of instances/
// for those of a type and an operation.
#pragma once
#include "gemm_core/device/cuda/dense_instances.hpp"

namespace gemm_core {
struct Sm90ConvParams;
enum class ConvKernel : std::uint8_t;
}  // namespace gemm_core

namespace gemm_core::cuda {

struct ConvInstance {
  DenseInstance shape;  // its launch is null
  ConvKernel kernel;
  void (*launch)(const Sm90ConvParams& params, DenseWalk walk, int clusters, cudaStream_t stream);
};
std::span<const ConvInstance* const> conv_instances();

}  // namespace gemm_core::cuda

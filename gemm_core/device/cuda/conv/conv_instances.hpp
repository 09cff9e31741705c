// The compiled kernels of dense convolution on Hopper: one row an instance, one file of instances/
// for those of a type and an operation.
#pragma once
#include "gemm_core/device/cuda/gemm/dense_instances.hpp"

namespace gemm_core {
struct Sm90ConvParams;
struct Sm90StridedParams;
enum class ConvKernel : std::uint8_t;
}  // namespace gemm_core

namespace gemm_core::cuda {

struct ConvInstance {
  DenseInstance shape;  // its launch is null
  ConvKernel kernel;
  // One of the two: the second where results are scattered.
  void (*launch)(const Sm90ConvParams& params, DenseWalk walk, int clusters, cudaStream_t stream);
  void (*launch_classes)(const Sm90StridedParams& params, int blocks, cudaStream_t stream);
};
std::span<const ConvInstance* const> conv_instances();

}  // namespace gemm_core::cuda

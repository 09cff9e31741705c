// The compiled kernels of contractions on Hopper: one row an instance.
#pragma once
#include "gemm_core/device/cuda/gemm/dense_instances.hpp"

namespace gemm_core {
struct Sm90ContractionParams;
}

namespace gemm_core::cuda {

struct NestedInstance {
  DenseInstance shape;  // its launch is null
  void (*launch)(const Sm90ContractionParams& params, int blocks, cudaStream_t stream);
};
std::span<const NestedInstance* const> nested_instances();

}  // namespace gemm_core::cuda

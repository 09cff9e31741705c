// Host side of the depthwise kernels (kernel/depthwise_conv.cuh).
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "gemm_core/device/conv.hpp"
#include "gemm_core/kernel/depthwise_tensor.hpp"

namespace gemm_core::cuda {

// An operand as the kernels read it.
DepthwiseTensor depthwise_tensor(const ConvTensor& tensor);

// Activation, filter and output of one float type, which is what is multiplied, aligned chunks of
// eight channels; no beta, no nodes.
bool takes_depthwise_strips(const ConvArguments& arguments);

class Depthwise {
 public:
  // Float types, one channel and one filter a group, channels contiguous.
  static bool takes(const ConvArguments& arguments);
  explicit Depthwise(const ConvArguments& arguments, int multiprocessors);
  std::size_t workspace_bytes() const { return workspace_bytes_; }  // sums of a filter gradient
  void run(void* workspace, cudaStream_t stream) const;

 private:
  ConvArguments arguments_;
  std::size_t workspace_bytes_ = 0;
  bool by_rows_ = false;  // takes_depthwise_rows
  int strips_ = 1;
};

}  // namespace gemm_core::cuda

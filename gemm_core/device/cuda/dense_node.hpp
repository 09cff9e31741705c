// A node of an epilogue as the kernels of dense operands read it.
#pragma once
#include "gemm_core/epilogue/cuda/dense_epilogue.cuh"
#include "gemm_core/epilogue/epilogue.hpp"

namespace gemm_core::cuda {

// Pointers are the node's own: device memory.
DenseNode device_node(const EpilogueNode& node);

}  // namespace gemm_core::cuda

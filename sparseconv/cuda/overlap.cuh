// For kernels of launches that overlap (base/cuda/launch.cuh).
#pragma once
#include "gemm_core/atom/ptx.cuh"

namespace sparseconv::cuda {

// First thing such a kernel does: the next kernel may take its places as soon as this one may read.
__device__ inline void wait_and_go_on() {
  gemm_core::ptx::wait_for_predecessor();
  gemm_core::ptx::allow_successor();
}

}  // namespace sparseconv::cuda

// launch(kernel, shape, stream, arguments...): checks every launch and does nothing for an empty
// grid. With `overlap` the kernel may start while its predecessor on the stream drains; such a
// kernel must call ptx::wait_for_predecessor() before it touches anything that kernels of the same
// frame wrote (programmatic dependent launch).
#pragma once
#include <cuda_runtime.h>

#include "gemm_core/base/cuda/cuda_check.hpp"

namespace base::cuda {

struct LaunchShape {
  dim3 grid{1, 1, 1}, block{1, 1, 1};
  std::size_t shared_bytes = 0;
  bool overlap = false;
};

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
            Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = shape.overlap ? 1 : 0;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

// Allows a kernel more dynamic shared memory than the 48 KB that need no asking.
template <class Kernel>
void allow_shared_memory(Kernel kernel, std::size_t bytes) {
  CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)));
}

}  // namespace base::cuda

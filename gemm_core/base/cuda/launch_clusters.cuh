// launch_clusters(kernel, shape, cluster, stream, arguments...): launch() for kernels whose blocks
// work in clusters of `cluster` neighbours (sm_90), which divide the grid.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"

namespace base::cuda {

template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), const LaunchShape& shape, unsigned cluster,
                     cudaStream_t stream, Arguments&&... arguments) {
  if (shape.grid.x == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace base::cuda

// A row of the table of weight gradient kernels for one compiled configuration.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/numeric.hpp"
#include "gemm_core/device/cuda/gather/sm90_pair_instances.hpp"
#include "gemm_core/kernel/sm90_weight_gradient.cuh"

namespace gemm_core::cuda {

template <class Config>
void launch_sm90_pairs(const WeightGradientParams& params, int column_blocks, cudaStream_t stream) {
  // Setting the attribute anew costs less than a lock, and it is per device.
  base::cuda::allow_shared_memory(sm90_weight_gradient<Config>, Config::kSharedBytes);
  base::cuda::launch(
      sm90_weight_gradient<Config>,
      {.grid = dim3(static_cast<unsigned>(params.workers), static_cast<unsigned>(column_blocks)),
       .block = dim3(Config::kThreads),
       .shared_bytes = Config::kSharedBytes,
       .overlap = true},
      stream, params);
}

template <class Config>
constexpr Sm90PairInstance sm90_pair_instance(const char* name) {
  return {name,
          base::dtype_v<typename Config::Element>,
          Config::kTileM,
          Config::kTileN,
          Config::kBlocksPerSm,
          launch_sm90_pairs<Config>};
}

}  // namespace gemm_core::cuda

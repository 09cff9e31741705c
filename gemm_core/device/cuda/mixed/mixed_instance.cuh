// Turns a configuration into a row of the table of mixed instances. Included by the files of
// instances/ only.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/mixed/mixed_instances.hpp"
#include "gemm_core/kernel/sm90_mixed_gemm.cuh"

namespace gemm_core::cuda {

template <class Config>
void launch_mixed_gemm(const Sm90MixedParams& params, int blocks, cudaStream_t stream) {
  base::cuda::allow_shared_memory(sm90_mixed_gemm<Config>, Config::kSharedBytes);
  base::cuda::launch(sm90_mixed_gemm<Config>,
                     {.grid = dim3(static_cast<unsigned>(blocks)),
                      .block = dim3(Config::kThreads),
                      .shared_bytes = Config::kSharedBytes},
                     stream, params);
}

template <class Compute, NarrowFormat kFormat, Sm90MixedTile kTile>
MixedInstance mixed_instance(const char* name) {
  using Config = Sm90MixedConfig<Compute, kFormat, kTile>;
  return {name,
          base::dtype_v<Compute>,
          kFormat,
          Config::kTileM,
          Config::kTileN,
          Config::kStageK,
          Config::kBits,
          Config::kLineBytes,
          Config::kScaleK,
          Config::kTileM * Config::kTileN * 4,
          launch_mixed_gemm<Config>};
}

}  // namespace gemm_core::cuda

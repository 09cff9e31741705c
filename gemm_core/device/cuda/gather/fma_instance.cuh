// Turns a configuration of the exact fp32 kernel into a row of the table of instances. Included by
// the files of instances/ only.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/gather/sm90_instances.hpp"
#include "gemm_core/kernel/fma_gather_conv.cuh"

namespace gemm_core::cuda {

template <class Config>
void launch_fma(const Sm90GatherConvParams& params, int lists, int column_blocks, bool overlap,
                cudaStream_t stream) {
  base::cuda::allow_shared_memory(fma_gather_conv<Config>, Config::kSharedBytes);
  base::cuda::launch(
      fma_gather_conv<Config>,
      {.grid = dim3(static_cast<unsigned>(lists), static_cast<unsigned>(column_blocks)),
       .block = dim3(Config::kThreads),
       .shared_bytes = Config::kSharedBytes,
       .overlap = overlap},
      stream, params);
}

template <class Config>
constexpr Sm90Instance fma_instance(const char* name) {
  return {name,
          base::DType::f32,
          Config::kTileM,
          Config::kTileN,
          Config::kSpanK,
          Config::kSpanBytes,
          Config::kStageK,
          Config::kStages,
          Config::kBlocksPerSm,
          Config::kSharedBytes,
          launch_fma<Config>};
}

}  // namespace gemm_core::cuda

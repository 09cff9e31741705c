// As mixed_instance.cuh, for few rows of activations. Included by files of instances/ only.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/mixed/few_rows.hpp"
#include "gemm_core/kernel/sm90_few_rows_gemm.cuh"

namespace gemm_core::cuda {

template <class Config>
void launch_few_rows_gemm(const Sm90MixedParams& params, int blocks, cudaStream_t stream) {
  base::cuda::allow_shared_memory(sm90_few_rows_gemm<Config>, Config::kSharedBytes);
  base::cuda::launch(sm90_few_rows_gemm<Config>,
                     {.grid = dim3(static_cast<unsigned>(blocks)),
                      .block = dim3(Config::kThreads),
                      .shared_bytes = Config::kSharedBytes},
                     stream, params);
}

template <class Compute, NarrowFormat kFormat, Sm90FewRowsTile kTile>
MixedInstance few_rows_instance(const char* name) {
  using Config = Sm90FewRowsConfig<Compute, kFormat, kTile>;
  static_assert(Config::kTileM > kMostBoxRows);
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
          launch_few_rows_gemm<Config>};
}

}  // namespace gemm_core::cuda

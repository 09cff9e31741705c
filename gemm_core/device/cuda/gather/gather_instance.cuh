// The launcher of products with gathered A. Included by files of instances/ only.
#pragma once
#include "gemm_core/base/cuda/launch_clusters.cuh"
#include "gemm_core/device/cuda/gather/gather_instances.hpp"
#include "gemm_core/kernel/sm90_row_gather_gemm.cuh"

namespace gemm_core::cuda {

template <class Config>
void launch_gather_config(const Sm90RowGatherParams& params, int clusters, cudaStream_t stream) {
  base::cuda::allow_shared_memory(sm90_row_gather_gemm<Config>, Config::kSharedBytes);
  base::cuda::launch_clusters(sm90_row_gather_gemm<Config>,
                              {.grid = dim3(static_cast<unsigned>(clusters * Config::kCluster)),
                               .block = dim3(Config::kThreads),
                               .shared_bytes = Config::kSharedBytes},
                              Config::kCluster, stream, params);
}

template <class Element>
void launch_row_gather_gemm(const Sm90RowGatherParams& params, int tile_n, int clusters,
                            cudaStream_t stream) {
  if constexpr (sizeof(Element) == 2) {
    if (tile_n == 256)
      return launch_gather_config<Sm90DenseConfig<
          Element, true, true,
          Sm90DenseTile{.m = kGatherTileM, .n = 256, .stages = 4, .cluster = kGatherCluster}>>(
          params, clusters, stream);
  }
  launch_gather_config<Sm90DenseConfig<Element, true, true,
                                       Sm90DenseTile{.m = kGatherTileM,
                                                     .n = 128,
                                                     .stages = 6,
                                                     .cluster = kGatherCluster,
                                                     .alternates = true}>>(params, clusters,
                                                                           stream);
}

}  // namespace gemm_core::cuda

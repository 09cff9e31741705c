// Turns a configuration into a row of the table of dense instances. Included by the files of
// instances/ only.
#pragma once
#include "gemm_core/base/cuda/launch_clusters.cuh"
#include "gemm_core/device/cuda/gemm/dense_instances.hpp"
#include "gemm_core/kernel/sm90_gemm.cuh"

namespace gemm_core::cuda {

template <class Config, DenseWalk kWalk>
void launch_walk(const Sm90GemmParams& params, int clusters, cudaStream_t stream) {
  // Setting the attribute anew costs less than a lock, and it is per device.
  base::cuda::allow_shared_memory(sm90_gemm<Config, kWalk>, Config::kSharedBytes);
  base::cuda::launch_clusters(sm90_gemm<Config, kWalk>,
                              {.grid = dim3(static_cast<unsigned>(clusters * Config::kCluster)),
                               .block = dim3(Config::kThreads),
                               .shared_bytes = Config::kSharedBytes},
                              Config::kCluster, stream, params);
}

template <class Config>
void launch_sm90_gemm(const Sm90GemmParams& params, DenseWalk walk, int clusters,
                      cudaStream_t stream) {
  if (walk == DenseWalk::tiles)
    launch_walk<Config, DenseWalk::tiles>(params, clusters, stream);
  else if (walk == DenseWalk::groups)
    launch_walk<Config, DenseWalk::groups>(params, clusters, stream);
  else if constexpr (!Config::kAlternates)
    launch_walk<Config, DenseWalk::splits>(params, clusters, stream);
}

template <class Element, bool kKMajorA, bool kKMajorB, Sm90DenseTile kTile>
DenseInstance dense_instance(const char* name) {
  using Config = Sm90DenseConfig<Element, kKMajorA, kKMajorB, kTile>;
  return {name,
          base::dtype_v<Element>,
          kKMajorA,
          kKMajorB,
          kTile.promotes,
          kTile.alternates,
          kTile.m,
          kTile.n,
          Config::kStageK,
          kTile.stages,
          kTile.cluster,
          Config::kBoxRowsA,
          Config::kBoxRowsB,
          launch_sm90_gemm<Config>};
}

}  // namespace gemm_core::cuda

// The launcher of a compiled epilogue tree. Included by files of instances/, and by whoever
// compiles a tree of their own.
#pragma once
#include "gemm_core/base/cuda/launch_clusters.cuh"
#include "gemm_core/device/cuda/visitor/tree_instances.hpp"

namespace gemm_core::cuda {

template <class Element, class Tree, TreeTile kTile>
void launch_tree_gemm(const Sm90TreeGemmParams<Tree>& params, int clusters, cudaStream_t stream) {
  using Config = Sm90TreeConfig<Element, true, true, kTile>;
  constexpr int kBytes = Sm90TreeGemm<Config, Tree>::kSharedBytes;
  base::cuda::allow_shared_memory(sm90_tree_gemm<Config, Tree>, kBytes);
  base::cuda::launch_clusters(sm90_tree_gemm<Config, Tree>,
                              {.grid = dim3(static_cast<unsigned>(clusters * Config::kCluster)),
                               .block = dim3(Config::kThreads),
                               .shared_bytes = kBytes},
                              Config::kCluster, stream, params);
}

}  // namespace gemm_core::cuda

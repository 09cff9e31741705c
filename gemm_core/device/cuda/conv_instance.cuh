// Turns a configuration into a row of the table of convolution instances. Included by the files of
// instances/ only.
#pragma once
#include "gemm_core/base/cuda/launch_clusters.cuh"
#include "gemm_core/device/cuda/conv_instances.hpp"
#include "gemm_core/kernel/sm90_conv.cuh"

namespace gemm_core::cuda {

template <class Config, ConvKernel kKernel, DenseWalk kWalk>
void launch_conv_walk(const Sm90ConvParams& params, int clusters, cudaStream_t stream) {
  const auto kernel = sm90_conv<Config, kKernel, kWalk>;
  base::cuda::allow_shared_memory(kernel, Config::kSharedBytes);
  base::cuda::launch_clusters(kernel,
                              {.grid = dim3(static_cast<unsigned>(clusters * Config::kCluster)),
                               .block = dim3(Config::kThreads),
                               .shared_bytes = Config::kSharedBytes},
                              Config::kCluster, stream, params);
}

// Plans without cuts run as splits too, where only those are compiled.
template <class Config, ConvKernel kKernel>
void launch_sm90_conv(const Sm90ConvParams& params, DenseWalk walk, int clusters,
                      cudaStream_t stream) {
  if constexpr (kKernel == ConvKernel::filter) {
    launch_conv_walk<Config, kKernel, DenseWalk::splits>(params, clusters, stream);
  } else {
    if (walk == DenseWalk::tiles)
      launch_conv_walk<Config, kKernel, DenseWalk::tiles>(params, clusters, stream);
    else if constexpr (!Config::kAlternates)
      launch_conv_walk<Config, kKernel, DenseWalk::splits>(params, clusters, stream);
  }
}

template <class Element, bool kKMajorA, bool kKMajorB, ConvKernel kKernel, Sm90DenseTile kTile>
ConvInstance conv_instance(const char* name) {
  using Config = Sm90DenseConfig<Element, kKMajorA, kKMajorB, kTile>;
  return {{name, base::dtype_v<Element>, kKMajorA, kKMajorB, kTile.promotes, kTile.alternates,
           kTile.m, kTile.n, Config::kStageK, kTile.stages, kTile.cluster, Config::kBoxRowsA,
           Config::kBoxRowsB, nullptr},
          kKernel,
          launch_sm90_conv<Config, kKernel>};
}

// Large products; short sums and few columns, where one tile is stored while the next is
// multiplied.
inline constexpr Sm90DenseTile kConvWide{.m = 128, .n = 256, .stages = 4, .cluster = 2};
inline constexpr Sm90DenseTile kConvSquare{.m = 128, .n = 128, .stages = 6, .alternates = true};
inline constexpr Sm90DenseTile kConvNarrow{.m = 128, .n = 64, .stages = 8, .alternates = true};
// Filter gradients: few tiles and long sums, which are cut.
inline constexpr Sm90DenseTile kConvFilterSquare{.m = 128, .n = 128, .stages = 6};
inline constexpr Sm90DenseTile kConvFilterNarrow{.m = 128, .n = 64, .stages = 8};

}  // namespace gemm_core::cuda

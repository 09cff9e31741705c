// Turns a configuration into a row of the table of convolution instances. Included by the files of
// instances/ only.
#pragma once
#include "gemm_core/base/cuda/launch_clusters.cuh"
#include "gemm_core/device/cuda/conv/conv_instances.hpp"
#include "gemm_core/kernel/sm90_conv.cuh"
#include "gemm_core/kernel/sm90_strided_gradient.cuh"

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

template <class Config, ConvKernel kKernel>
void launch_sm90_conv(const Sm90ConvParams& params, DenseWalk walk, int clusters,
                      cudaStream_t stream) {
  if (walk == DenseWalk::tiles)
    launch_conv_walk<Config, kKernel, DenseWalk::tiles>(params, clusters, stream);
  else if constexpr (!Config::kAlternates)
    launch_conv_walk<Config, kKernel, DenseWalk::splits>(params, clusters, stream);
}

template <class Config>
void launch_strided_gradient(const Sm90StridedParams& params, int blocks, cudaStream_t stream) {
  base::cuda::allow_shared_memory(sm90_strided_gradient<Config>, Config::kSharedBytes);
  base::cuda::launch(sm90_strided_gradient<Config>,
                     {.grid = dim3(static_cast<unsigned>(blocks)),
                      .block = dim3(Config::kThreads),
                      .shared_bytes = Config::kSharedBytes},
                     stream, params);
}

template <class Element, bool kKMajorA, bool kKMajorB, ConvKernel kKernel, Sm90DenseTile kTile>
ConvInstance conv_instance(const char* name) {
  using Config = Sm90DenseConfig<Element, kKMajorA, kKMajorB, kTile>;
  ConvInstance instance{{name, base::dtype_v<Element>, kKMajorA, kKMajorB, kTile.promotes,
                         kTile.alternates, kTile.m, kTile.n, Config::kStageK, kTile.stages,
                         kTile.cluster, Config::kBoxRowsA, Config::kBoxRowsB, nullptr},
                        kKernel,
                        nullptr,
                        nullptr};
  if constexpr (kKernel == ConvKernel::scatters)
    instance.launch_classes = launch_strided_gradient<Config>;
  else
    instance.launch = launch_sm90_conv<Config, kKernel>;
  return instance;
}

// Large products; short sums and few columns, where one tile is stored while the next is
// multiplied.
inline constexpr Sm90DenseTile kConvWide{.m = 128, .n = 256, .stages = 4, .cluster = 2};
inline constexpr Sm90DenseTile kConvSquare{.m = 128, .n = 128, .stages = 6, .alternates = true};
inline constexpr Sm90DenseTile kConvFilter{.m = 128, .n = 256, .stages = 4};
inline constexpr Sm90DenseTile kConvNarrow{.m = 128, .n = 64, .stages = 8, .alternates = true};
}  // namespace gemm_core::cuda

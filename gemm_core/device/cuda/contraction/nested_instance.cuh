// Turns a configuration into a row of the table of contraction instances. Included by the files of
// instances/ only.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/contraction/nested_instances.hpp"
#include "gemm_core/kernel/sm90_contraction.cuh"

namespace gemm_core::cuda {

template <class Config>
void launch_sm90_contraction(const Sm90ContractionParams& params, int blocks, cudaStream_t stream) {
  base::cuda::allow_shared_memory(sm90_contraction<Config>, Config::kSharedBytes);
  base::cuda::launch(sm90_contraction<Config>,
                     {.grid = dim3(static_cast<unsigned>(blocks)),
                      .block = dim3(Config::kThreads),
                      .shared_bytes = Config::kSharedBytes},
                     stream, params);
}

template <class Element, bool kKMajorA, bool kKMajorB, Sm90DenseTile kTile>
NestedInstance nested_instance(const char* name) {
  using Config = Sm90DenseConfig<Element, kKMajorA, kKMajorB, kTile>;
  return {{name, base::dtype_v<Element>, kKMajorA, kKMajorB, kTile.promotes, kTile.alternates,
           kTile.m, kTile.n, Config::kStageK, kTile.stages, kTile.cluster, Config::kBoxRowsA,
           Config::kBoxRowsB, nullptr},
          launch_sm90_contraction<Config>};
}

// Whole tiles in turn: much is stored for each product where modes are short.
inline constexpr Sm90DenseTile kNestedSquare{.m = 128, .n = 128, .stages = 6, .alternates = true};
inline constexpr Sm90DenseTile kNestedSmall{.m = 64, .n = 64, .stages = 8, .alternates = true};

}  // namespace gemm_core::cuda

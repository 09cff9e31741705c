// The compiled configurations of the weight gradient on matrix cores (sm90_weight_gradient, and
// sm80_tf32_weight_gradient), those of an element type in one file of instances/.
#pragma once
#include <cuda_runtime_api.h>

#include <span>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core {
struct WeightGradientParams;
}

namespace gemm_core::cuda {

struct Sm90PairInstance {
  const char* name;
  base::DType element;  // f16, bf16, tf32
  int tile_m, tile_n, blocks_per_sm;
  void (*launch)(const WeightGradientParams& params, int column_blocks, cudaStream_t stream);
};
std::span<const Sm90PairInstance> sm90_f16_pair_instances();
std::span<const Sm90PairInstance> sm90_bf16_pair_instances();
std::span<const Sm90PairInstance> sm80_tf32_pair_instances();

}  // namespace gemm_core::cuda

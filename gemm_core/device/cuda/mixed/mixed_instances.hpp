// The compiled kernels of narrow weights x f16 or bf16 activations on sm_90a, one row an instance.
#pragma once
#include <cuda_runtime_api.h>

#include <span>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core {
struct Sm90MixedParams;
enum class NarrowFormat : std::uint8_t;
}  // namespace gemm_core

namespace gemm_core::cuda {

struct MixedInstance {
  const char* name;  // activations x weights, tile of weights x activations
  base::DType compute;
  NarrowFormat format;
  int tile_m, tile_n, stage_k;  // m: rows of weights
  int bits, line_bytes;         // of weights: an element, and a row of a stage
  int scale_k;                  // groups of scales along k are multiples of this
  int sum_bytes;                // of a tile's partial sums
  void (*launch)(const Sm90MixedParams& params, int blocks, cudaStream_t stream);
};
std::span<const MixedInstance* const> mixed_instances();

}  // namespace gemm_core::cuda

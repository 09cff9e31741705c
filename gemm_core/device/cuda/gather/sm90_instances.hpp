// The compiled configurations of sm90_gather_conv, one a file in instances/. A row says what a
// configuration is and how to launch it; the choice between rows is made in gather_conv.cpp from
// shapes alone.
#pragma once
#include <cuda_runtime_api.h>

#include <span>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core {
struct Sm90GatherConvParams;
}

namespace gemm_core::cuda {

struct Sm90Instance {
  const char* name;     // element_rows x columns _ channels of a stage
  base::DType element;  // f16, bf16, tf32, f32 (by FMA), e4m3, i8
  int tile_m, tile_n, span_k, span_bytes, stage_k, stages, blocks_per_sm, shared_bytes;
  using Launch = void (*)(const Sm90GatherConvParams& params, int lists, int column_blocks,
                          bool overlap, cudaStream_t stream);
  Launch launch;
  // Kernels of their own, as what these take in registers costs a layer up to a tenth: a second
  // matrix of own rows (with f16 operands and results alone), and f16 products with 8-bit results
  // or additions. Null where there is none; `launch` of 8-bit instances stores and adds both types.
  Launch launch_own_rows = nullptr, launch_mixed = nullptr;
};
std::span<const Sm90Instance* const> sm90_instances();

}  // namespace gemm_core::cuda

// Makes the pair lists of kernel maps on the device (collective/pair_table.hpp). Three launches for
// all maps of a frame.
#pragma once
#include <cuda_runtime_api.h>

#include <span>

#include "gemm_core/collective/pair_table.hpp"

namespace gemm_core::cuda {

struct PairListJob {
  const std::int32_t* table = nullptr;  // [taps][pitch] input row or -1; null: one tap, identity
  std::int64_t pitch = 0;
  std::int32_t taps = 1;
  const std::int32_t* row_count = nullptr;  // output rows on the device; null: `rows` of them
  std::int64_t rows = 0;                    // at most
  std::int32_t* inputs = nullptr;           // [pair_capacity(rows, taps)]
  std::int32_t* outputs = nullptr;
  std::int32_t* tap_begin = nullptr;  // [taps + 1]
  std::int32_t* scratch = nullptr;    // [pair_scratch(taps)]
  PairTable view() const { return {taps, inputs, outputs, tap_begin}; }
};
inline constexpr int kMaxPairJobs = 32;  // of one launch

std::int64_t pair_capacity(std::int64_t rows, std::int64_t taps);
std::int64_t pair_scratch(std::int64_t taps);
void build_pair_lists(std::span<const PairListJob> jobs, cudaStream_t stream);

}  // namespace gemm_core::cuda

// Which of the mixed instances are those of sm90_few_rows_gemm.cuh: tiles of more rows of weights
// than a bulk copy takes.
#pragma once
#include "gemm_core/device/cuda/mixed/mixed_instances.hpp"

namespace gemm_core::cuda {

inline constexpr int kMostBoxRows = 256;
inline bool is_for_few_rows(const MixedInstance& instance) {
  return instance.tile_m > kMostBoxRows;
}

}  // namespace gemm_core::cuda

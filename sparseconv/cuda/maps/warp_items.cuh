// Shares work out over the lanes of warps, for kernels whose warps work together.
#pragma once
#include <cstdint>

#include "sparseconv/cuda/maps/step.cuh"

namespace sparseconv::cuda {

// Sum over this lane and those before it.
__device__ inline std::int32_t through_lanes(std::int32_t value, int lane) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const std::int32_t before = __shfl_up_sync(~0u, value, step);
    if (lane >= step) value += before;
  }
  return value;
}

}  // namespace sparseconv::cuda

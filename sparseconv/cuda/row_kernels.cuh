// What kernels over rows and channels share: matrices, row counts, walks over items, element types.
#pragma once
#include <algorithm>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/lower_epilogue.hpp"
#include "sparseconv/cuda/overlap.cuh"
#include "sparseconv/cuda/step_kernels.hpp"

namespace sparseconv::cuda {

using base::DType;
using gemm_core::DeviceElement;

inline constexpr int kThreads = 256;
// Enough blocks to fill any GPU; threads walk on by the size of the grid.
inline constexpr std::int64_t kMaxBlocks = 2048;

inline dim3 blocks_for(std::int64_t items) {
  return dim3(static_cast<unsigned>(std::min(kMaxBlocks, (items + kThreads - 1) / kThreads)));
}

struct Matrix {
  void* data = nullptr;
  std::int64_t pitch = 0;
  std::int32_t channels = 0;
};
template <class View>
Matrix matrix(const View& view) {
  return {const_cast<void*>(static_cast<const void*>(view.data)), view.stride[0],
          static_cast<std::int32_t>(view.shape[1])};
}

// A level that outgrew its bound has no rows: its keys and maps are not filled, and the frame runs
// again.
__device__ inline std::int64_t rows_of(const RowCount& rows) {
  if (rows.count == nullptr) return rows.bound;
  return *rows.count <= rows.bound ? *rows.count : 0;
}
__device__ inline std::int64_t first_item() {
  return blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x;
}
__device__ inline std::int64_t item_step() {
  return static_cast<std::int64_t>(gridDim.x) * kThreads;
}

// Rank of the first key of a batch entry or a later one.
__device__ inline std::int64_t first_rank(const Key* keys, std::int64_t count, std::int32_t batch) {
  std::int64_t low = 0, high = count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (static_cast<std::int32_t>(keys[middle] >> (3 * kAxisBits)) < batch)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Calls body.operator()<In, Out>() for the element types of a step.
template <class Body>
void visit_types(DType in, const Destination& output, const char* operation, Body&& body) {
  base::visit_dtype<float, base::half_t, base::bf16_t>(in, operation, [&]<class In>() {
    if (output.rounds_to_tf32) {
      if constexpr (std::is_same_v<In, float>)
        body.template operator()<In, base::tf32_t>();
      else if constexpr (std::is_same_v<In, base::half_t>)
        body.template operator()<In, base::tf32_t>();
      else
        base::fail(operation, ": bfloat16 to tf32 is not supported");
      return;
    }
    base::visit_dtype<float, base::half_t, base::bf16_t>(
        output.view.dtype, operation, [&]<class Out>() { body.template operator()<In, Out>(); });
  });
}

}  // namespace sparseconv::cuda

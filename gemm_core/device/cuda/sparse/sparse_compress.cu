#include <cmath>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/collective/cuda_operand_loads.cuh"
#include "gemm_core/device/cuda/sparse/sparse_gemm.hpp"

namespace gemm_core {
namespace {

using base::DType;

struct SparseRows {
  void* data = nullptr;
  DType type = DType::f32;
  int bytes = 4;
  std::int64_t rows = 0, columns = 0, row_stride = 0;
};

// The two columns of a group that stay, in rising order: the largest magnitudes, of equal ones the
// lower columns; what the CPU's function says, comparison by comparison.
__device__ __forceinline__ void largest_two(const float (&v)[4], int& low, int& high) {
  int first = 0;
#pragma unroll
  for (int i = 1; i < 4; ++i) {
    if (fabsf(v[i]) > fabsf(v[first])) first = i;
  }
  int second = first == 0 ? 1 : 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i != first && fabsf(v[i]) > fabsf(v[second])) second = i;
  }
  low = min(first, second);
  high = max(first, second);
}

__device__ __forceinline__ void load_group(const SparseRows& m, std::int64_t at, float (&v)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = load_value(m.data, m.type, at + i);
}

__device__ __forceinline__ void copy_element(const SparseRows& m, std::int64_t from, void* to,
                                             std::int64_t at) {
  if (m.bytes == 4)
    static_cast<std::uint32_t*>(to)[at] = static_cast<const std::uint32_t*>(m.data)[from];
  else if (m.bytes == 2)
    static_cast<std::uint16_t*>(to)[at] = static_cast<const std::uint16_t*>(m.data)[from];
  else
    static_cast<std::uint8_t*>(to)[at] = static_cast<const std::uint8_t*>(m.data)[from];
}

__global__ void __launch_bounds__(256) prune_groups(const __grid_constant__ SparseRows m) {
  const std::int64_t groups = m.columns / 4;
  for (std::int64_t i = std::int64_t{blockIdx.x} * 256 + threadIdx.x; i < m.rows * groups;
       i += std::int64_t{gridDim.x} * 256) {
    const std::int64_t at = i / groups * m.row_stride + i % groups * 4;
    float v[4];
    load_group(m, at, v);
    int low, high;
    largest_two(v, low, high);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j != low && j != high) store_value(m.data, m.type, at + j, 0.f);
    }
  }
}

// A thread a byte of metadata: two groups, or what pads a row.
__global__ void __launch_bounds__(256)
    compress_groups(const __grid_constant__ SparseRows m,
                    const __grid_constant__ cuda::SparseBuffers to) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * 256 + threadIdx.x;
       i < m.rows * to.metadata_pitch; i += std::int64_t{gridDim.x} * 256) {
    const std::int64_t row = i / to.metadata_pitch, byte = i % to.metadata_pitch;
    unsigned bits = 0;
    for (int half = 0; half < 2; ++half) {
      const std::int64_t column = byte * 8 + half * 4;
      int low = 0, high = 1;
      if (column < m.columns) {
        const std::int64_t at = row * m.row_stride + column;
        float v[4];
        load_group(m, at, v);
        largest_two(v, low, high);
        int present = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) present += v[j] != 0;  // NaN counts
        if (present > 2 && to.first_bad != nullptr)
          atomicMin(to.first_bad, static_cast<unsigned long long>(row * m.columns + column));
        const std::int64_t kept = (row * m.columns + column) / 2;
        copy_element(m, at + low, to.values, kept);
        copy_element(m, at + high, to.values, kept + 1);
      }
      bits |= static_cast<unsigned>(low | high << 2) << 4 * half;
    }
    to.metadata[i] = static_cast<std::uint8_t>(bits);
  }
}

SparseRows checked(const DenseRows& m, const char* operation) {
  ENSURE(is_narrow_float(m.dtype) || is_fp8(m.dtype) || m.dtype == DType::i8, operation,
         " on CUDA: element type ", base::name(m.dtype), " is not supported");
  ENSURE(m.rows >= 0 && m.columns >= 0 && m.columns % 4 == 0, operation, " on CUDA: [", m.rows,
         ", ", m.columns, "], expected a multiple of 4 columns");
  ENSURE(m.data != nullptr || m.rows == 0 || m.columns == 0, operation,
         " on CUDA: the matrix is null");
  return {m.data, m.dtype, static_cast<int>(base::bytes(m.dtype)), m.rows, m.columns, m.row_stride};
}

dim3 blocks_for(std::int64_t count) {
  return dim3(static_cast<unsigned>(std::min<std::int64_t>((count + 255) / 256, 1 << 16)));
}

}  // namespace
}  // namespace gemm_core

namespace gemm_core::cuda {

std::int64_t aligned_metadata_pitch(std::int64_t columns) {
  return ((columns + 7) / 8 + 15) / 16 * 16;
}

void prune_2to4(const DenseRows& matrix, cudaStream_t stream) {
  const SparseRows m = checked(matrix, "prune_2to4");
  base::cuda::launch(prune_groups, {.grid = blocks_for(m.rows * m.columns / 4), .block = dim3(256)},
                     stream, m);
}

void compress_2to4(const DenseRows& matrix, const SparseBuffers& to, cudaStream_t stream) {
  const SparseRows m = checked(matrix, "compress_2to4");
  ENSURE(to.metadata_pitch >= (m.columns + 7) / 8, "compress_2to4 on CUDA: metadata pitch ",
         to.metadata_pitch, " of ", m.columns, " columns");
  if (to.first_bad != nullptr)
    CUDA_CHECK(cudaMemsetAsync(to.first_bad, 0xff, sizeof *to.first_bad, stream));
  if (m.columns == 0) return;
  base::cuda::launch(compress_groups,
                     {.grid = blocks_for(m.rows * to.metadata_pitch), .block = dim3(256)}, stream,
                     m, to);
}

GemmOperand sparse_operand(const DenseRows& matrix, const SparseBuffers& buffers) {
  GemmOperand o;
  o.data = buffers.values;
  o.dtype = matrix.dtype;
  o.row_stride = matrix.columns / 2;
  o.column_stride = 1;
  o.metadata = buffers.metadata;
  o.metadata_pitch = buffers.metadata_pitch;
  return o;
}

}  // namespace gemm_core::cuda

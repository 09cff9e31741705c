// Products of any types and strides without tensor cores: exact fp32, integers of at most 8 bits
// with int32 sums. 128 x 128 tiles, 8 x 8 sums a thread; the next slice of k is on its way in
// registers while one is multiplied.
#pragma once
#include "gemm_core/collective/cuda_operand_loads.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

struct SimtGemmParams {
  DenseOperand a, b;
  std::int64_t k = 0;
  kernel::TileOrder order;
  DenseEpilogue epilogue;
};

struct SimtGemmTile {
  static constexpr int kM = 128, kN = 128, kK = 8, kThreads = 256;
};

// Four elements of a 128 x 8 slice a thread: along k where rows are K-major, else along rows.
template <class Value>
struct SimtSlice {
  static constexpr int kEach = SimtGemmTile::kM * SimtGemmTile::kK / SimtGemmTile::kThreads;
  Value values[kEach];

  __device__ __forceinline__ static void place(const DenseOperand& o, int i, int& row, int& k) {
    const int at = static_cast<int>(threadIdx.x) + i * SimtGemmTile::kThreads;
    const bool along_k = o.k_stride == 1;
    row = along_k ? at / SimtGemmTile::kK : at % SimtGemmTile::kM;
    k = along_k ? at % SimtGemmTile::kK : at / SimtGemmTile::kM;
  }
  __device__ __forceinline__ static Value element(const DenseOperand& o, const void* data,
                                                  std::int64_t at, std::int64_t row,
                                                  std::int64_t k) {
    // What is_plain says of int32 sums: int8.
    using Plain = std::conditional_t<std::is_same_v<Value, std::int32_t>, std::int8_t, Value>;
    return o.is_plain ? static_cast<Value>(static_cast<const Plain*>(data)[at])
                      : converted_operand<Value>(o, data, at, row, k);
  }
  __device__ __forceinline__ void load(const DenseOperand& o, const void* data, std::int64_t first,
                                       std::int64_t k_first, std::int64_t k_count,
                                       std::int64_t batch) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int row, k;
      place(o, i, row, k);
      const bool is_there = first + row < o.rows && k_first + k < k_count;
      values[i] = is_there ? element(o, data, o.offset_of(first + row, k_first + k, batch),
                                     first + row, k_first + k)
                           : Value(0);
    }
  }
  __device__ __forceinline__ void leave(const DenseOperand& o,
                                        Value (&to)[SimtGemmTile::kK][SimtGemmTile::kM]) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int row, k;
      place(o, i, row, k);
      to[k][row] = values[i];
    }
  }
};

template <class Value>
__global__ void __launch_bounds__(SimtGemmTile::kThreads, 2)
    simt_gemm(const __grid_constant__ SimtGemmParams params) {
  using Tile = SimtGemmTile;
  __shared__ Value slice_a[Tile::kK][Tile::kM], slice_b[Tile::kK][Tile::kN];
  const int row = static_cast<int>(threadIdx.x) / 16 * 8;
  // Four columns of each half of the tile: neighbouring threads read neighbouring banks.
  const int column = static_cast<int>(threadIdx.x) % 16 * 4;
  const bool is_odd = threadIdx.x % 2 != 0;

  for (std::uint32_t index = blockIdx.x; index < params.order.count(); index += gridDim.x) {
    const kernel::TileCoord tile = params.order.tile(index);
    const std::int64_t m = std::int64_t{tile.m} * Tile::kM, n = std::int64_t{tile.n} * Tile::kN;
    const void* const a = params.a.data_of(tile.batch);
    const void* const b = params.b.data_of(tile.batch);
    Value sums[8][8] = {};
    SimtSlice<Value> next_a, next_b;
    next_a.load(params.a, a, m, 0, params.k, tile.batch);
    next_b.load(params.b, b, n, 0, params.k, tile.batch);
    for (std::int64_t k = 0; k < params.k; k += Tile::kK) {
      __syncthreads();
      next_a.leave(params.a, slice_a);
      next_b.leave(params.b, slice_b);
      __syncthreads();
      if (k + Tile::kK < params.k) {
        next_a.load(params.a, a, m, k + Tile::kK, params.k, tile.batch);
        next_b.load(params.b, b, n, k + Tile::kK, params.k, tile.batch);
      }
#pragma unroll
      for (int i = 0; i < Tile::kK; ++i) {
        Value x[8], y[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          x[j] = slice_a[i][row + j];
          y[j] = slice_b[i][column + j % 4 + j / 4 * (Tile::kN / 2)];
        }
#pragma unroll
        for (int r = 0; r < 8; ++r) {
#pragma unroll
          for (int c = 0; c < 8; ++c) sums[r][c] += x[r] * y[c];
        }
      }
    }
    // Each row's sums move to the front in turn: one copy of the epilogue's code.
#pragma unroll 1
    for (int r = 0; r < 8; ++r) {
      // Neighbours exchange fours, so that each has eight columns side by side.
      Value run[8];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const Value other = __shfl_xor_sync(~0u, is_odd ? sums[0][c] : sums[0][4 + c], 1);
        run[c] = is_odd ? other : sums[0][c];
        run[4 + c] = is_odd ? sums[0][4 + c] : other;
      }
      const int first = is_odd ? Tile::kN / 2 + column - 4 : column;
      finish_run(params.epilogue, m + row + r, n + first, tile.batch, run);
#pragma unroll
      for (int i = 0; i < 7; ++i) {
#pragma unroll
        for (int c = 0; c < 8; ++c) sums[i][c] = sums[i + 1][c];
      }
    }
  }
}

}  // namespace gemm_core

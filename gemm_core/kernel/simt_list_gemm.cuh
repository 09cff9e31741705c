// Products whose operands' rows and columns lie where lists say, of any types, strides and
// alignment, without tensor cores: what gather_gemm.hpp does not take. 64 x 64 tiles, 4 x 4 sums a
// thread.
#pragma once
#include "gemm_core/collective/cuda_operand_loads.cuh"
#include "gemm_core/collective/slot_list.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

struct PlacedMatrix {
  DenseOperand elements;  // row_stride: between rows, k_stride: between columns
  SlotList rows, columns;
  std::int64_t row_limit = 0, column_limit = 0;

  // The offset of element (i, j), or -1 where it does not exist.
  __device__ __forceinline__ std::int64_t at(std::int64_t i, std::int64_t j,
                                             std::int64_t batch) const {
    const std::int64_t row = rows[i], column = columns[j];
    if (row < 0 || row >= row_limit || column < 0 || column >= column_limit) return -1;
    return elements.offset_of(row, column, batch);
  }
};

struct SimtListParams {
  PlacedMatrix a, b, c, d;  // b: [k, n]
  std::int64_t m = 0, n = 0, k = 0;
  kernel::TileOrder order;
  double alpha = 1, beta = 0;
};

struct SimtListTile {
  static constexpr int kM = 64, kN = 64, kK = 16, kThreads = 256;
};

template <class Value>
__device__ __forceinline__ Value placed_element(const PlacedMatrix& x, std::int64_t i,
                                                std::int64_t j, std::int64_t batch) {
  const std::int64_t at = x.at(i, j, batch);
  if (at < 0) return Value(0);
  const void* const data = x.elements.data_of(batch);
  if constexpr (std::is_same_v<Value, double>)
    return static_cast<const double*>(data)[at];
  else
    return converted_operand<Value>(x.elements, data, at, i, j);
}

template <class Value>
__device__ __forceinline__ void store_placed(const SimtListParams& p, std::int64_t i,
                                             std::int64_t j, std::int64_t batch, Value sum) {
  const std::int64_t at = p.d.at(i, j, batch);
  if (at < 0) return;
  void* const to = const_cast<void*>(p.d.elements.data_of(batch));
  const std::int64_t from = p.beta != 0 ? p.c.at(i, j, batch) : -1;
  const void* const c = p.beta != 0 ? p.c.elements.data_of(batch) : nullptr;
  if constexpr (std::is_same_v<Value, double>) {
    const double addend = from < 0 ? 0 : static_cast<const double*>(c)[from];
    static_cast<double*>(to)[at] = fma(p.beta, addend, p.alpha * sum);
  } else {
    if (std::is_same_v<Value, std::int32_t> && p.d.elements.type == base::DType::i32) {
      // alpha 1, beta 0 or 1; sums wrap.
      const std::uint32_t addend = from < 0 ? 0 : static_cast<const std::uint32_t*>(c)[from];
      static_cast<std::uint32_t*>(to)[at] = static_cast<std::uint32_t>(sum) + addend;
      return;
    }
    float v = static_cast<float>(sum) * static_cast<float>(p.alpha);
    if (from >= 0) v = fmaf(static_cast<float>(p.beta), load_value(c, p.c.elements.type, from), v);
    store_value(to, p.d.elements.type, at, v);
  }
}

template <class Value>
__global__ void __launch_bounds__(SimtListTile::kThreads)
    simt_list_gemm(const __grid_constant__ SimtListParams p) {
  using Tile = SimtListTile;
  __shared__ Value slice_a[Tile::kK][Tile::kM + 1], slice_b[Tile::kK][Tile::kN + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / 16, column = thread % 16;  // every 16th of a tile
  const kernel::TileCoord tile = p.order.tile(blockIdx.x);
  const std::int64_t m = std::int64_t{tile.m} * Tile::kM, n = std::int64_t{tile.n} * Tile::kN;
  Value sums[4][4] = {};
  for (std::int64_t k = 0; k < p.k; k += Tile::kK) {
    __syncthreads();
#pragma unroll
    for (int i = thread; i < Tile::kM * Tile::kK; i += Tile::kThreads) {
      // Neighbouring threads along k in A and along n in B.
      const int ka = i % Tile::kK, ma = i / Tile::kK, kb = i / Tile::kN, nb = i % Tile::kN;
      slice_a[ka][ma] = m + ma < p.m && k + ka < p.k
                            ? placed_element<Value>(p.a, m + ma, k + ka, tile.batch)
                            : Value(0);
      slice_b[kb][nb] = n + nb < p.n && k + kb < p.k
                            ? placed_element<Value>(p.b, k + kb, n + nb, tile.batch)
                            : Value(0);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Tile::kK; ++i) {
#pragma unroll
      for (int x = 0; x < 4; ++x) {
#pragma unroll
        for (int y = 0; y < 4; ++y)
          sums[x][y] += slice_a[i][row + 16 * x] * slice_b[i][column + 16 * y];
      }
    }
  }
#pragma unroll
  for (int x = 0; x < 4; ++x) {
#pragma unroll
    for (int y = 0; y < 4; ++y) {
      const std::int64_t i = m + row + 16 * x, j = n + column + 16 * y;
      if (i < p.m && j < p.n) store_placed(p, i, j, tile.batch, sums[x][y]);
    }
  }
}

}  // namespace gemm_core

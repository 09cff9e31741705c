// Complex products of any strides in plain arithmetic, four multiply-adds a product: 128 x 64
// tiles, 8 x 4 sums a thread; the next slice of k is on its way in registers while one is
// multiplied.
#pragma once
#include "gemm_core/base/complex.hpp"
#include "gemm_core/base/dtype.hpp"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

// A: rows of the product by k; B: columns by k; C, D: rows by columns.
struct ComplexMatrix {
  void* data = nullptr;
  void* const* pointers = nullptr;  // one a batch, instead of data and batch_stride
  std::int64_t row_stride = 0, column_stride = 0, batch_stride = 0, rows = 0;
  bool conjugate = false;
};

struct ComplexGemmParams {
  ComplexMatrix a, b, c, d;
  std::int64_t k = 0;
  kernel::TileOrder order;
  base::complex<double> alpha{1, 0}, beta{};
  base::DType type = base::DType::c64;
};

struct ComplexGemmTile {
  static constexpr int kM = 128, kN = 64, kK = 8, kThreads = 256;
};

template <class Real>
struct ComplexPair;
template <>
struct ComplexPair<float> {
  using Type = float2;
};
template <>
struct ComplexPair<double> {
  using Type = double2;
};

// kEach elements a thread of kRows rows by 8 k, along k where rows lie along it, else along rows.
template <class Real, int kRows>
struct ComplexSlice {
  using Pair = typename ComplexPair<Real>::Type;
  static constexpr int kEach = kRows * ComplexGemmTile::kK / ComplexGemmTile::kThreads;
  Pair values[kEach];

  __device__ __forceinline__ static void place(const ComplexMatrix& o, int i, int& row, int& k) {
    const int at = static_cast<int>(threadIdx.x) + i * ComplexGemmTile::kThreads;
    const bool along_k = o.column_stride == 1;
    row = along_k ? at / ComplexGemmTile::kK : at % kRows;
    k = along_k ? at % ComplexGemmTile::kK : at / kRows;
  }
  __device__ __forceinline__ void load(const ComplexMatrix& o, std::int64_t first,
                                       std::int64_t k_first, std::int64_t k_count,
                                       std::uint32_t batch) {
    const auto* const data =
        static_cast<const Pair*>(o.pointers != nullptr ? o.pointers[batch] : o.data) +
        (o.pointers != nullptr ? 0 : batch * o.batch_stride);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int row, k;
      place(o, i, row, k);
      values[i] = Pair{};
      if (first + row < o.rows && k_first + k < k_count)
        values[i] = data[(first + row) * o.row_stride + (k_first + k) * o.column_stride];
      if (o.conjugate) values[i].y = -values[i].y;
    }
  }
  __device__ __forceinline__ void leave(const ComplexMatrix& o,
                                        Pair (&to)[ComplexGemmTile::kK][kRows]) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      int row, k;
      place(o, i, row, k);
      to[k][row] = values[i];
    }
  }
};

template <class Real>
__global__ void __launch_bounds__(ComplexGemmTile::kThreads, 1)
    simt_complex_gemm(const __grid_constant__ ComplexGemmParams params) {
  using Tile = ComplexGemmTile;
  using Pair = typename ComplexPair<Real>::Type;
  __shared__ Pair slice_a[Tile::kK][Tile::kM], slice_b[Tile::kK][Tile::kN];
  const int row = static_cast<int>(threadIdx.x) / 16 * 8;
  const int column = static_cast<int>(threadIdx.x) % 16;  // and 16, 32, 48 further on

  for (std::uint32_t index = blockIdx.x; index < params.order.count(); index += gridDim.x) {
    const kernel::TileCoord tile = params.order.tile(index);
    const std::int64_t m = std::int64_t{tile.m} * Tile::kM, n = std::int64_t{tile.n} * Tile::kN;
    Pair sums[8][4] = {};
    ComplexSlice<Real, Tile::kM> next_a;
    ComplexSlice<Real, Tile::kN> next_b;
    next_a.load(params.a, m, 0, params.k, tile.batch);
    next_b.load(params.b, n, 0, params.k, tile.batch);
    for (std::int64_t k = 0; k < params.k; k += Tile::kK) {
      __syncthreads();
      next_a.leave(params.a, slice_a);
      next_b.leave(params.b, slice_b);
      __syncthreads();
      if (k + Tile::kK < params.k) {
        next_a.load(params.a, m, k + Tile::kK, params.k, tile.batch);
        next_b.load(params.b, n, k + Tile::kK, params.k, tile.batch);
      }
#pragma unroll
      for (int i = 0; i < Tile::kK; ++i) {
        Pair x[8], y[4];
#pragma unroll
        for (int r = 0; r < 8; ++r) x[r] = slice_a[i][row + r];
#pragma unroll
        for (int c = 0; c < 4; ++c) y[c] = slice_b[i][column + 16 * c];
#pragma unroll
        for (int r = 0; r < 8; ++r) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            Pair& sum = sums[r][c];
            sum.x = fma(x[r].x, y[c].x, sum.x);
            sum.y = fma(x[r].x, y[c].y, sum.y);
            sum.x = fma(-x[r].y, y[c].y, sum.x);
            sum.y = fma(x[r].y, y[c].x, sum.y);
          }
        }
      }
    }
    // D = alpha * sum + beta * C.
    const auto at = [&](const ComplexMatrix& o, std::int64_t r, std::int64_t c) {
      auto* const data =
          static_cast<Pair*>(o.pointers != nullptr ? o.pointers[tile.batch] : o.data);
      return data + (o.pointers != nullptr ? 0 : tile.batch * o.batch_stride) + r * o.row_stride +
             c * o.column_stride;
    };
    const auto product = [](const base::complex<double>& f, Pair v) {
      const auto real = static_cast<Real>(f.real), imag = static_cast<Real>(f.imag);
      return Pair{real * v.x - imag * v.y, real * v.y + imag * v.x};
    };
    const bool adds = params.beta.real != 0 || params.beta.imag != 0;
#pragma unroll
    for (int r = 0; r < 8; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const std::int64_t i = m + row + r, j = n + column + 16 * c;
        if (i >= params.a.rows || j >= params.b.rows) continue;
        Pair v = product(params.alpha, sums[r][c]);
        if (adds) {
          const Pair addend = product(params.beta, *at(params.c, i, j));
          v.x += addend.x;
          v.y += addend.y;
        }
        *at(params.d, i, j) = v;
      }
    }
  }
}

}  // namespace gemm_core

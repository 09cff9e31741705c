// Products by mma.sync, for GPUs from sm_80 on and for whatever the faster kernels of an
// architecture do not take: 128 x 128 tiles, eight warps of 64 x 32, three stages.
#pragma once
#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/collective/sm80_stage.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

struct Sm80GemmParams {
  DenseOperand a, b;
  std::int64_t k = 0;
  kernel::TileOrder order;
  DenseEpilogue epilogue;
};

// The 64 x 32 sums of a warp: sums[i][j] are those of an m16n8 instruction.
template <class Config>
struct Sm80WarpTile {
  using Element = typename Config::Element;
  using Sum = typename Config::Sum;
  int warp_m, warp_n, lane;

  // sums += the products of the stage at `from`.
  __device__ __forceinline__ void multiply(std::uint32_t from, Sum (&sums)[4][4][4]) const {
    if constexpr (Config::kIsDouble)
      multiply_doubles(from, sums);
    else
      multiply_matrices(from, sums);
  }

 private:
  __device__ __forceinline__ void multiply_matrices(std::uint32_t from,
                                                    Sum (&sums)[4][4][4]) const {
    // ldmatrix: lane l gives a row of matrix l / 8. A: (rows, k), (rows + 8, k), (rows, k + 16
    // bytes), (rows + 8, k + 16 bytes); B: (columns, k), (columns, k + 16 bytes), (columns + 8, k)
    // and (columns + 8, k + 16 bytes).
    const std::uint32_t from_a = from + (warp_m + lane % 16) * Config::kPitch + lane / 16 * 16;
    const std::uint32_t from_b = from + Config::kOperandBytes +
                                 (warp_n + lane / 16 * 8 + lane % 8) * Config::kPitch +
                                 lane / 8 % 2 * 16;
#pragma unroll
    for (int k = 0; k < Config::kSpanBytes; k += 32) {
      std::uint32_t x[4][4], y[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) ptx::load_matrices(x[i], from_a + i * 16 * Config::kPitch + k);
#pragma unroll
      for (int j = 0; j < 2; ++j) ptx::load_matrices(y[j], from_b + j * 16 * Config::kPitch + k);
      if constexpr (std::is_same_v<Element, base::tf32_t>) {
        const auto round = [](std::uint32_t& v) {
          v = __float_as_uint(round_tf32(__uint_as_float(v)));
        };
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            round(x[i][w]);
            if (i < 2) round(y[i][w]);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::uint32_t pair[2] = {y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]};
          Config::Mma::multiply(sums[i][j], x[i], pair);
        }
      }
    }
  }

  static __device__ __forceinline__ double load_double(std::uint32_t from) {
    return *static_cast<const double*>(__cvta_shared_to_generic(from));
  }

  // Lane l holds row l / 4 (and + 8), k l % 4 (and + 4).
  __device__ __forceinline__ void multiply_doubles(std::uint32_t from, Sum (&sums)[4][4][4]) const {
    const std::uint32_t at = lane / 4 * Config::kPitch + lane % 4 * 8;
    const std::uint32_t from_a = from + warp_m * Config::kPitch + at;
    const std::uint32_t from_b = from + Config::kOperandBytes + warp_n * Config::kPitch + at;
#pragma unroll
    for (int k = 0; k < Config::kSpanBytes; k += 64) {
      double x[4][4], y[4][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int v = 0; v < 4; ++v)
          x[i][v] = load_double(from_a + (i * 16 + v % 2 * 8) * Config::kPitch + k + v / 2 * 32);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int v = 0; v < 2; ++v)
          y[j][v] = load_double(from_b + j * 8 * Config::kPitch + k + v * 32);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) Config::Mma::multiply(sums[i][j], x[i], y[j]);
      }
    }
  }
};

template <class Element>
__global__ void __launch_bounds__(256, sizeof(Element) == 8 ? 1 : 2)
    sm80_gemm(const __grid_constant__ Sm80GemmParams params) {
  using Config = Sm80GemmConfig<Element>;
  using Stage = Sm80Stage<Config>;
  using Sum = typename Config::Sum;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t stages = ptx::shared_address(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_m = warp / 4 * 64, warp_n = warp % 4 * 32;
  const Sm80WarpTile<Config> warp_tile{warp_m, warp_n, lane};

  for (std::uint32_t index = blockIdx.x; index < params.order.count(); index += gridDim.x) {
    const kernel::TileCoord tile = params.order.tile(index);
    const std::int64_t m = std::int64_t{tile.m} * Config::kTileM;
    const std::int64_t n = std::int64_t{tile.n} * Config::kTileN;
    const void* const a = params.a.data_of(tile.batch);
    const void* const b = params.b.data_of(tile.batch);
    const std::int64_t slices = (params.k + Config::kStageK - 1) / Config::kStageK;
    const auto fill = [&](std::int64_t slice) {
      if (slice < slices) {
        const std::uint32_t to = stages + slice % Config::kStages * Config::kStageBytes;
        Stage::fill(params.a, a, m, slice * Config::kStageK, params.k, tile.batch, to);
        Stage::fill(params.b, b, n, slice * Config::kStageK, params.k, tile.batch,
                    to + Config::kOperandBytes);
      }
      ptx::commit_copies();
    };

    Sum sums[4][4][4] = {};
    for (int i = 0; i < Config::kStages - 1; ++i) fill(i);
#pragma unroll 1
    for (std::int64_t slice = 0; slice < slices; ++slice) {
      ptx::wait_copies<Config::kStages - 2>();
      __syncthreads();
      fill(slice + Config::kStages - 1);
      const std::uint32_t from = stages + slice % Config::kStages * Config::kStageBytes;
      warp_tile.multiply(from, sums);
    }
    ptx::wait_all_copies();

    // Results: the rows of one half of the warps at a time.
    Sum* const out = reinterpret_cast<Sum*>(shared);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      __syncthreads();
      if (warp_m == half * 64) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {
              const int r = i * 16 + lane / 4 + v / 2 * 8;
              out[r * Config::kSumPitch + warp_n + j * 8 + lane % 4 * 2 + v % 2] = sums[i][j][v];
            }
          }
        }
      }
      __syncthreads();
      constexpr int kRuns = Config::kTileN / kDenseRun;
      for (int i = static_cast<int>(threadIdx.x); i < 64 * kRuns; i += Config::kThreads) {
        const int r = params.epilogue.rows_first ? i % 64 : i / kRuns;
        const int run = params.epilogue.rows_first ? i / 64 : i % kRuns;
        Sum values[kDenseRun];
#pragma unroll
        for (int v = 0; v < kDenseRun; ++v)
          values[v] = out[r * Config::kSumPitch + run * kDenseRun + v];
        finish_run(params.epilogue, m + half * 64 + r, n + run * kDenseRun, tile.batch, values);
      }
    }
    __syncthreads();
  }
}

}  // namespace gemm_core

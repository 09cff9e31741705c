// A warp's share of a 128 x 128 tile of products by mma.sync, and the block's loop over stages that
// cp.async fills (sm80_stage.cuh).
#pragma once
#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/collective/sm80_stage.cuh"

namespace gemm_core {

// The 64 x 32 sums of a warp: sums[i][j] are those of an m16n8 instruction.
template <class Config>
struct Sm80WarpTile {
  using Element = typename Config::Element;
  using Sum = typename Config::Sum;
  int warp_m, warp_n, lane;

  // Of this thread: eight warps, four along n.
  static __device__ __forceinline__ Sm80WarpTile own() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return {warp / 4 * 64, warp % 4 * 32, static_cast<int>(threadIdx.x) % 32};
  }

  // sums += the products of the stage at `from`.
  __device__ __forceinline__ void multiply(std::uint32_t from, Sum (&sums)[4][4][4]) const {
    if constexpr (Config::kIsDouble)
      multiply_doubles(from, sums);
    else
      multiply_matrices(from, sums);
  }

  // Half 0 or 1 of the tile's rows (64) into shared memory, row by row, by the warps that hold
  // them.
  __device__ __forceinline__ void store_half(int half, const Sum (&sums)[4][4][4], Sum* out) const {
    if (warp_m != half * 64) return;
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

// sums += the products of `slices` slices of k. fill(slice, stage) starts the copies of both
// operands into a stage. All threads of the block; shared memory is free to be written behind the
// next barrier.
template <class Config, class Fill>
__device__ __forceinline__ void sm80_multiply(std::uint32_t stages, std::int64_t slices,
                                              const Sm80WarpTile<Config>& warp_tile,
                                              typename Config::Sum (&sums)[4][4][4],
                                              const Fill& fill) {
  const auto start = [&](std::int64_t slice) {
    if (slice < slices) fill(slice, stages + slice % Config::kStages * Config::kStageBytes);
    ptx::commit_copies();
  };
#pragma unroll 1
  for (int i = 0; i < Config::kStages - 1; ++i) start(i);
#pragma unroll 1
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    ptx::wait_copies<Config::kStages - 2>();
    __syncthreads();
    start(slice + Config::kStages - 1);
    warp_tile.multiply(stages + slice % Config::kStages * Config::kStageBytes, sums);
  }
  ptx::wait_all_copies();
}

}  // namespace gemm_core

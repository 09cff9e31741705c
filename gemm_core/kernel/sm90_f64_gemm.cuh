// fp64 products on Hopper by mma.sync m16n8k16: 128 x 128 tiles by TMA into swizzled stages of 16
// k, eight consumer warps of 64 x 32 that meet at the mbarriers of stages only, one producer thread
// that runs ahead over tiles.
//
// Which rows of an operand the places of an instruction take is free, as long as the results go
// where they belong: blocks of 16 rows are permuted so that the 16 lanes of half a load lie in
// different banks.
#pragma once
#include "gemm_core/atom/sm90_descriptor.hpp"
#include "gemm_core/atom/sm90_tma.cuh"
#include "gemm_core/epilogue/cuda/dense_epilogue.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

struct Sm90F64Params {
  CUtensorMap a, b;  // [batch][rows][k] or [batch][k][rows]
  int batch_step_a = 1, batch_step_b = 1;
  int k_stages = 0;
  kernel::TileOrder order;
  DenseEpilogue epilogue;
};

struct Sm90F64Tile {
  static constexpr int kM = 128, kN = 128, kStageK = 16, kStages = 6, kConsumerWarps = 8;
  static constexpr int kThreads = (kConsumerWarps + 4) * 32;  // registers move by warpgroups
  static constexpr int kOperandBytes = kM * kStageK * 8, kStageBytes = 2 * kOperandBytes;
  static constexpr int kSharedBytes = 1024 + kStages * (kStageBytes + 16);
  static constexpr int kBox = 16;  // doubles of a line; MN-major: boxes of 16 rows by 16 k
};

// One operand of a stage: 128 rows by 16 k.
template <bool kKMajor>
struct F64Fragments {
  // The row of 16 that a place of 16 takes. K-major: rows 2 apart are 32 bytes apart after
  // swizzling, as wide as four lanes' k. MN-major: rows 8 apart are as far as four lines of k.
  static __device__ __forceinline__ int row_of(int place) {
    const int g = place % 8;
    return kKMajor ? place / 8 * 8 + g % 4 * 2 + g / 4
                   : place / 8 * 4 + g % 2 + g / 2 % 2 * 8 + g / 4 * 2;
  }

  // v[i]: k q + 4 * i of the row of a place, q being the thread's in its group of four; `block`:
  // of 16 rows.
  static __device__ __forceinline__ void load(std::uint32_t from, int block, int place, int q,
                                              double (&v)[4]) {
    const int row = row_of(place);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = q + 4 * i;
      const std::uint32_t at = kKMajor
                                   ? static_cast<std::uint32_t>(block) * (16 * 128) +
                                         swizzled_offset<128>(static_cast<std::uint32_t>(row),
                                                              static_cast<std::uint32_t>(k / 2)) +
                                         k % 2 * 8
                                   : static_cast<std::uint32_t>(block) * (16 * 128) +
                                         swizzled_offset<128>(static_cast<std::uint32_t>(k),
                                                              static_cast<std::uint32_t>(row / 2)) +
                                         row % 2 * 8;
      asm volatile("ld.shared.f64 %0, [%1];" : "=d"(v[i]) : "r"(from + at) : "memory");
    }
  }
};

// sums[16, 8] += A[16, 16] * B[8, 16]^T. high, low: rows g and g + 8 of A.
__device__ __forceinline__ void multiply_f64(double (&d)[4], const double (&low)[4],
                                             const double (&high)[4], const double (&b)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, "
      "%9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(low[0]), "d"(high[0]), "d"(low[1]), "d"(high[1]), "d"(low[2]), "d"(high[2]),
        "d"(low[3]), "d"(high[3]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}

__device__ __forceinline__ void store_f64(const DenseEpilogue& e, std::int64_t row,
                                          std::int64_t column, std::int64_t batch, double sum) {
  if (row >= e.m || column >= e.n) return;
  double v = sum * e.alpha_64;
  if (e.beta_64 != 0) {
    const auto* const c = static_cast<const double*>(data_of(e.c, batch));
    v = fma(e.beta_64, c[offset_of(e.c, row, column, batch)], v);
  }
  static_cast<double*>(data_of(e.d, batch))[offset_of(e.d, row, column, batch)] = v;
}

template <bool kKMajorA, bool kKMajorB>
__global__ void __launch_bounds__(Sm90F64Tile::kThreads, 1)
    sm90_f64_gemm(const __grid_constant__ Sm90F64Params params) {
  using Tile = Sm90F64Tile;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t stages = (ptx::shared_address(shared) + 1023) & ~1023u;
  const std::uint32_t full = stages + Tile::kStages * Tile::kStageBytes;
  const std::uint32_t empty = full + 8 * Tile::kStages;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Tile::kStages; ++i) {
      ptx::barrier_init(full + 8 * i, 1);
      ptx::barrier_init(empty + 8 * i, Tile::kConsumerWarps);
    }
    ptx::barrier_init_fence();
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int stage = 0;
  std::uint32_t parity = 0;
  const auto advance = [&] {
    if (++stage == Tile::kStages) {
      stage = 0;
      parity ^= 1;
    }
  };

  if (warp >= Tile::kConsumerWarps) {
    // Producer.
    ptx::release_registers_to<40>();
    if (warp != Tile::kConsumerWarps || lane != 0) return;
    parity = 1;
    for (std::uint32_t index = blockIdx.x; index < params.order.count(); index += gridDim.x) {
      const kernel::TileCoord tile = params.order.tile(index);
      const auto load = [&](const CUtensorMap& map, bool k_major, int first, int k, int batch,
                            std::uint32_t to) {
        if (k_major) {
          ptx::tma_load_3d(to, &map, full + 8 * stage, k, first, batch);
        } else {
          for (int box = 0; box < Tile::kM / Tile::kBox; ++box)
            ptx::tma_load_3d(to + box * (16 * 128), &map, full + 8 * stage,
                             first + box * Tile::kBox, k, batch);
        }
      };
      for (int i = 0; i < params.k_stages; ++i) {
        ptx::barrier_wait(empty + 8 * stage, parity);
        ptx::barrier_arrive_expect(full + 8 * stage, Tile::kStageBytes);
        const std::uint32_t to = stages + stage * Tile::kStageBytes;
        const int k = i * Tile::kStageK, batch = static_cast<int>(tile.batch);
        load(params.a, kKMajorA, static_cast<int>(tile.m) * Tile::kM, k,
             batch * params.batch_step_a, to);
        load(params.b, kKMajorB, static_cast<int>(tile.n) * Tile::kN, k,
             batch * params.batch_step_b, to + Tile::kOperandBytes);
        advance();
      }
    }
    return;
  }

  // Consumers.
  ptx::claim_registers_to<232>();
  using A = F64Fragments<kKMajorA>;
  using B = F64Fragments<kKMajorB>;
  const int warp_m = warp / 4 * 64, warp_n = warp % 4 * 32, g = lane / 4, q = lane % 4;
  for (std::uint32_t index = blockIdx.x; index < params.order.count(); index += gridDim.x) {
    double sums[4][4][4] = {};
#pragma unroll 1
    for (int i = 0; i < params.k_stages; ++i) {
      ptx::barrier_wait(full + 8 * stage, parity);
      const std::uint32_t from = stages + stage * Tile::kStageBytes;
      double b[4][4];
#pragma unroll
      for (int n = 0; n < 4; ++n)
        B::load(from + Tile::kOperandBytes, warp_n / 16 + n / 2, n % 2 * 8 + g, q, b[n]);
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        double low[4], high[4];
        A::load(from, warp_m / 16 + m, g, q, low);
        A::load(from, warp_m / 16 + m, g + 8, q, high);
#pragma unroll
        for (int n = 0; n < 4; ++n) multiply_f64(sums[m][n], low, high, b[n]);
      }
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(empty + 8 * stage);
      advance();
    }
    const kernel::TileCoord tile = params.order.tile(index);
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const std::int64_t row =
            std::int64_t{tile.m} * Tile::kM + warp_m + m * 16 + A::row_of(v / 2 * 8 + g);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const std::int64_t column = std::int64_t{tile.n} * Tile::kN + warp_n + n / 2 * 16 +
                                      B::row_of(n % 2 * 8 + 2 * q + v % 2);
          store_f64(params.epilogue, row, column, tile.batch, sums[m][n][v]);
        }
      }
    }
  }
}

}  // namespace gemm_core

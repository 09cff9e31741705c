// Numbers of rows of all levels of a pyramid through each word of bits, by one thread block: there
// are few words, and a scan by the whole GPU takes two launches and three times as long.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"
#include "sparseconv/cuda/maps/coordinate_steps.cuh"
#include "sparseconv/cuda/overlap.cuh"

namespace sparseconv::cuda {

inline constexpr int kScanThreads = 1024, kScanWarps = kScanThreads / kWarp, kScanRounds = 4;
inline constexpr std::int32_t kScanTile = kScanThreads * kScanRounds;
inline constexpr std::int32_t kMostScannedWords = 4 * kScanTile;
static_assert(kMaxHalvings == 4 && kScanWarps == kWarp);

template <int = 0>
__global__ void __launch_bounds__(kScanThreads, 1)
    scan_levels(const LevelBits* bits, LevelRows* sums, std::int32_t words) {
  // Two levels a number of 16 bits each: a warp's words have at most 4096 rows.
  __shared__ uint2 of_warps[kScanWarps];
  static_assert(kScanRounds * kWarp * 32 <= 0xffff);
  wait_and_go_on();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  LevelRows carry{};
  for (std::int32_t first = 0; first < words; first += kScanTile) {
    const std::int32_t begin = first + warp * kScanRounds * kWarp + lane;
    uint2 through[kScanRounds];
#pragma unroll
    for (int j = 0; j < kScanRounds; ++j) {
      const LevelBits word = begin + j * kWarp < words ? bits[begin + j * kWarp] : LevelBits{};
      through[j].x = __popc(word.word[0]) | __popc(word.word[1]) << 16;
      through[j].y = __popc(word.word[2]) | __popc(word.word[3]) << 16;
    }
    uint2 all{0, 0};
#pragma unroll
    for (int j = 0; j < kScanRounds; ++j) {
#pragma unroll
      for (int step = 1; step < kWarp; step *= 2) {
        const std::uint32_t x = __shfl_up_sync(~0u, through[j].x, step),
                            y = __shfl_up_sync(~0u, through[j].y, step);
        if (lane >= step) {
          through[j].x += x;
          through[j].y += y;
        }
      }
      through[j].x += all.x;
      through[j].y += all.y;
      all.x = __shfl_sync(~0u, through[j].x, kWarp - 1);
      all.y = __shfl_sync(~0u, through[j].y, kWarp - 1);
    }
    if (lane == 0) of_warps[warp] = all;
    __syncthreads();
    const uint2 other = of_warps[lane];
    const std::uint32_t rows[kMaxHalvings] = {other.x & 0xffff, other.x >> 16, other.y & 0xffff,
                                              other.y >> 16};
    LevelRows before = carry;
#pragma unroll
    for (int l = 0; l < kMaxHalvings; ++l) {
      before.row[l] += static_cast<std::int32_t>(__reduce_add_sync(~0u, lane < warp ? rows[l] : 0));
      carry.row[l] += static_cast<std::int32_t>(__reduce_add_sync(~0u, rows[l]));
    }
    __syncthreads();  // all have read them
#pragma unroll
    for (int j = 0; j < kScanRounds; ++j) {
      const std::uint32_t mine[kMaxHalvings] = {through[j].x & 0xffff, through[j].x >> 16,
                                                through[j].y & 0xffff, through[j].y >> 16};
      LevelRows sum = before;
#pragma unroll
      for (int l = 0; l < kMaxHalvings; ++l) sum.row[l] += static_cast<std::int32_t>(mine[l]);
      if (begin + j * kWarp < words) sums[begin + j * kWarp] = sum;
    }
  }
}

}  // namespace sparseconv::cuda

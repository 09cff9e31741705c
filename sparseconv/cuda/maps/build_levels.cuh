// Numbers the rows of all levels of a pyramid in one launch: each block counts those that begin in
// its rows, says how many, and adds what the blocks before it say. Blocks start in turn, so those
// that one waits for do not wait for it.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"
#include "sparseconv/cuda/maps/coordinate_steps.cuh"
#include "sparseconv/cuda/overlap.cuh"

namespace sparseconv::cuda {

namespace levels {

// Counts of a block, and that they are said, in one number, so that they come together.
inline constexpr int kCountBits = 12;
static_assert(kLevelRows < 1 << kCountBits && kMaxHalvings * kCountBits < 63);
inline constexpr std::uint64_t kIsSaid = std::uint64_t{1} << 63;

__device__ inline std::uint64_t said(const LevelRows& rows) {
  std::uint64_t value = kIsSaid;
#pragma unroll
  for (int l = 0; l < kMaxHalvings; ++l)
    value |= static_cast<std::uint64_t>(rows.row[l]) << (l * kCountBits);
  return value;
}
__device__ inline LevelRows heard(const std::uint64_t* from) {
  std::uint64_t value = 0;
  while ((value & kIsSaid) == 0) value = *static_cast<const volatile std::uint64_t*>(from);
  LevelRows rows;
#pragma unroll
  for (int l = 0; l < kMaxHalvings; ++l)
    rows.row[l] = static_cast<std::int32_t>(value >> (l * kCountBits) & ((1 << kCountBits) - 1));
  return rows;
}

// Sums over the block: of the warps before this one, and of all. Barriers within.
__device__ inline void add_up(const LevelRows& of_warp, LevelRows& before, LevelRows& all) {
  constexpr int kWarps = kLevelRows / kWarp;
  static_assert(kWarps == kWarp);
  __shared__ LevelRows of_warps[kWarps];
  const int lane = static_cast<int>(threadIdx.x % kWarp),
            warp = static_cast<int>(threadIdx.x / kWarp);
  if (lane == 0) of_warps[warp] = of_warp;
  __syncthreads();
  const LevelRows others = of_warps[lane];
#pragma unroll
  for (int l = 0; l < kMaxHalvings; ++l) {
    before.row[l] = __reduce_add_sync(~0u, lane < warp ? others.row[l] : 0);
    all.row[l] = __reduce_add_sync(~0u, others.row[l]);
  }
  __syncthreads();  // all have read them
}

}  // namespace levels

template <int = 0>
__global__ void __launch_bounds__(kLevelRows)
    build_levels(const __grid_constant__ Pyramid pyramid) {
  wait_and_go_on();
  const std::int32_t rows = pyramid.source.size();
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  if (std::int64_t{block} * kLevelRows >= rows) return;
  const std::int32_t i = block * kLevelRows + static_cast<std::int32_t>(threadIdx.x);
  LevelBits bits{};
  pyramid.mark(i, i < rows,
               [&](int level, bool begins) { bits.word[level] = __ballot_sync(~0u, begins); });
  LevelRows mine, earlier, all;
#pragma unroll
  for (int l = 0; l < kMaxHalvings; ++l) mine.row[l] = __popc(bits.word[l]);
  levels::add_up(mine, earlier, all);
  if (threadIdx.x == 0)
    *static_cast<volatile std::uint64_t*>(pyramid.counts + block) = levels::said(all);

  LevelRows others{};
  for (std::int32_t other = static_cast<std::int32_t>(threadIdx.x); other < block;
       other += kLevelRows)
    others = others + levels::heard(pyramid.counts + other);
#pragma unroll
  for (int l = 0; l < kMaxHalvings; ++l) others.row[l] = __reduce_add_sync(~0u, others.row[l]);
  LevelRows unused, before;
  levels::add_up(others, unused, before);
  if (i < rows) pyramid.build(i, bits, before + earlier + mine);
}

inline void build_levels_of(const Pyramid& pyramid, cudaStream_t stream) {
  base::cuda::launch(
      build_levels<>,
      {.grid = dim3(static_cast<unsigned>((pyramid.source.capacity + kLevelRows - 1) / kLevelRows)),
       .block = dim3(kLevelRows),
       .overlap = true},
      stream, pyramid);
}

}  // namespace sparseconv::cuda

// Marks strided sets block by block (plain_marks.cuh): a warp takes some blocks of the source and
// shares out the blocks that they give among its threads.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"
#include "sparseconv/cuda/maps/plain_marks.cuh"
#include "sparseconv/cuda/maps/warp_items.cuh"
#include "sparseconv/cuda/overlap.cuh"

namespace sparseconv::cuda {

inline constexpr int kMarkThreads = 256;
// Blocks of the source that a warp takes: they give two to three each, and each takes long.
inline constexpr int kMarkedAtOnce = 16;

template <class T>
__device__ inline T of_lane(const T& value, int lane) {
  static_assert(sizeof(T) % sizeof(std::uint32_t) == 0);
  T theirs;
  const auto* const from = reinterpret_cast<const std::uint32_t*>(&value);
  auto* const to = reinterpret_cast<std::uint32_t*>(&theirs);
#pragma unroll
  for (unsigned i = 0; i < sizeof(T) / sizeof(std::uint32_t); ++i)
    to[i] = __shfl_sync(~0u, from[i], lane);
  return theirs;
}

template <int = 0>
__global__ void __launch_bounds__(kMarkThreads, 4)
    mark_blocks(const __grid_constant__ PlainMarks marks) {
  wait_and_go_on();
  const int lane = threadIdx.x % kWarp;
  const std::int32_t used = lane < marks.count ? *marks[lane].source.used : 0;
  const std::int32_t through = through_lanes((used + kMarkedAtOnce - 1) / kMarkedAtOnce, lane);
  const std::int32_t total = __shfl_sync(~0u, through, kWarp - 1);
  const std::int32_t warps = gridDim.x * (kMarkThreads / kWarp);
  for (std::int32_t at = (blockIdx.x * kMarkThreads + threadIdx.x) / kWarp; at < total;
       at += warps) {
    const int job = __popc(__ballot_sync(~0u, through <= at));
    const std::int32_t before = __shfl_sync(~0u, through, job > 0 ? job - 1 : 0);
    const std::int32_t blocks_of_job = __shfl_sync(~0u, used, job);
    const PlainMark& mark = marks[job];
    const std::int32_t block = (at - (job > 0 ? before : 0)) * kMarkedAtOnce + lane;
    BlockSpan span{};
    if (lane < kMarkedAtOnce && block < blocks_of_job) {
      const BlockHead head = mark.source.entries[mark.source.list[block]].head;
      span = BlockSpan::of(mark, head.id, mark.is_marked != 0 ? ~head.mask : head.mask);
    }
    const std::int32_t through_blocks = through_lanes(span.blocks, lane);
    const std::int32_t items = __shfl_sync(~0u, through_blocks, kWarp - 1);
    for (std::int32_t item = lane; item < items + lane; item += kWarp) {
      int owner = 0;
#pragma unroll
      for (int step = kWarp / 2; step > 0; step /= 2) {
        if (__shfl_sync(~0u, through_blocks, owner + step - 1) <= item) owner += step;
      }
      const BlockSpan theirs = of_lane(span, owner);
      const std::int32_t begin = __shfl_sync(~0u, through_blocks - span.blocks, owner);
      if (item < items) theirs.put(mark, item - begin);
    }
  }
}

inline void mark_blocks_of(const PlainMarks& marks, cudaStream_t stream) {
  std::int64_t warps = 0;
  for (int job = 0; job < marks.count; ++job) warps += marks[job].source.slots / kMarkedAtOnce + 1;
  const std::int64_t needed = warps / (kMarkThreads / kWarp) + 1;
  constexpr std::int64_t kMost = 4 * 132;  // what an H200 holds
  base::cuda::launch(mark_blocks<>,
                     {.grid = dim3(static_cast<unsigned>(needed < kMost ? needed : kMost)),
                      .block = dim3(kMarkThreads),
                      .overlap = true},
                     stream, marks);
}

}  // namespace sparseconv::cuda

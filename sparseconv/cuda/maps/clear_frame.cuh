// What a frame's maps begin with, in one launch: two copies and a step take three times as long.
#pragma once
#include "gemm_core/base/cuda/launch.cuh"
#include "sparseconv/cuda/arena.hpp"
#include "sparseconv/cuda/maps/coordinate_steps.cuh"
#include "sparseconv/cuda/overlap.cuh"

namespace sparseconv::cuda {

// Regions `ones` and `zeros` of an arena, in which the count stands.
struct ClearedFrame {
  std::uint8_t *ones, *zeros;
  std::int64_t ones_bytes, zeros_bytes;  // of whole vectors
  SetCount count;
};

template <int = 0>
__global__ void __launch_bounds__(256) clear_frame(const __grid_constant__ ClearedFrame frame) {
  wait_and_go_on();
  constexpr auto kVector = static_cast<std::int64_t>(sizeof(uint4));
  const std::int64_t first = kVector * (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x),
                     step = kVector * gridDim.x * blockDim.x;
  for (std::int64_t at = first; at < frame.ones_bytes; at += step)
    *reinterpret_cast<uint4*>(frame.ones + at) = uint4{~0u, ~0u, ~0u, ~0u};
  const std::int64_t of_count = reinterpret_cast<std::uint8_t*>(frame.count.count) - frame.zeros;
  for (std::int64_t at = first; at < frame.zeros_bytes; at += step) {
    *reinterpret_cast<uint4*>(frame.zeros + at) = uint4{0, 0, 0, 0};
    if (of_count / kVector == at / kVector) frame.count(0, 0, true);
  }
}

inline void clear_frame_of(const Arena& arena, const SetCount& count, cudaStream_t stream) {
  const auto& used = arena.used();
  const ClearedFrame frame{arena.begin(Arena::ones), arena.begin(Arena::zeros),
                           static_cast<std::int64_t>(used[Arena::ones]),
                           static_cast<std::int64_t>(used[Arena::zeros]), count};
  constexpr unsigned kBlocks = 8 * 132;  // what an H200 holds
  base::cuda::launch(clear_frame<>, {.grid = dim3(kBlocks), .block = dim3(256), .overlap = true},
                     stream, frame);
}

}  // namespace sparseconv::cuda

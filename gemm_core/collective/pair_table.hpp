// The pairs of a kernel map as lists, one a tap: what the gradient of a convolution's weights sums
// over. Device pointers; the struct is trivially copyable and travels as a kernel argument.
#pragma once
#include <cstdint>

#include "gemm_core/base/host_device.hpp"

namespace gemm_core {

inline constexpr int kPairBlock = 64;  // pairs of one step; each tap's list fills whole blocks

struct PairTable {
  std::int32_t taps = 0;
  // [capacity] rows of the convolution's input and output, tap after tap, in order of the output
  // rows; -1 in both fills up the last block of a tap.
  const std::int32_t* inputs = nullptr;
  const std::int32_t* outputs = nullptr;
  const std::int32_t* tap_begin = nullptr;  // [taps + 1], multiples of kPairBlock
};

// The blocks of all taps are dealt in order and in equal shares to as many workers as there are, at
// most one a block: worker w takes those from first_block(w) on. A tap's sum is then made of few
// pieces, in an order that sizes alone decide. The piece of worker w and tap t is number w + t.
struct PairShares {
  std::int64_t blocks, workers;
  BASE_HD PairShares(std::int32_t all_blocks, std::int32_t most_workers)
      : blocks(all_blocks), workers(all_blocks < most_workers ? all_blocks : most_workers) {}
  BASE_HD std::int32_t first_block(int worker) const {
    return static_cast<std::int32_t>(worker < workers ? blocks * worker / workers : blocks);
  }
  BASE_HD int worker_of(std::int32_t block) const {
    return static_cast<int>(((block + std::int64_t{1}) * workers - 1) / blocks);
  }
};

}  // namespace gemm_core

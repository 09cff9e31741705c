// What the kernels of a convolution's weight gradient share: operands, which pairs a thread block
// takes, and where its partial sums go. dw[co][tap][ci] = sum over pairs of gradient[out][co] *
// input[in][ci]: M = output channels, N = input channels, K = pairs.
#pragma once
#include <cuda_runtime.h>

#include "gemm_core/collective/pair_table.hpp"

namespace gemm_core {

// One operand: rows that pairs name.
struct PairRows {
  const void* data = nullptr;
  std::int64_t pitch = 0;  // elements
};

struct WeightGradientParams {
  PairRows input, gradient;
  PairTable pairs;
  std::int32_t cin = 0, cout = 0, groups = 1;
  // [blocks of the grid's y][workers + taps][tile_m][tile_n]; piece w + t is worker w's of tap t.
  float* pieces = nullptr;
  std::int32_t workers = 1;  // grid.x
};

// A tile of a tap's matrix: rows of output channels, columns of input channels, of one group.
// grid.y runs over groups, then blocks of rows, then blocks of columns.
struct WeightTile {
  int group_cout, group_cin, column_blocks, row_blocks;
  __host__ __device__ WeightTile(int cout, int cin, int groups, int tile_m, int tile_n)
      : group_cout(cout / groups),
        group_cin(cin / groups),
        column_blocks((group_cin + tile_n - 1) / tile_n),
        row_blocks((group_cout + tile_m - 1) / tile_m) {}
  __host__ __device__ int per_group() const { return row_blocks * column_blocks; }
};

// The blocks of pairs of one worker, tap by tap.
class PairWalk {
 public:
  __device__ __forceinline__ PairWalk(const PairTable& pairs, int worker, int workers)
      : pairs_(pairs), tap_(0) {
    const PairShares shares(__ldg(pairs.tap_begin + pairs.taps) / kPairBlock, workers);
    at_ = shares.first_block(worker);
    last_ = shares.first_block(worker + 1);
  }
  __device__ __forceinline__ int first() const { return at_; }
  __device__ __forceinline__ int last() const { return last_; }
  __device__ __forceinline__ int tap() const { return tap_; }
  // Goes to the next tap that has blocks here: [begin, end). False at the end.
  __device__ __forceinline__ bool next(int& begin, int& end) {
    if (at_ >= last_) return false;
    while (at_ >= (end = __ldg(pairs_.tap_begin + tap_ + 1) / kPairBlock)) ++tap_;
    begin = at_;
    end = min(end, last_);
    at_ = end;
    return true;
  }

 private:
  const PairTable& pairs_;
  int tap_, at_, last_;
};

__device__ __forceinline__ float* piece_of(const WeightGradientParams& p, int worker, int tap,
                                           int tile_values) {
  const std::int64_t number =
      static_cast<std::int64_t>(blockIdx.y) * (p.workers + p.pairs.taps) + worker + tap;
  return p.pieces + number * tile_values;
}

}  // namespace gemm_core

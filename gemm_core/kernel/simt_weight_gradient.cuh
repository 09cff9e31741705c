// Weight gradients for any number of channels, groups, any alignment, on any GPU: gathered tiles in
// shared memory, fp32 FMA. grid = (workers, groups * blocks of kTileM x kTileN channels).
#pragma once
#include "gemm_core/collective/weight_gradient_pieces.cuh"
#include "gemm_core/epilogue/cuda/device_epilogue.cuh"

namespace gemm_core {

struct SimtWeightGradient {
  static constexpr int kThreads = 256, kTileM = 64, kTileN = 64, kTileK = 16;
  float gradient[kTileK][kTileM], input[kTileK][kTileN];
};

template <class Element>
__global__ void __launch_bounds__(SimtWeightGradient::kThreads)
    simt_weight_gradient(const __grid_constant__ WeightGradientParams p) {
  using Tile = SimtWeightGradient;
  constexpr int kM = Tile::kTileM, kN = Tile::kTileN, kK = Tile::kTileK;
  __shared__ Tile tile;
  const WeightTile shape(p.cout, p.cin, p.groups, kM, kN);
  const int group = blockIdx.y / shape.per_group(), block = blockIdx.y % shape.per_group();
  const int row = block / shape.column_blocks * kM, column = block % shape.column_blocks * kN;
  const int rows = min(kM, shape.group_cout - row), columns = min(kN, shape.group_cin - column);
  const int first_row = group * shape.group_cout + row;
  const int first_column = group * shape.group_cin + column;

  const int thread = threadIdx.x;
  const int load_pair = thread / 16, load_channel = thread % 16 * 4;
  const int m = thread / 16 * 4, n = thread % 16 * 4;  // a 4 x 4 block of sums
  const auto load = [&](const PairRows& from, std::int32_t index, int first, int count, float* to) {
    const std::int64_t at = index * from.pitch + first + load_channel;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[i] = index >= 0 && load_channel + i < count
                  ? DeviceElement<Element>::load(from.data, at + i)
                  : 0.f;
    }
  };

  PairWalk walk(p.pairs, static_cast<int>(blockIdx.x), p.workers);
  for (int begin, end; walk.next(begin, end);) {
    float sum[4][4] = {};
    for (int k = begin * kPairBlock; k < end * kPairBlock; k += kK) {
      load(p.gradient, __ldg(p.pairs.outputs + k + load_pair), first_row, rows,
           &tile.gradient[load_pair][load_channel]);
      load(p.input, __ldg(p.pairs.inputs + k + load_pair), first_column, columns,
           &tile.input[load_pair][load_channel]);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kK; ++i) {
        const float4 a = *reinterpret_cast<const float4*>(&tile.gradient[i][m]);
        const float4 b = *reinterpret_cast<const float4*>(&tile.input[i][n]);
        const float va[4] = {a.x, a.y, a.z, a.w}, vb[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int y = 0; y < 4; ++y) {
#pragma unroll
          for (int x = 0; x < 4; ++x) sum[y][x] = fmaf(va[y], vb[x], sum[y][x]);
        }
      }
      __syncthreads();
    }
    float* const to = piece_of(p, static_cast<int>(blockIdx.x), walk.tap(), kM * kN);
#pragma unroll
    for (int y = 0; y < 4; ++y)
      *reinterpret_cast<float4*>(to + (m + y) * kN + n) =
          make_float4(sum[y][0], sum[y][1], sum[y][2], sum[y][3]);
  }
}

}  // namespace gemm_core

// The convolution that takes any number of channels and taps, any alignment and every activation,
// on any GPU: gathered tiles in shared memory, fp32 FMA. Exact path of fp32, and what the
// matrix-core kernels leave over. grid = (tiles of kTileM rows, blocks of kTileN output channels).
#pragma once
#include "gemm_core/epilogue/cuda/device_epilogue.cuh"

namespace gemm_core {

struct SimtGatherConvParams {
  const void* input = nullptr;
  std::int64_t input_pitch = 0;              // elements
  const std::int32_t* neighbours = nullptr;  // [taps][neighbour_pitch]; null: one tap, identity
  std::int64_t neighbour_pitch = 0;
  const std::int32_t* row_count = nullptr;  // output rows, on the device; `rows` where null
  std::int32_t rows = 0;
  const void* weights = nullptr;  // [cout][taps][weight_pitch], cin / groups of them used
  std::int32_t cin = 0, cout = 0, taps = 1, groups = 1, weight_pitch = 0;
  void* output = nullptr;
  std::int64_t output_pitch = 0;
  DeviceEpilogue epilogue;
};

template <class Element>
struct SimtTile {
  static constexpr int kThreads = 256;
  static constexpr int kTileM = 64, kTileN = 64, kTileK = 16;
  static constexpr int kPad = 4;  // keeps the transposing stores of a warp on different banks
  float a[kTileK][kTileM + kPad], b[kTileK][kTileN + kPad];
  std::int32_t source[kTileM];
};

// Columns of one block belong to one group of channels: with groups, blocks of columns start at
// group boundaries.
template <class Element>
__global__ void __launch_bounds__(SimtTile<Element>::kThreads)
    simt_gather_conv(const __grid_constant__ SimtGatherConvParams p) {
  using Tile = SimtTile<Element>;
  constexpr int kM = Tile::kTileM, kN = Tile::kTileN, kK = Tile::kTileK;
  __shared__ Tile tile;
  const int rows = p.row_count != nullptr ? *p.row_count : p.rows;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * kM;
  if (first_row >= rows) return;

  const int group_cin = p.cin / p.groups, group_cout = p.cout / p.groups;
  const int blocks_per_group = (group_cout + kN - 1) / kN;
  const int group = blockIdx.y / blocks_per_group;
  const int first_column = group * group_cout + blockIdx.y % blocks_per_group * kN;
  const int columns = min(kN, (group + 1) * group_cout - first_column);
  const int first_channel = group * group_cin;

  const int thread = threadIdx.x;
  const int row_of_thread = thread / 16 * 4,
            column_of_thread = thread % 16 * 4;                    // a 4 x 4 block of sums
  const int load_row = thread / 4, load_channel = thread % 4 * 4;  // 4 channels of a row
  float sum[4][4] = {};

  for (int tap = 0; tap < p.taps; ++tap) {
    int source = -1;
    if (thread < kM && first_row + thread < rows) {
      source = p.neighbours != nullptr
                   ? __ldg(p.neighbours + tap * p.neighbour_pitch + first_row + thread)
                   : static_cast<int>(first_row) + thread;
    }
    if (!__syncthreads_or(source >= 0))
      continue;  // also the barrier before the tile is overwritten
    if (thread < kM) tile.source[thread] = source;
    __syncthreads();
    const std::int64_t row = tile.source[load_row];

    for (int k = 0; k < group_cin; k += kK) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int channel = k + load_channel + i;
        const bool in_range = channel < group_cin;
        tile.a[load_channel + i][load_row] =
            in_range && row >= 0 ? DeviceElement<Element>::load(
                                       p.input, row * p.input_pitch + first_channel + channel)
                                 : 0.f;
        tile.b[load_channel + i][load_row] =
            in_range && load_row < columns
                ? DeviceElement<Element>::load(
                      p.weights, (static_cast<std::int64_t>(first_column + load_row) * p.taps +
                                  tap) * p.weight_pitch +
                                     channel)
                : 0.f;
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kK; ++i) {
        const float4 a = *reinterpret_cast<const float4*>(&tile.a[i][row_of_thread]);
        const float4 b = *reinterpret_cast<const float4*>(&tile.b[i][column_of_thread]);
        const float va[4] = {a.x, a.y, a.z, a.w}, vb[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
        for (int m = 0; m < 4; ++m) {
#pragma unroll
          for (int n = 0; n < 4; ++n) sum[m][n] = fmaf(va[m], vb[n], sum[m][n]);
        }
      }
      __syncthreads();
    }
  }

#pragma unroll
  for (int m = 0; m < 4; ++m) {
    const std::int64_t row = first_row + row_of_thread + m;
    if (row >= rows) continue;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int column = first_column + column_of_thread + n;
      if (column_of_thread + n >= columns) continue;
      const float v = apply_epilogue<Element>(p.epilogue, sum[m][n], row, column);
      DeviceElement<Element>::store(p.output, row * p.output_pitch + column, v);
    }
  }
}

}  // namespace gemm_core

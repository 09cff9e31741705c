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
  const std::int32_t* slot_rows = nullptr;  // GatherTable::rows of one order; null: slots are rows
  // Output rows, on the device; `rows` where null, none where there are more than that.
  const std::int32_t* row_count = nullptr;
  std::int32_t rows = 0;
  const void* weights = nullptr;  // [cout][taps][weight_pitch], cin / groups of them used
  std::int32_t cin = 0, cout = 0, taps = 1, groups = 1, weight_pitch = 0;
  void* output = nullptr;
  std::int64_t output_pitch = 0;
  Narrow narrow = Narrow::none;  // what the output is instead of Element
  bool has_vectors = false;      // four channels load at once: aligned, channels a multiple of four
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

// Four neighbouring values at an aligned place.
template <class Element>
__device__ __forceinline__ void load_four(const void* data, std::int64_t at, float (&v)[4]) {
  if constexpr (sizeof(Element) == 4) {
    const float4 four =
        __ldg(reinterpret_cast<const float4*>(static_cast<const float*>(data) + at));
    v[0] = four.x;
    v[1] = four.y;
    v[2] = four.z;
    v[3] = four.w;
  } else {
    const uint2 four =
        __ldg(reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(data) + at));
    const float2 low = DeviceElement<Element>::unpack(four.x);
    const float2 high = DeviceElement<Element>::unpack(four.y);
    v[0] = low.x;
    v[1] = low.y;
    v[2] = high.x;
    v[3] = high.y;
  }
}

// Columns of one block belong to one group of channels: with groups, blocks of columns start at
// group boundaries.
template <class Element>
__global__ void __launch_bounds__(SimtTile<Element>::kThreads)
    simt_gather_conv(const __grid_constant__ SimtGatherConvParams p) {
  using Tile = SimtTile<Element>;
  constexpr int kM = Tile::kTileM, kN = Tile::kTileN, kK = Tile::kTileK;
  __shared__ Tile tile;
  int rows = p.rows;
  if (p.row_count != nullptr) rows = *p.row_count <= p.rows ? *p.row_count : 0;
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
      float a[4] = {}, b[4] = {};
      const int channel = k + load_channel;
      const std::int64_t a_at = row * p.input_pitch + first_channel + channel;
      const std::int64_t b_at =
          (static_cast<std::int64_t>(first_column + load_row) * p.taps + tap) * p.weight_pitch +
          channel;
      if (p.has_vectors) {
        if (row >= 0 && channel < group_cin) load_four<Element>(p.input, a_at, a);
        if (load_row < columns && channel < group_cin) load_four<Element>(p.weights, b_at, b);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (channel + i >= group_cin) continue;
          if (row >= 0) a[i] = DeviceElement<Element>::load(p.input, a_at + i);
          if (load_row < columns) b[i] = DeviceElement<Element>::load(p.weights, b_at + i);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        tile.a[load_channel + i][load_row] = a[i];
        tile.b[load_channel + i][load_row] = b[i];
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
    const std::int64_t slot = first_row + row_of_thread + m;
    if (slot >= rows) continue;
    const std::int64_t row = p.slot_rows != nullptr ? __ldg(p.slot_rows + slot) : slot;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int column = first_column + column_of_thread + n;
      if (column_of_thread + n >= columns) continue;
      const float v = apply_epilogue<Element>(p.epilogue, sum[m][n], row, column);
      store_element<Element>(p.narrow, p.output, row * p.output_pitch + column, v);
    }
  }
}

}  // namespace gemm_core

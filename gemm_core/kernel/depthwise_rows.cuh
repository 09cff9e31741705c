// Square depthwise convolutions in a plane, without dilation: a thread walks down a strip of
// kColumns columns for kChannels neighbouring channels, weights in registers. Every row of the
// input is read once and joins the sums of all rows of the result that it meets; the next one is
// under way meanwhile. f16, bf16 or fp32 throughout, fp32 sums in the order of the taps; what lies
// outside the input counts as zeros.
#pragma once
#include "gemm_core/base/fast_divmod.hpp"
#include "gemm_core/epilogue/cuda/device_epilogue.cuh"
#include "gemm_core/kernel/depthwise_tensor.hpp"

namespace gemm_core {

inline constexpr int kDepthwiseThreads = 256;
inline constexpr int kDepthwiseChunks = 64;  // of channels, in a block at most
inline constexpr int kDepthwiseColumns = 4;

// What one compiled kernel takes: taps of a side, their step, and channels of a thread.
template <class Element_, int kSize_, int kStride_>
struct DepthwiseRows {
  using Element = Element_;
  static constexpr int kSize = kSize_, kStride = kStride_;
  static constexpr int kChannels = kSize == 3 && sizeof(Element) == 2 ? 4 : 2;
  static constexpr int kColumns = kDepthwiseColumns;
  static constexpr int kReads = (kColumns - 1) * kStride + kSize;  // positions of an input row
  static constexpr int kRing = (kSize + kStride - 1) / kStride;    // results under way
  static constexpr int kWords = kChannels * static_cast<int>(sizeof(Element)) / 4;
  static constexpr int kBlocks = kSize == 3 && sizeof(Element) == 2 ? 2 : 1;  // on an SM at least
  static constexpr int kPitch = kDepthwiseChunks * kChannels + 4;  // of weights in shared memory

  struct Words {
    std::uint32_t word[kWords];
  };
  static __device__ __forceinline__ Words load(const Element* from) {
    Words w;
    if constexpr (kWords == 1) {
      w.word[0] = __ldg(reinterpret_cast<const unsigned*>(from));
    } else {
      static_assert(kWords == 2);
      const uint2 v = __ldg(reinterpret_cast<const uint2*>(from));
      w.word[0] = v.x;
      w.word[1] = v.y;
    }
    return w;
  }
  static __device__ __forceinline__ void unpack(const Words& w, float (&v)[kChannels]) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (sizeof(Element) == 4) {
        v[i] = __uint_as_float(w.word[i]);
      } else {
        const float2 two = DeviceElement<Element>::unpack(w.word[i]);
        v[2 * i] = two.x;
        v[2 * i + 1] = two.y;
      }
    }
  }
  static __device__ __forceinline__ void store(Element* to, const float (&v)[kChannels]) {
    std::uint32_t words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if constexpr (sizeof(Element) == 4)
        words[i] = __float_as_uint(v[i]);
      else
        words[i] = DeviceElement<Element>::pack(v[2 * i], v[2 * i + 1]);
    }
    if constexpr (kWords == 1)
      *reinterpret_cast<unsigned*>(to) = words[0];
    else
      *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  }

  // `count` neighbouring positions of a row, zeros where the mask has none.
  template <int kCount>
  static __device__ __forceinline__ void load_row(const Element* from, std::int64_t step,
                                                  std::uint32_t mask, Words (&row)[kCount]) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      row[j] = Words{};
      if (mask >> j & 1) row[j] = load(from + j * step);
    }
  }
  // Bit j: whether position first + j, j < count, is one of `extent`.
  static __device__ __forceinline__ std::uint32_t mask_of(int first, int count, int extent) {
    std::uint32_t mask = 0;
    for (int j = 0; j < count; ++j) {
      if (first + j >= 0 && first + j < extent) mask |= 1u << j;
    }
    return mask;
  }
};

// A thread's place: strips of columns are fastest, then segments of rows, planes and images.
struct DepthwiseWalk {
  base::FastDivMod by_strips, by_segments, by_planes;
  int segment = 1;          // rows of a thread
  std::uint32_t units = 0;  // all of them
  int block_chunks = 1;     // of channels

  struct Place {
    int column, row, plane;
    std::int64_t image;
  };
  __device__ __forceinline__ Place at(std::uint32_t unit) const {
    const auto [line, strip] = by_strips(unit);
    const auto [rest, part] = by_segments(line);
    const auto [image, plane] = by_planes(rest);
    return {static_cast<int>(strip) * kDepthwiseColumns, static_cast<int>(part) * segment,
            static_cast<int>(plane), static_cast<std::int64_t>(image)};
  }
};

// Position (y, x) of the result reads (y * stride - lower[0] + r, x * stride - lower[1] + s).
struct DepthwiseRowsParams {
  DepthwiseTensor from, to, filter;  // filter: batch_step is that of channels
  DepthwiseWalk walk;
  int from_rows = 1, from_columns = 1, rows = 1, columns = 1, lower[2] = {0, 0};
  int channels = 0;
  bool flip = false;  // tap r is the filter's last but r
  float alpha = 1;
};

// Blocks (units of the walk, channels).
template <class Rows>
__global__ void __launch_bounds__(kDepthwiseThreads, Rows::kBlocks)
    depthwise_rows(const __grid_constant__ DepthwiseRowsParams p) {
  using Element = typename Rows::Element;
  using Words = typename Rows::Words;
  constexpr int kSize = Rows::kSize, kStride = Rows::kStride, kChannels = Rows::kChannels;
  constexpr int kColumns = Rows::kColumns, kRing = Rows::kRing, kReads = Rows::kReads;
  __shared__ __align__(16) float shared[kSize * kSize][Rows::kPitch];
  const int thread = static_cast<int>(threadIdx.x), block_chunks = p.walk.block_chunks;
  const int first_channel = static_cast<int>(blockIdx.y) * block_chunks * kChannels;
  const int channels = min(block_chunks * kChannels, p.channels - first_channel);
  for (int i = thread; i < kSize * kSize * channels; i += kDepthwiseThreads) {
    const int tap = i % (kSize * kSize), channel = i / (kSize * kSize);
    const int r = p.flip ? kSize - 1 - tap / kSize : tap / kSize;
    const int s = p.flip ? kSize - 1 - tap % kSize : tap % kSize;
    shared[tap][channel] = DeviceElement<Element>::load(
        p.filter.data, (first_channel + channel) * p.filter.batch_step + r * p.filter.step[1] +
                           s * p.filter.step[2]);
  }
  __syncthreads();
  const int lanes = kDepthwiseThreads / block_chunks;
  const int lane = thread / block_chunks, chunk = thread % block_chunks * kChannels;
  const std::uint32_t unit = blockIdx.x * lanes + lane;
  if (lane >= lanes || unit >= p.walk.units || chunk >= channels) return;

  float weights[kSize][kSize][kChannels];
#pragma unroll
  for (int tap = 0; tap < kSize * kSize; ++tap) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      weights[tap / kSize][tap % kSize][c] = shared[tap][chunk + c];
  }
  const auto at = p.walk.at(unit);
  const int channel = first_channel + chunk;
  const int first_read = at.column * kStride - p.lower[1];
  const Element* const from = static_cast<const Element*>(p.from.data) +
                              at.image * p.from.batch_step + at.plane * p.from.step[0] + channel +
                              first_read * p.from.step[2];
  Element* const to = static_cast<Element*>(const_cast<void*>(p.to.data)) +
                      at.image * p.to.batch_step + at.plane * p.to.step[0] + channel +
                      at.column * p.to.step[2];
  const std::uint32_t mask = Rows::mask_of(first_read, kReads, p.from_columns);
  const auto read = [&](int row, Words(&words)[kReads]) {
    const bool is_inside = row >= 0 && row < p.from_rows;
    Rows::load_row(from + row * p.from.step[1], p.from.step[2], is_inside ? mask : 0, words);
  };

  // sums[j]: of row `row` - j. A step reads kStride rows and ends a row of the result.
  float sums[kRing][kColumns][kChannels] = {};
  const int end = min(at.row + p.walk.segment, p.rows) + kRing - 1;
  Words next[kReads];
  int next_row = at.row * kStride - p.lower[0];
  read(next_row, next);
#pragma unroll 1
  for (int row = at.row; row < end; ++row) {
#pragma unroll
    for (int e = 0; e < kStride; ++e) {
      float values[kReads][kChannels];
#pragma unroll
      for (int j = 0; j < kReads; ++j) Rows::unpack(next[j], values[j]);
      read(++next_row, next);
#pragma unroll
      for (int j = 0; j < kRing; ++j) {
        const int r = e + kStride * j;
        if (r >= kSize) continue;
#pragma unroll
        for (int s = 0; s < kSize; ++s) {
#pragma unroll
          for (int x = 0; x < kColumns; ++x) {
#pragma unroll
            for (int c = 0; c < kChannels; ++c)
              sums[j][x][c] = fmaf(values[x * kStride + s][c], weights[r][s][c], sums[j][x][c]);
          }
        }
      }
    }
    const int done = row - (kRing - 1);
    if (done >= at.row) {
#pragma unroll
      for (int x = 0; x < kColumns; ++x) {
        if (at.column + x >= p.columns) continue;
        float v[kChannels];
#pragma unroll
        for (int c = 0; c < kChannels; ++c) v[c] = sums[kRing - 1][x][c] * p.alpha;
        Rows::store(to + done * p.to.step[1] + x * p.to.step[2], v);
      }
    }
#pragma unroll
    for (int j = kRing - 1; j >= 0; --j) {
#pragma unroll
      for (int x = 0; x < kColumns; ++x) {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) sums[j][x][c] = j == 0 ? 0.f : sums[j - 1][x][c];
      }
    }
  }
}

struct DepthwiseFilterRowsParams {
  DepthwiseTensor output, input;
  DepthwiseWalk walk;  // over positions of the output
  int input_rows = 1, input_columns = 1, rows = 1, columns = 1, lower[2] = {0, 0};
  int channels = 0;
  bool flip = false;
  float* sums = nullptr;  // [block of units][tap][channel]
};

// The gradient of the filter: blocks (channels, units of the walk), each block a sum over every
// gridDim.y-th run of units. A ring holds the rows of the input that a row of the output meets.
template <class Rows>
__global__ void __launch_bounds__(kDepthwiseThreads, Rows::kBlocks)
    depthwise_filter_rows(const __grid_constant__ DepthwiseFilterRowsParams p) {
  using Element = typename Rows::Element;
  using Words = typename Rows::Words;
  constexpr int kSize = Rows::kSize, kStride = Rows::kStride, kChannels = Rows::kChannels;
  constexpr int kColumns = Rows::kColumns, kReads = Rows::kReads;
  __shared__ float parts[kDepthwiseThreads][kChannels + 1];
  const int thread = static_cast<int>(threadIdx.x), block_chunks = p.walk.block_chunks;
  const int lanes = kDepthwiseThreads / block_chunks, lane = thread / block_chunks;
  const int first_channel = static_cast<int>(blockIdx.x) * block_chunks * kChannels;
  const int channel = first_channel + thread % block_chunks * kChannels;
  float sums[kSize][kSize][kChannels] = {};
  if (lane < lanes && channel < p.channels) {
    for (std::uint32_t unit = blockIdx.y * lanes + lane; unit < p.walk.units;
         unit += gridDim.y * lanes) {
      const auto at = p.walk.at(unit);
      const int first_read = at.column * kStride - p.lower[1];
      const Element* const input = static_cast<const Element*>(p.input.data) +
                                   at.image * p.input.batch_step + at.plane * p.input.step[0] +
                                   channel + first_read * p.input.step[2];
      const Element* const output = static_cast<const Element*>(p.output.data) +
                                    at.image * p.output.batch_step + at.plane * p.output.step[0] +
                                    channel + at.column * p.output.step[2];
      const std::uint32_t mask = Rows::mask_of(first_read, kReads, p.input_columns);
      const std::uint32_t output_mask = Rows::mask_of(at.column, kColumns, p.columns);
      const auto read = [&](int row, Words(&words)[kReads]) {
        const bool is_inside = row >= 0 && row < p.input_rows;
        Rows::load_row(input + row * p.input.step[1], p.input.step[2], is_inside ? mask : 0, words);
      };
      Words ring[kSize][kReads];
      int next_row = at.row * kStride - p.lower[0];
#pragma unroll
      for (int r = kStride; r < kSize; ++r) read(next_row++, ring[r]);
      const int end = min(at.row + p.walk.segment, p.rows);
#pragma unroll 1
      for (int row = at.row; row < end; ++row) {
#pragma unroll
        for (int r = 0; r + kStride < kSize; ++r) {
#pragma unroll
          for (int j = 0; j < kReads; ++j) ring[r][j] = ring[r + kStride][j];
        }
#pragma unroll
        for (int e = 0; e < kStride; ++e) read(next_row++, ring[kSize - kStride + e]);
        Words gradient[kColumns];
        Rows::load_row(output + row * p.output.step[1], p.output.step[2], output_mask, gradient);
        float g[kColumns][kChannels];
#pragma unroll
        for (int x = 0; x < kColumns; ++x) Rows::unpack(gradient[x], g[x]);
#pragma unroll
        for (int r = 0; r < kSize; ++r) {
          float values[kReads][kChannels];
#pragma unroll
          for (int j = 0; j < kReads; ++j) Rows::unpack(ring[r][j], values[j]);
#pragma unroll
          for (int s = 0; s < kSize; ++s) {
#pragma unroll
            for (int x = 0; x < kColumns; ++x) {
#pragma unroll
              for (int c = 0; c < kChannels; ++c)
                sums[r][s][c] = fmaf(g[x][c], values[x * kStride + s][c], sums[r][s][c]);
            }
          }
        }
      }
    }
  }
#pragma unroll
  for (int tap = 0; tap < kSize * kSize; ++tap) {
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kChannels; ++c) parts[thread][c] = sums[tap / kSize][tap % kSize][c];
    __syncthreads();
    const int to_tap = p.flip ? kSize * kSize - 1 - tap : tap;
    for (int i = thread; i < block_chunks * kChannels; i += kDepthwiseThreads) {
      if (first_channel + i >= p.channels) continue;
      float sum = 0;
      for (int l = 0; l < lanes; ++l) sum += parts[l * block_chunks + i / kChannels][i % kChannels];
      p.sums[(std::int64_t{blockIdx.y} * kSize * kSize + to_tap) * p.channels + first_channel + i] =
          sum;
    }
  }
}

}  // namespace gemm_core

// Convolutions with one channel a group and as many filters: memory-bound, so without tensor cores.
// A thread takes kChannels neighbouring channels of some positions. fp32 sums; operands are rounded
// to the compute type as they are read.
#pragma once
#include "gemm_core/base/fast_divmod.hpp"
#include "gemm_core/collective/cuda_operand_loads.cuh"
#include "gemm_core/kernel/depthwise_tensor.hpp"

namespace gemm_core {

// Position p of the result reads position (p * stride - lower + tap * dilation) (forward), or where
// (p + lower - tap * dilation) / stride is exact (gradient), of what is read.
struct DepthwiseParams {
  DepthwiseTensor from, to, filter;  // filter: batch_step is that of channels, step those of taps
  base::DType rounds_to = base::DType::f32;
  int from_extent[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int lower[3] = {0, 0, 0}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  bool is_gradient = false, flip = false;
  base::FastDivMod by_axis[3];  // extents of the result's positions
  base::FastDivMod by_chunks;   // of channels
  int channels = 0;
  int result_extent = 1;   // of the last axis
  std::uint32_t work = 0;  // positions (or strips of them) x chunks
  float alpha = 1, beta = 0;
  DepthwiseTensor c;
  int count = 0;
  DenseNode nodes[DenseEpilogue::kMaxNodes];
};

// Channels [channel, channel + kDenseRun) that exist, rounded to the compute type.
__device__ __forceinline__ void load_channels(const DepthwiseTensor& t, std::int64_t at, int count,
                                              base::DType rounds_to, float (&v)[kDenseRun]) {
  const int bytes = t.type == base::DType::f32 ? 4 : 2;
  const bool is_float16 = t.type == base::DType::f16 || t.type == base::DType::bf16;
  const auto address = reinterpret_cast<std::uintptr_t>(t.data) + at * bytes;
  const bool vectors = (is_float16 || t.type == base::DType::f32) && address % 16 == 0;
  load_run(t.data, t.type, vectors, at, 1, count, v);
  if (t.type == rounds_to) return;
#pragma unroll
  for (float& value : v) value = rounded_value(value, rounds_to);
}

// In what is read, or false.
__device__ __forceinline__ bool find_tap(const DepthwiseParams& p, int axis, int position, int tap,
                                         int& at) {
  if (!p.is_gradient) {
    at = position * p.stride[axis] - p.lower[axis] + tap * p.dilation[axis];
  } else {
    const int x = position + p.lower[axis] - tap * p.dilation[axis];
    at = x / p.stride[axis];
    if (x < 0 || at * p.stride[axis] != x) return false;
  }
  return at >= 0 && at < p.from_extent[axis];
}

__global__ void __launch_bounds__(256)
    depthwise_conv(const __grid_constant__ DepthwiseParams params) {
  const DepthwiseParams& p = params;
  for (std::uint32_t i = blockIdx.x * 256 + threadIdx.x; i < p.work; i += gridDim.x * 256) {
    const auto [row, chunk] = p.by_chunks(i);
    const int channel = static_cast<int>(chunk) * kDenseRun;
    const int count = min(kDenseRun, p.channels - channel);
    int position[3];
    std::uint32_t rest = row;
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
      const auto [quotient, remainder] = p.by_axis[axis](rest);
      position[axis] = static_cast<int>(remainder);
      rest = quotient;
    }
    const auto n = static_cast<std::int64_t>(rest);
    float sums[kDenseRun] = {};
    for (int t = 0; t < p.kernel[0]; ++t) {
      int x[3];
      if (!find_tap(p, 0, position[0], t, x[0])) continue;
      for (int r = 0; r < p.kernel[1]; ++r) {
        if (!find_tap(p, 1, position[1], r, x[1])) continue;
        for (int s = 0; s < p.kernel[2]; ++s) {
          if (!find_tap(p, 2, position[2], s, x[2])) continue;
          float values[kDenseRun], weights[kDenseRun];
          load_channels(p.from,
                        n * p.from.batch_step + x[0] * p.from.step[0] + x[1] * p.from.step[1] +
                            x[2] * p.from.step[2] + channel,
                        count, p.rounds_to, values);
          const int tap[3] = {p.flip ? p.kernel[0] - 1 - t : t, p.flip ? p.kernel[1] - 1 - r : r,
                              p.flip ? p.kernel[2] - 1 - s : s};
          const std::int64_t at =
              tap[0] * p.filter.step[0] + tap[1] * p.filter.step[1] + tap[2] * p.filter.step[2];
#pragma unroll
          for (int v = 0; v < kDenseRun; ++v) {
            weights[v] = 0;
            if (v < count) {
              weights[v] = rounded_value(load_value(p.filter.data, p.filter.type,
                                                    (channel + v) * p.filter.batch_step + at),
                                         p.rounds_to);
            }
            sums[v] = fmaf(values[v], weights[v], sums[v]);
          }
        }
      }
    }
#pragma unroll
    for (float& v : sums) v *= p.alpha;
    const auto offset_in = [&](const DepthwiseTensor& t) {
      return n * t.batch_step + position[0] * t.step[0] + position[1] * t.step[1] +
             position[2] * t.step[2] + channel;
    };
    if (p.beta != 0) {
      float c[kDenseRun];
      load_run(p.c.data, p.c.type, false, offset_in(p.c), 1, count, c);
#pragma unroll
      for (int v = 0; v < kDenseRun; ++v) sums[v] = fmaf(p.beta, c[v], sums[v]);
    }
    for (int node = 0; node < p.count; ++node)
      apply_dense_node(p.nodes[node], row, channel, count, sums);
    const std::int64_t to = offset_in(p.to);
    const int bytes = p.to.type == base::DType::f32 ? 4 : 2;
    const bool vectors = (reinterpret_cast<std::uintptr_t>(p.to.data) + to * bytes) % 16 == 0;
    store_run(const_cast<void*>(p.to.data), p.to.type, vectors, to, 1, count, sums);
  }
}

struct DepthwiseGradientParams {
  DepthwiseTensor output, input;
  base::DType rounds_to = base::DType::f32;
  int input_extent[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int lower[3] = {0, 0, 0}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
  bool flip = false;
  base::FastDivMod by_axis[3];  // extents of the output
  std::uint32_t positions = 0, strip = 0;
  int channels = 0, strips = 0, taps = 1;
  int block_chunks = 1;   // of depthwise_filter_strips: at most 32
  float* sums = nullptr;  // [strip][tap][channel]
};

// Sums over a strip of positions: blocks (chunks of 32 channels, taps, strips) of 32 x 8 threads.
__global__ void __launch_bounds__(256)
    depthwise_filter_sums(const __grid_constant__ DepthwiseGradientParams p) {
  __shared__ float parts[8][33];
  const int lane = static_cast<int>(threadIdx.x) % 32, part = static_cast<int>(threadIdx.x) / 32;
  const int channel = static_cast<int>(blockIdx.x) * 32 + lane;
  int tap[3], index = static_cast<int>(blockIdx.y);
#pragma unroll
  for (int axis = 2; axis >= 0; --axis) {
    tap[axis] = index % p.kernel[axis];
    index /= p.kernel[axis];
    if (p.flip) tap[axis] = p.kernel[axis] - 1 - tap[axis];
  }
  const std::uint32_t begin = blockIdx.z * p.strip;
  const std::uint32_t end = min(p.positions, begin + p.strip);
  float sum = 0;
  if (channel < p.channels) {
    for (std::uint32_t i = begin + part; i < end; i += 8) {
      std::uint32_t rest = i;
      std::int64_t to = channel, from = channel;
      bool exists = true;
#pragma unroll
      for (int axis = 2; axis >= 0; --axis) {
        const auto [quotient, z] = p.by_axis[axis](rest);
        const int x =
            static_cast<int>(z) * p.stride[axis] - p.lower[axis] + tap[axis] * p.dilation[axis];
        exists = exists && x >= 0 && x < p.input_extent[axis];
        to += z * p.output.step[axis];
        from += x * p.input.step[axis];
        rest = quotient;
      }
      if (!exists) continue;
      to += rest * p.output.batch_step;
      from += rest * p.input.batch_step;
      sum = fmaf(rounded_value(load_value(p.output.data, p.output.type, to), p.rounds_to),
                 rounded_value(load_value(p.input.data, p.input.type, from), p.rounds_to), sum);
    }
  }
  parts[part][lane] = sum;
  __syncthreads();
  if (part != 0 || channel >= p.channels) return;
#pragma unroll
  for (int i = 1; i < 8; ++i) sum += parts[i][lane];
  p.sums[(std::int64_t{blockIdx.z} * p.taps + blockIdx.y) * p.channels + channel] = sum;
}

struct DepthwiseFinishParams {
  const float* sums = nullptr;
  int strips = 0, taps = 1, channels = 0, kernel[3] = {1, 1, 1};
  DepthwiseTensor to, c;  // filters: batch_step is that of channels
  float alpha = 1, beta = 0;
};

// The strips' sums, a warp an element of the filter: every 32nd strip a lane, lanes in pairs.
__global__ void __launch_bounds__(256)
    depthwise_filter_finish(const __grid_constant__ DepthwiseFinishParams p) {
  const int i = static_cast<int>(blockIdx.x * 8 + threadIdx.x / 32);
  if (i >= p.taps * p.channels) return;
  float sum = 0;
  for (int strip = static_cast<int>(threadIdx.x) % 32; strip < p.strips; strip += 32)
    sum += p.sums[std::int64_t{strip} * p.taps * p.channels + i];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 != 0) return;
  sum *= p.alpha;
  int tap = i / p.channels;
  const std::int64_t channel = i % p.channels;
  std::int64_t at = channel * p.to.batch_step, from = channel * p.c.batch_step;
#pragma unroll
  for (int axis = 2; axis >= 0; --axis) {
    at += tap % p.kernel[axis] * p.to.step[axis];
    from += tap % p.kernel[axis] * p.c.step[axis];
    tap /= p.kernel[axis];
  }
  if (p.beta != 0) sum = fmaf(p.beta, load_value(p.c.data, p.c.type, from), sum);
  store_value(const_cast<void*>(p.to.data), p.to.type, at, sum);
}

// The same where activation, filter and output are of one type and what is multiplied, channels a
// multiple of eight, all aligned to 16 bytes, beta 0, no nodes: weights in shared memory, four
// positions of the last axis a thread. `by_axis[2]`: strips of the last axis.
template <class Element>
__global__ void __launch_bounds__(256) depthwise_strips(const __grid_constant__ DepthwiseParams p) {
  constexpr int kStrip = 4;
  constexpr base::DType kType = base::dtype_v<Element>;
  extern __shared__ float weights[];  // [tap][channel]
  const int taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  for (int i = static_cast<int>(threadIdx.x); i < taps * p.channels; i += 256) {
    const int channel = i % p.channels;
    int index = i / p.channels;
    std::int64_t at = channel * p.filter.batch_step;
#pragma unroll
    for (int axis = 2; axis >= 0; --axis) {
      const int tap = index % p.kernel[axis];
      at += (p.flip ? p.kernel[axis] - 1 - tap : tap) * p.filter.step[axis];
      index /= p.kernel[axis];
    }
    weights[i] = load_value(p.filter.data, kType, at);
  }
  __syncthreads();
  const int extent = p.result_extent;
  for (std::uint32_t i = blockIdx.x * 256 + threadIdx.x; i < p.work; i += gridDim.x * 256) {
    const auto [row, chunk] = p.by_chunks(i);
    const int channel = static_cast<int>(chunk) * kDenseRun;
    const auto [line, strip] = p.by_axis[2](row);
    const auto [plane, y] = p.by_axis[1](line);
    const auto [image, z] = p.by_axis[0](plane);
    const auto n = static_cast<std::int64_t>(image);
    const int first = static_cast<int>(strip) * kStrip;
    float sums[kStrip][kDenseRun] = {};
    int tap = 0;
    for (int t = 0; t < p.kernel[0]; ++t) {
      for (int r = 0; r < p.kernel[1]; ++r, tap += p.kernel[2]) {
        int x0, x1;
        if (!find_tap(p, 0, static_cast<int>(z), t, x0) ||
            !find_tap(p, 1, static_cast<int>(y), r, x1))
          continue;
        const std::int64_t from =
            n * p.from.batch_step + x0 * p.from.step[0] + x1 * p.from.step[1] + channel;
        for (int s = 0; s < p.kernel[2]; ++s) {
          const auto* const w =
              reinterpret_cast<const float4*>(weights + (tap + s) * p.channels + channel);
          const float4 low = w[0], high = w[1];
          const float tap_weights[kDenseRun] = {low.x,  low.y,  low.z,  low.w,
                                                high.x, high.y, high.z, high.w};
#pragma unroll
          for (int j = 0; j < kStrip; ++j) {
            int x2;
            if (first + j >= extent || !find_tap(p, 2, first + j, s, x2)) continue;
            float v[kDenseRun];
            load_run(p.from.data, kType, true, from + x2 * p.from.step[2], 1, kDenseRun, v);
#pragma unroll
            for (int c = 0; c < kDenseRun; ++c) sums[j][c] = fmaf(v[c], tap_weights[c], sums[j][c]);
          }
        }
      }
    }
    const std::int64_t to = n * p.to.batch_step + z * p.to.step[0] + y * p.to.step[1] + channel;
#pragma unroll
    for (int j = 0; j < kStrip; ++j) {
      if (first + j >= extent) continue;
#pragma unroll
      for (float& v : sums[j]) v *= p.alpha;
      store_run(const_cast<void*>(p.to.data), kType, true, to + (first + j) * p.to.step[2], 1,
                kDenseRun, sums[j]);
    }
  }
}

// Sums of nine taps from blockIdx.z * 9 on over a strip of positions, under the same conditions: a
// thread takes a chunk of eight channels and every `lanes`th position.
template <class Element>
__global__ void __launch_bounds__(256)
    depthwise_filter_strips(const __grid_constant__ DepthwiseGradientParams p) {
  constexpr int kTaps = 9;
  constexpr base::DType kType = base::dtype_v<Element>;
  __shared__ int shift[kTaps][3];
  __shared__ float parts[256][kDenseRun + 1];
  const int first_tap = static_cast<int>(blockIdx.z) * kTaps;
  const int count = min(kTaps, p.taps - first_tap);
  if (static_cast<int>(threadIdx.x) < count) {
    int index = first_tap + static_cast<int>(threadIdx.x);
    for (int axis = 2; axis >= 0; --axis) {
      const int tap = index % p.kernel[axis];
      index /= p.kernel[axis];
      shift[threadIdx.x][axis] =
          (p.flip ? p.kernel[axis] - 1 - tap : tap) * p.dilation[axis] - p.lower[axis];
    }
  }
  __syncthreads();
  const int chunk_in_block = static_cast<int>(threadIdx.x) % p.block_chunks;
  const int lane = static_cast<int>(threadIdx.x) / p.block_chunks, lanes = 256 / p.block_chunks;
  const int channel = (static_cast<int>(blockIdx.x) * p.block_chunks + chunk_in_block) * kDenseRun;
  const bool works = lane < lanes && channel < p.channels;
  float sums[kTaps][kDenseRun] = {};
  const std::uint32_t begin = blockIdx.y * p.strip, end = min(p.positions, begin + p.strip);
  if (works) {
    for (std::uint32_t i = begin + lane; i < end; i += lanes) {
      const auto [line, x] = p.by_axis[2](i);
      const auto [plane, y] = p.by_axis[1](line);
      const auto [image, z] = p.by_axis[0](plane);
      const int at[3] = {static_cast<int>(z) * p.stride[0], static_cast<int>(y) * p.stride[1],
                         static_cast<int>(x) * p.stride[2]};
      float gradient[kDenseRun];
      load_run(p.output.data, kType, true,
               image * p.output.batch_step + z * p.output.step[0] + y * p.output.step[1] +
                   x * p.output.step[2] + channel,
               1, kDenseRun, gradient);
      const std::int64_t base = image * p.input.batch_step + channel;
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        if (tap >= count) continue;
        const int u = at[0] + shift[tap][0], v = at[1] + shift[tap][1], w = at[2] + shift[tap][2];
        if (u < 0 || u >= p.input_extent[0] || v < 0 || v >= p.input_extent[1] || w < 0 ||
            w >= p.input_extent[2]) {
          continue;
        }
        float values[kDenseRun];
        load_run(p.input.data, kType, true,
                 base + u * p.input.step[0] + v * p.input.step[1] + w * p.input.step[2], 1,
                 kDenseRun, values);
#pragma unroll
        for (int c = 0; c < kDenseRun; ++c)
          sums[tap][c] = fmaf(gradient[c], values[c], sums[tap][c]);
      }
    }
  }
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) {
    if (tap >= count) break;
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kDenseRun; ++c) parts[threadIdx.x][c] = sums[tap][c];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < p.block_chunks * kDenseRun; i += 256) {
      const int chunk = i / kDenseRun, c = i % kDenseRun;
      const int to = static_cast<int>(blockIdx.x) * p.block_chunks * kDenseRun + i;
      if (to >= p.channels) continue;
      float sum = 0;
      for (int l = 0; l < lanes; ++l) sum += parts[l * p.block_chunks + chunk][c];
      p.sums[(std::int64_t{blockIdx.y} * p.taps + first_tap + tap) * p.channels + to] = sum;
    }
  }
}

}  // namespace gemm_core

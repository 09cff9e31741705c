// Reductions of a tensor over some of its modes. Terms of a result are cut into chunks, and each
// chunk's terms dealt to threads, by the shape alone, so that bits depend on nothing else. Two
// ways: neighbouring threads take neighbouring terms (`across`: rows are reduced), or neighbouring
// results (`along`: columns are reduced); a second kernel joins the chunks in their order.
#pragma once
#include <climits>
#include <cmath>

#include "gemm_core/base/fast_divmod.hpp"
#include "gemm_core/collective/cuda_operand_loads.cuh"
#include "gemm_core/epilogue/visitor_nodes.hpp"

namespace gemm_core {

// Modes, the first fastest; offsets of an index in input and output.
struct ReductionSide {
  static constexpr int kMost = 8;
  int count = 0;
  std::int64_t extent[kMost] = {}, in[kMost] = {}, out[kMost] = {};
  base::FastDivMod by[kMost];
  bool is_small = true;  // all extents multiply to less than 2^32

  __device__ __forceinline__ void offsets(std::int64_t index, std::int64_t& from,
                                          std::int64_t& to) const {
    for (int i = 0; i < count; ++i) {
      std::int64_t at = index;
      if (i + 1 < count) {
        if (is_small) {
          const auto [quotient, remainder] = by[i](static_cast<std::uint32_t>(index));
          at = remainder;
          index = quotient;
        } else {
          at = index % extent[i];
          index /= extent[i];
        }
      }
      from += at * in[i];
      to += at * out[i];
    }
  }
};

struct ReductionParams {
  ReductionSide kept, reduced;
  const void* input = nullptr;
  void* output = nullptr;
  base::DType in_type = base::DType::f32, out_type = base::DType::f32;
  visitor::Reduction kind = visitor::Reduction::sum;
  double scale = 1;
  std::int64_t results = 0, terms = 0, chunk = 0;  // terms a chunk
  int chunks = 1;
  bool vectors = false;      // one reduced mode of stride 1 whose rows are aligned to 16 bytes
  void* partials = nullptr;  // [chunk][result]
};

template <class Sum>
__device__ __forceinline__ Sum reduction_identity(visitor::Reduction kind) {
  if (kind != visitor::Reduction::maximum && kind != visitor::Reduction::minimum) return 0;
  const bool is_maximum = kind == visitor::Reduction::maximum;
  if constexpr (std::is_same_v<Sum, std::int32_t>)
    return is_maximum ? INT_MIN : INT_MAX;
  else
    return is_maximum ? -static_cast<Sum>(INFINITY) : static_cast<Sum>(INFINITY);
}

template <class Sum>
__device__ __forceinline__ Sum reduced_pair(visitor::Reduction kind, Sum a, Sum b) {
  if (kind == visitor::Reduction::sum) {
    if constexpr (std::is_same_v<Sum, std::int32_t>)
      return static_cast<Sum>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
    else
      return a + b;
  }
  if (a != a || b != b) return a + b;
  return kind == visitor::Reduction::minimum ? (b < a ? b : a) : (a < b ? b : a);
}

template <class Sum>
__device__ __forceinline__ Sum magnitude(Sum v) {
  if constexpr (std::is_same_v<Sum, std::int32_t>)
    return v == INT_MIN ? INT_MAX : (v < 0 ? -v : v);
  else
    return v < 0 ? -v : (v == 0 ? Sum(0) : v);
}

template <class Sum>
__device__ __forceinline__ Sum reduction_term(const ReductionParams& p, std::int64_t at) {
  Sum v;
  if constexpr (std::is_same_v<Sum, float>)
    v = load_value(p.input, p.in_type, at);
  else
    v = static_cast<const Sum*>(p.input)[at];
  return p.kind == visitor::Reduction::amax ? magnitude(v) : v;
}

template <class Sum>
__device__ __forceinline__ void store_result(const ReductionParams& p, std::int64_t at, Sum v) {
  if constexpr (std::is_same_v<Sum, float>)
    store_value(p.output, p.out_type, at, static_cast<float>(p.scale) * v);
  else if constexpr (std::is_same_v<Sum, double>)
    static_cast<double*>(p.output)[at] = p.scale * v;
  else
    static_cast<Sum*>(p.output)[at] = v;
}

// Eight terms, in pairs.
__device__ __forceinline__ float reduced_run(visitor::Reduction kind, float (&v)[kDenseRun]) {
  if (kind == visitor::Reduction::amax) {
#pragma unroll
    for (float& x : v) x = magnitude(x);
  }
#pragma unroll
  for (int step = kDenseRun / 2; step > 0; step /= 2) {
#pragma unroll
    for (int i = 0; i < step; ++i) v[i] = reduced_pair(kind, v[i], v[i + step]);
  }
  return v[0];
}

// A chunk's result: stored, or left for the joining kernel.
template <class Sum>
__device__ __forceinline__ void finish_chunk(const ReductionParams& p, std::int64_t result,
                                             std::int64_t chunk, std::int64_t to, Sum v) {
  if (p.chunks == 1)
    store_result(p, to, v);
  else
    static_cast<Sum*>(p.partials)[chunk * p.results + result] = v;
}

constexpr int kReductionThreads = 256;

// kLanes threads a (result, chunk).
template <class Sum, int kLanes>
__global__ void __launch_bounds__(kReductionThreads)
    reduce_across(const __grid_constant__ ReductionParams p) {
  constexpr int kUnits = kReductionThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  __shared__ Sum parts[kReductionThreads / 32];
  const std::int64_t units = p.results * p.chunks;
  const std::int64_t begin = std::int64_t{blockIdx.x} * kUnits + threadIdx.x / kLanes;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kUnits; first < units;
       first += std::int64_t{gridDim.x} * kUnits) {
    const std::int64_t unit = begin - std::int64_t{blockIdx.x} * kUnits + first;
    const bool exists = unit < units;
    const std::int64_t result = exists ? unit % p.results : 0;
    const std::int64_t chunk = exists ? unit / p.results : 0;
    std::int64_t from = 0, to = 0;
    p.kept.offsets(result, from, to);
    Sum sum = reduction_identity<Sum>(p.kind);
    const std::int64_t last = exists ? min(p.terms, (chunk + 1) * p.chunk) : 0;
    if (std::is_same_v<Sum, float> && p.vectors) {
      if constexpr (std::is_same_v<Sum, float>) {
        // Several loads under way at a time; whole runs first.
        constexpr int kAhead = 4;
        std::int64_t i = chunk * p.chunk + lane * kDenseRun;
        for (; i + (kAhead - 1) * kLanes * kDenseRun + kDenseRun <= last;
             i += kAhead * kLanes * kDenseRun) {
          float v[kAhead][kDenseRun];
#pragma unroll
          for (int a = 0; a < kAhead; ++a)
            load_run(p.input, p.in_type, true, from + i + a * kLanes * kDenseRun, 1, kDenseRun,
                     v[a]);
#pragma unroll
          for (int a = 0; a < kAhead; ++a)
            sum = reduced_pair(p.kind, sum, reduced_run(p.kind, v[a]));
        }
        for (; i < last; i += kLanes * kDenseRun) {
          float v[kDenseRun];
          const int count = last - i < kDenseRun ? static_cast<int>(last - i) : kDenseRun;
          load_run(p.input, p.in_type, true, from + i, 1, count, v);
#pragma unroll
          for (int j = 0; j < kDenseRun; ++j) {
            if (j < count)
              sum = reduced_pair(p.kind, sum,
                                 p.kind == visitor::Reduction::amax ? magnitude(v[j]) : v[j]);
          }
        }
      }
    } else {
      for (std::int64_t i = chunk * p.chunk + lane; i < last; i += kLanes) {
        std::int64_t at = from, unused = 0;
        p.reduced.offsets(i, at, unused);
        sum = reduced_pair(p.kind, sum, reduction_term<Sum>(p, at));
      }
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      sum = reduced_pair(p.kind, sum, __shfl_down_sync(~0u, sum, step));
    if constexpr (kLanes > 32) {
      if (lane % 32 == 0) parts[threadIdx.x / 32] = sum;
      __syncthreads();
      if (lane == 0) {
#pragma unroll
        for (int i = 1; i < kLanes / 32; ++i) sum = reduced_pair(p.kind, sum, parts[i]);
      }
      __syncthreads();
    }
    if (lane == 0 && exists) finish_chunk(p, result, chunk, to, sum);
  }
}

// 32 results a warp, eight warps share a chunk's terms.
template <class Sum>
__global__ void __launch_bounds__(kReductionThreads)
    reduce_along(const __grid_constant__ ReductionParams p) {
  constexpr int kWarps = kReductionThreads / 32;
  __shared__ Sum parts[kWarps][33];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t result = std::int64_t{blockIdx.x} * 32 + lane;
  for (std::int64_t chunk = blockIdx.y; chunk < p.chunks; chunk += gridDim.y) {
    std::int64_t from = 0, to = 0;
    Sum sum = reduction_identity<Sum>(p.kind);
    if (result < p.results) {
      p.kept.offsets(result, from, to);
      const std::int64_t last = min(p.terms, (chunk + 1) * p.chunk);
      for (std::int64_t i = chunk * p.chunk + warp; i < last; i += kWarps) {
        std::int64_t at = from, unused = 0;
        p.reduced.offsets(i, at, unused);
        sum = reduced_pair(p.kind, sum, reduction_term<Sum>(p, at));
      }
    }
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && result < p.results) {
#pragma unroll
      for (int i = 1; i < kWarps; ++i) sum = reduced_pair(p.kind, sum, parts[i][lane]);
      finish_chunk(p, result, chunk, to, sum);
    }
    __syncthreads();
  }
}

// As reduce_along where eight neighbouring results lie side by side in the input, aligned to 16
// bytes: 256 results a warp. Results are a multiple of eight.
__global__ void __launch_bounds__(kReductionThreads)
    reduce_along_vectors(const __grid_constant__ ReductionParams p) {
  constexpr int kWarps = kReductionThreads / 32, kAhead = 4;
  __shared__ float parts[kWarps][32][kDenseRun + 1];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t result = (std::int64_t{blockIdx.x} * 32 + lane) * kDenseRun;
  for (std::int64_t chunk = blockIdx.y; chunk < p.chunks; chunk += gridDim.y) {
    float sums[kDenseRun];
#pragma unroll
    for (float& sum : sums) sum = reduction_identity<float>(p.kind);
    const auto take = [&](const float(&v)[kDenseRun]) {
#pragma unroll
      for (int j = 0; j < kDenseRun; ++j) {
        sums[j] = reduced_pair(p.kind, sums[j],
                               p.kind == visitor::Reduction::amax ? magnitude(v[j]) : v[j]);
      }
    };
    if (result < p.results) {
      std::int64_t from = 0, to = 0;
      p.kept.offsets(result, from, to);
      const auto load = [&](std::int64_t i, float(&v)[kDenseRun]) {
        std::int64_t at = from, unused = 0;
        p.reduced.offsets(i, at, unused);
        load_run(p.input, p.in_type, true, at, 1, kDenseRun, v);
      };
      const std::int64_t last = min(p.terms, (chunk + 1) * p.chunk);
      std::int64_t i = chunk * p.chunk + warp;
      for (; i + (kAhead - 1) * kWarps < last; i += kAhead * kWarps) {
        float v[kAhead][kDenseRun];
#pragma unroll
        for (int a = 0; a < kAhead; ++a) load(i + a * kWarps, v[a]);
#pragma unroll
        for (int a = 0; a < kAhead; ++a) take(v[a]);
      }
      for (; i < last; i += kWarps) {
        float v[kDenseRun];
        load(i, v);
        take(v);
      }
    }
#pragma unroll
    for (int j = 0; j < kDenseRun; ++j) parts[warp][lane][j] = sums[j];
    __syncthreads();
    // A thread joins one result of the warps.
    const int of = static_cast<int>(threadIdx.x) / kDenseRun, j = threadIdx.x % kDenseRun;
    const std::int64_t mine = (std::int64_t{blockIdx.x} * 32 + of) * kDenseRun + j;
    if (mine < p.results) {
      float sum = parts[0][of][j];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum = reduced_pair(p.kind, sum, parts[w][of][j]);
      std::int64_t from = 0, to = 0;
      p.kept.offsets(mine, from, to);
      finish_chunk(p, mine, chunk, to, sum);
    }
    __syncthreads();
  }
}

// The chunks of every result, in their order.
template <class Sum>
__global__ void __launch_bounds__(kReductionThreads)
    reduce_chunks(const __grid_constant__ ReductionParams p) {
  const auto* const partials = static_cast<const Sum*>(p.partials);
  for (std::int64_t i = std::int64_t{blockIdx.x} * kReductionThreads + threadIdx.x; i < p.results;
       i += std::int64_t{gridDim.x} * kReductionThreads) {
    Sum sum = reduction_identity<Sum>(p.kind);
    for (int chunk = 0; chunk < p.chunks; ++chunk)
      sum = reduced_pair(p.kind, sum, partials[chunk * p.results + i]);
    std::int64_t from = 0, to = 0;
    p.kept.offsets(i, from, to);
    store_result(p, to, sum);
  }
}

}  // namespace gemm_core

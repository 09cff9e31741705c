// What benchmarks of dense products on CUDA share: random operands, comparing results, timing.
#pragma once
#include <algorithm>
#include <vector>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/collective/cuda_operand_loads.cuh"

namespace benchmarks {

using base::DType;
using Bytes = base::cuda::Buffer<std::uint8_t>;

// About normal: the sum of four uniform numbers.
static __global__ void fill(void* to, DType type, std::int64_t count, unsigned seed) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    std::uint64_t x = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ull + seed;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    float sum = 0;
    for (int j = 0; j < 4; ++j) sum += static_cast<float>(x >> 16 * j & 0xffff) / 65536.f - 0.5f;
    if (type == DType::f64)
      static_cast<double*>(to)[i] = sum;
    else
      gemm_core::store_value(to, type, i, type == DType::i8 ? sum * 60 : sum * 1.7f);
  }
}

static __global__ void compare(const void* x, const void* y, DType type, std::int64_t count,
                               unsigned* worst) {
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    float a, b;
    if (type == DType::f64) {
      a = static_cast<float>(static_cast<const double*>(x)[i]);
      b = static_cast<float>(static_cast<const double*>(y)[i]);
    } else if (type == DType::i32) {
      a = static_cast<float>(static_cast<const int*>(x)[i]);
      b = static_cast<float>(static_cast<const int*>(y)[i]);
    } else {
      a = gemm_core::load_value(x, type, i);
      b = gemm_core::load_value(y, type, i);
    }
    const float difference = fabsf(a - b);
    // Not-a-number counts as infinite.
    atomicMax(worst, difference == difference ? __float_as_uint(difference) : 0x7f800000u);
    atomicMax(worst + 1, __float_as_uint(fabsf(b)));
  }
}

// `count` random elements.
inline Bytes random_operand(DType type, std::int64_t count, unsigned seed, cudaStream_t stream) {
  Bytes buffer(static_cast<std::size_t>(base::bytes(type, count)));
  fill<<<1024, 256, 0, stream>>>(buffer.data(), type, count, seed);
  return buffer;
}

// Milliseconds of one of `count` launches between two events.
template <class Launch>
float burst_ms(int count, cudaStream_t stream, const Launch& launch) {
  static const auto begin = base::cuda::Event::create(), end = base::cuda::Event::create();
  begin.record(stream);
  for (int i = 0; i < count; ++i) launch(i);
  end.record(stream);
  end.synchronize();
  return base::cuda::elapsed_ms(begin, end) / static_cast<float>(count);
}

inline float median(std::vector<float> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace benchmarks

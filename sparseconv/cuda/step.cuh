// What the steps of a map build are made of. A step is a struct with `size(job)` and
// `operator()(job, i, is_active)`; a runner calls it for all i below size(job) rounded up to whole
// warps, where `is_active` is i < size(job). Steps call nothing of CUDA's host side and no other
// thread but through the functions below, which on the host act one after the other: so the same
// steps run, and are tested, without a GPU.
#pragma once
#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define SPARSECONV_DEVICE __host__ __device__
#else
#define SPARSECONV_DEVICE
#endif
#if defined(__CUDA_ARCH__)
#define SPARSECONV_UNROLL _Pragma("unroll")
#else
#define SPARSECONV_UNROLL
#endif

namespace sparseconv::cuda {

inline constexpr int kWarp = 32;

// A step that counts things has `counters(job)`, kCounters of them, cleared; it is called with a
// place to add to, which on the device is the thread block's own until the block ends.
inline constexpr int kCounters = 2 * kWarp;
template <class Step>
concept CountingStep = requires(const Step& step) {
  step.counters(0);
};

// Keys and their values, as runners sort them.
template <class Key>
struct Sorted {
  Key* keys;
  std::int32_t* values;
};

// The value there before.
SPARSECONV_DEVICE inline std::uint64_t compare_and_swap(std::uint64_t* at, std::uint64_t expected,
                                                        std::uint64_t desired) {
#if defined(__CUDA_ARCH__)
  return atomicCAS(reinterpret_cast<unsigned long long*>(at), expected, desired);
#else
  const std::uint64_t before = *at;
  if (before == expected) *at = desired;
  return before;
#endif
}

SPARSECONV_DEVICE inline void atomic_clear(std::uint64_t* at, std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  atomicAnd(reinterpret_cast<unsigned long long*>(at), ~bits);
#else
  *at &= ~bits;
#endif
}

SPARSECONV_DEVICE inline void atomic_or(std::uint32_t* at, std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  atomicOr(at, bits);
#else
  *at |= bits;
#endif
}

// The value there before.
SPARSECONV_DEVICE inline std::int32_t atomic_add(std::int32_t* at, std::int32_t value) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(at, value);
#else
  const std::int32_t before = *at;
  *at += value;
  return before;
#endif
}

SPARSECONV_DEVICE inline int bit_count(std::uint64_t v) {
#if defined(__CUDA_ARCH__)
  return __popcll(v);
#else
  return std::popcount(v);
#endif
}

// counters[b] += number of threads of the warp whose bit b of `bits` is set. All threads of a warp
// call it together.
SPARSECONV_DEVICE inline void tally_bits(std::int32_t* counters, std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  int mine = 0;
  SPARSECONV_UNROLL
  for (int b = 0; b < kWarp; ++b) {
    const int count = __popc(__ballot_sync(~0u, (bits >> b & 1) != 0));
    if (lane == b) mine = count;
  }
  if (mine != 0) atomicAdd(counters + lane, mine);
#else
  for (int b = 0; b < kWarp; ++b) counters[b] += static_cast<std::int32_t>(bits >> b & 1);
#endif
}

// *at |= bits of all threads of the warp. All threads of a warp call it together, with the same
// `at`.
SPARSECONV_DEVICE inline void warp_or(std::uint32_t* at, std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  const std::uint32_t all = __reduce_or_sync(~0u, bits);
  if (threadIdx.x % kWarp == 0 && all != 0) atomicOr(at, all);
#else
  *at |= bits;
#endif
}

}  // namespace sparseconv::cuda

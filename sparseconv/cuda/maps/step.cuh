// What the steps of a map build are made of. A step is a struct with `jobs()`, `capacity(job)`
// (known on the host), `size(job)` (read where the step runs) and `operator()(job, i, is_active)`;
// a runner calls it for all i below size(job) rounded up to whole warps, where `is_active` is i <
// size(job). Steps call nothing of CUDA's host side and no other thread but through the functions
// below, which on the host act one after the other: so the same steps run, and are tested, without
// a GPU.
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
#define SPARSECONV_UNROLL_BY_8 _Pragma("unroll 8")
#define SPARSECONV_NO_UNROLL _Pragma("unroll 1")
#else
#define SPARSECONV_UNROLL
#define SPARSECONV_UNROLL_BY_8
#define SPARSECONV_NO_UNROLL
#endif

namespace sparseconv::cuda {

inline constexpr int kWarp = 32;

// Jobs of one launch: they travel with it, so that a block knows its job at once.
inline constexpr int kMaxJobs = 31;
template <class Job>
struct JobList {
  Job item[kMaxJobs];
  std::int32_t count = 0;
  SPARSECONV_DEVICE const Job& operator[](int job) const { return item[job]; }
};

// What a step that asks for it gets besides, as its last argument.
struct alignas(8) MemoryWord {
  std::uint32_t bits;
  std::int32_t number;
};
struct StepContext {
  std::int32_t* tally;  // for a counting step
  // For a step with memory: words of the thread's own, `stride` apart. On the device they lie in
  // shared memory, where a thread may index them freely; a local array indexed at run time would
  // travel through the caches.
  MemoryWord* words;
  int stride;
  SPARSECONV_DEVICE MemoryWord& word(int i) const { return words[i * stride]; }
};

// A step that counts things has `counters(job)`, kCounters of them, cleared; `context.tally` is a
// place to add to, which on the device is the thread block's own until the block ends.
inline constexpr int kCounters = 2 * kWarp;
template <class Step>
concept CountingStep = requires(const Step& step) {
  step.counters(0);
};
// A step that needs kMemoryWords words a thread.
template <class Step>
concept StepWithMemory = requires {
  Step::kMemoryWords;
};

// Keys and their values, as runners sort them.
template <class Key>
struct Sorted {
  Key* keys;
  std::int32_t* values;
};

// Which bits of keys a sort looks at: [0, low), and above them [from, from + high). Keys of bounded
// sets have nothing to tell apart between their cells and the batch.
struct SortBits {
  int low = 0, from = 0, high = 0;
  SPARSECONV_DEVICE constexpr int count() const { return low + high; }
  // What is looked at, as one number; bits above it may be anything.
  template <class Key>
  SPARSECONV_DEVICE constexpr Key of(Key key) const {
    if (high == 0) return key;
    return (key & ((Key{1} << low) - 1)) | key >> from << low;
  }
};

// How many there are: at most `capacity`, exactly *count where that is given.
struct ItemCount {
  std::int64_t capacity = 0;
  const std::int32_t* count = nullptr;
  SPARSECONV_DEVICE std::int32_t items() const {
    return count == nullptr || *count > capacity ? static_cast<std::int32_t>(capacity) : *count;
  }
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

SPARSECONV_DEVICE inline void atomic_or(std::uint64_t* at, std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  atomicOr(reinterpret_cast<unsigned long long*>(at), bits);
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

// *at, which grows by one. Threads of a warp that ask at once share an addition.
SPARSECONV_DEVICE inline std::int32_t next_number(std::int32_t* at) {
#if defined(__CUDA_ARCH__)
  const unsigned asking = __activemask(), lane = threadIdx.x % kWarp;
  const int first = __ffs(static_cast<int>(asking)) - 1;
  std::int32_t begin = 0;
  if (static_cast<int>(lane) == first) begin = atomicAdd(at, __popc(asking));
  return __shfl_sync(asking, begin, first) + __popc(asking & ((1u << lane) - 1));
#else
  return (*at)++;
#endif
}

// *at += values of all threads of the warp. All threads of a warp call it together, with the same
// `at`.
SPARSECONV_DEVICE inline void warp_add(std::int32_t* at, std::int32_t value) {
#if defined(__CUDA_ARCH__)
  const std::int32_t sum = __reduce_add_sync(~0u, value);
  if (threadIdx.x % kWarp == 0 && sum != 0) atomicAdd(at, sum);
#else
  *at += value;
#endif
}

SPARSECONV_DEVICE inline int bit_count(std::uint32_t v) {
#if defined(__CUDA_ARCH__)
  return __popc(v);
#else
  return std::popcount(v);
#endif
}

SPARSECONV_DEVICE inline int bit_count(std::uint64_t v) {
#if defined(__CUDA_ARCH__)
  return __popcll(v);
#else
  return std::popcount(v);
#endif
}

// Of a number that is not 0.
SPARSECONV_DEVICE inline int lowest_bit(std::uint32_t v) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(v)) - 1;
#else
  return std::countr_zero(v);
#endif
}

// counters[b] += number of threads of the warp whose bit b < kBits of `bits` is set. All threads of
// a warp call it together.
template <int kBits>
SPARSECONV_DEVICE inline void tally_bits(std::int32_t* counters, std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  std::uint32_t mine = 0;
#pragma unroll
  for (int b = 0; b < kBits; ++b) {
    const std::uint32_t with_bit = __ballot_sync(~0u, (bits >> b & 1) != 0);
    if (lane == b) mine = with_bit;
  }
  if (mine != 0) atomicAdd(counters + lane, __popc(mine));
#else
  for (int b = 0; b < kBits; ++b) counters[b] += static_cast<std::int32_t>(bits >> b & 1);
#endif
}

SPARSECONV_DEVICE inline int lowest_bit(std::uint64_t v) {
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(v)) - 1;
#else
  return std::countr_zero(v);
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

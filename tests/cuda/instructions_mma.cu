#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/atom/sm80_mma.cuh"
#include "gemm_core/atom/sm90_dense_wgmma.cuh"
#include "gemm_core/atom/sm90_descriptor.hpp"
#include "gemm_core/atom/sm90_register_wgmma.cuh"
#include "gemm_core/atom/sm90_sparse_wgmma.cuh"
#include "gemm_core/atom/sm90_wgmma.cuh"
#include "gemm_core/base/cuda/launch.cuh"
#include "tests/cuda/instructions.hpp"

namespace cuda_tests {
namespace {

namespace ptx = gemm_core::ptx;

template <class Element>
__global__ void warp_mma(const void* a, const void* b, void* d) {
  using Atom = gemm_core::Sm80Mma<Element>;
  using Register = std::conditional_t<std::is_same_v<Element, double>, double, std::uint32_t>;
  Register ra[4], rb[2];
  typename Atom::Sum rd[4];
  for (int r = 0; r < 4; ++r) ra[r] = static_cast<const Register*>(a)[threadIdx.x * 4 + r];
  for (int r = 0; r < 2; ++r) rb[r] = static_cast<const Register*>(b)[threadIdx.x * 2 + r];
  auto* sums = static_cast<typename Atom::Sum*>(d) + threadIdx.x * 4;
  for (int v = 0; v < 4; ++v) rd[v] = sums[v];
  Atom::multiply(rd, ra, rb);
  for (int v = 0; v < 4; ++v) sums[v] = rd[v];
}

// Operands to shared memory.
__device__ void fill(char* shared, const WgmmaOperands& o) {
  for (std::uint32_t i = threadIdx.x * 16; i < o.bytes_a + o.bytes_b; i += blockDim.x * 16) {
    const char* from = i < o.bytes_a ? static_cast<const char*>(o.a) + i
                                     : static_cast<const char*>(o.b) + (i - o.bytes_a);
    *reinterpret_cast<uint4*>(shared + i) = *reinterpret_cast<const uint4*>(from);
  }
  ptx::fence_proxy_async();
  __syncthreads();
}

// How far the next instruction's part of an operand lies, in 16 bytes. K-major: 32 bytes on. Rows
// of K: 32 / sizeof(Element) rows of 128 bytes on.
template <class Element, bool kKMajor>
constexpr std::uint32_t kStep = kKMajor ? 2 : 32 / sizeof(Element) * 128 / 16;

template <bool kKMajor>
__device__ std::uint64_t descriptor(std::uint32_t address, std::uint32_t bytes, int spans) {
  if constexpr (kKMajor)
    return gemm_core::wgmma_descriptor<128>(address);
  else
    return gemm_core::wgmma_mn_descriptor(address, bytes / static_cast<std::uint32_t>(spans));
}

template <class Atom, bool kKMajorA, bool kKMajorB, class Sum>
__global__ void wgmma(WgmmaOperands o, void* d) {
  extern __shared__ __align__(1024) char shared[];
  fill(shared, o);
  const std::uint32_t base = ptx::shared_address(shared);
  const std::uint64_t a = descriptor<kKMajorA>(base, o.bytes_a, 1),
                      b = descriptor<kKMajorB>(base + o.bytes_a, o.bytes_b, Atom::kN / 64);
  Sum sums[Atom::kAccumulators];
  auto* out = static_cast<Sum*>(d) + threadIdx.x * Atom::kAccumulators;
  for (int v = 0; v < Atom::kAccumulators; ++v) sums[v] = out[v];
  for (int s = 0; s < o.steps; ++s) {
    const auto step = static_cast<std::uint32_t>(s);
    ptx::wgmma_fence();
    Atom::issue(sums,
                gemm_core::moved_descriptor(a, step * kStep<typename Atom::Element, kKMajorA>),
                gemm_core::moved_descriptor(b, step * kStep<typename Atom::Element, kKMajorB>),
                s > 0 ? 1 : o.accumulate);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
  }
  for (int v = 0; v < Atom::kAccumulators; ++v) out[v] = sums[v];
}

template <class Atom>
__global__ void register_wgmma(WgmmaOperands o, const std::uint32_t* registers, void* d) {
  extern __shared__ __align__(1024) char shared[];
  fill(shared, o);
  const std::uint64_t b = descriptor<true>(ptx::shared_address(shared), o.bytes_b, 1);
  float sums[Atom::kAccumulators];
  auto* out = static_cast<float*>(d) + threadIdx.x * Atom::kAccumulators;
  for (int v = 0; v < Atom::kAccumulators; ++v) sums[v] = out[v];
  for (int s = 0; s < o.steps; ++s) {
    std::uint32_t a[4];
    for (int r = 0; r < 4; ++r) a[r] = registers[(s * 128 + static_cast<int>(threadIdx.x)) * 4 + r];
    ptx::wgmma_fence();
    Atom::issue(sums, a, gemm_core::moved_descriptor(b, static_cast<std::uint32_t>(s) * 2));
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
  }
  for (int v = 0; v < Atom::kAccumulators; ++v) out[v] = sums[v];
}

// B: spans of 64 elements of K, one after the other; two instructions each.
template <class Atom>
__global__ void sparse_wgmma(WgmmaOperands o, const std::uint32_t* metadata, void* d) {
  extern __shared__ __align__(1024) char shared[];
  fill(shared, o);
  const std::uint32_t base = ptx::shared_address(shared);
  const std::uint64_t a = descriptor<true>(base, o.bytes_a, 1),
                      b = descriptor<true>(base + o.bytes_a, o.bytes_b, 1);
  float sums[Atom::kAccumulators];
  auto* out = static_cast<float*>(d) + threadIdx.x * Atom::kAccumulators;
  for (int v = 0; v < Atom::kAccumulators; ++v) sums[v] = out[v];
  for (int s = 0; s < o.steps; ++s) {
    const auto step = static_cast<std::uint32_t>(s);
    ptx::wgmma_fence();
    Atom::issue(sums, gemm_core::moved_descriptor(a, step * 2),
                gemm_core::moved_descriptor(b, step / 2 * (Atom::kN * 128 / 16) + step % 2 * 4),
                metadata[s * 128 + static_cast<int>(threadIdx.x)], s > 0 ? 1 : o.accumulate);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
  }
  for (int v = 0; v < Atom::kAccumulators; ++v) out[v] = sums[v];
}

template <class Kernel, class... Arguments>
void run(Kernel kernel, unsigned threads, std::size_t shared_bytes, const Arguments&... arguments) {
  base::cuda::launch(kernel, {.block = dim3(threads), .shared_bytes = shared_bytes}, nullptr,
                     arguments...);
  CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

std::size_t shared_bytes(const WgmmaOperands& o) { return o.bytes_a + o.bytes_b; }

}  // namespace

template <class Element>
void run_warp_mma(const void* a, const void* b, void* d) {
  run(warp_mma<Element>, 32, 0, a, b, d);
}

template <class Element, int kN, bool kIsMnMajor>
void run_wgmma(const WgmmaOperands& o, void* d) {
  using Atom = gemm_core::Sm90Wgmma<Element, kN, kIsMnMajor>;
  run(wgmma<Atom, !kIsMnMajor, !kIsMnMajor, float>, 128, shared_bytes(o), o, d);
}

template <class Element, int kN, bool kKMajorA, bool kKMajorB>
void run_dense_wgmma(const WgmmaOperands& o, void* d) {
  using Atom = gemm_core::Sm90DenseWgmma<Element, kN, kKMajorA, kKMajorB>;
  run(wgmma<Atom, kKMajorA, kKMajorB, typename Atom::Sum>, 128, shared_bytes(o), o, d);
}

template <class Element, int kN>
void run_register_wgmma(const WgmmaOperands& o, void* d) {
  WgmmaOperands shared = o;
  shared.bytes_a = 0;
  run(register_wgmma<gemm_core::Sm90RegisterWgmma<Element, kN>>, 128, shared_bytes(shared), shared,
      static_cast<const std::uint32_t*>(o.a), d);
}

template <class Element>
void run_sparse_wgmma(const WgmmaOperands& o, const std::uint32_t* metadata, void* d) {
  run(sparse_wgmma<gemm_core::Sm90SparseWgmma<Element>>, 128, shared_bytes(o), o, metadata, d);
}

using base::bf16_t;
using base::e4m3_t;
using base::e5m2_t;
using base::half_t;
using base::tf32_t;

template void run_warp_mma<half_t>(const void*, const void*, void*);
template void run_warp_mma<bf16_t>(const void*, const void*, void*);
template void run_warp_mma<tf32_t>(const void*, const void*, void*);
template void run_warp_mma<std::int8_t>(const void*, const void*, void*);
template void run_warp_mma<double>(const void*, const void*, void*);

#define FOR_COLUMNS(element, mn)                                          \
  template void run_wgmma<element, 32, mn>(const WgmmaOperands&, void*);  \
  template void run_wgmma<element, 64, mn>(const WgmmaOperands&, void*);  \
  template void run_wgmma<element, 128, mn>(const WgmmaOperands&, void*); \
  template void run_wgmma<element, 256, mn>(const WgmmaOperands&, void*);
FOR_COLUMNS(half_t, false)
FOR_COLUMNS(bf16_t, false)
FOR_COLUMNS(tf32_t, false)
template void run_wgmma<half_t, 96, false>(const WgmmaOperands&, void*);
template void run_wgmma<bf16_t, 96, false>(const WgmmaOperands&, void*);
template void run_wgmma<tf32_t, 96, false>(const WgmmaOperands&, void*);
template void run_wgmma<half_t, 64, true>(const WgmmaOperands&, void*);
template void run_wgmma<half_t, 128, true>(const WgmmaOperands&, void*);
template void run_wgmma<bf16_t, 256, true>(const WgmmaOperands&, void*);
#undef FOR_COLUMNS

#define FOR_COLUMNS(element, a, b)                                                \
  template void run_dense_wgmma<element, 64, a, b>(const WgmmaOperands&, void*);  \
  template void run_dense_wgmma<element, 128, a, b>(const WgmmaOperands&, void*); \
  template void run_dense_wgmma<element, 256, a, b>(const WgmmaOperands&, void*);
#define FOR_MAJORS(element)         \
  FOR_COLUMNS(element, true, true)  \
  FOR_COLUMNS(element, true, false) \
  FOR_COLUMNS(element, false, true) \
  FOR_COLUMNS(element, false, false)
FOR_MAJORS(half_t)
FOR_MAJORS(bf16_t)
FOR_COLUMNS(tf32_t, true, true)
FOR_COLUMNS(e4m3_t, true, true)
FOR_COLUMNS(e5m2_t, true, true)
FOR_COLUMNS(std::int8_t, true, true)
#undef FOR_MAJORS
#undef FOR_COLUMNS

template void run_register_wgmma<half_t, 32>(const WgmmaOperands&, void*);
template void run_register_wgmma<half_t, 64>(const WgmmaOperands&, void*);
template void run_register_wgmma<half_t, 256>(const WgmmaOperands&, void*);
template void run_register_wgmma<bf16_t, 32>(const WgmmaOperands&, void*);
template void run_register_wgmma<bf16_t, 64>(const WgmmaOperands&, void*);
template void run_register_wgmma<bf16_t, 256>(const WgmmaOperands&, void*);
template void run_sparse_wgmma<half_t>(const WgmmaOperands&, const std::uint32_t*, void*);
template void run_sparse_wgmma<bf16_t>(const WgmmaOperands&, const std::uint32_t*, void*);

}  // namespace cuda_tests

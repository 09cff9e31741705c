// mma.sync atoms of sm_80: D[16, 8] (fp32 or int32) += A[16, K] * B[8, K]^T, K being 32 bytes
// (fp64: 64), from registers as ldmatrix leaves them. Thread-value layouts: cuda_mma_traits.hpp.
#pragma once
#include <cstdint>

#include "gemm_core/base/numeric.hpp"

namespace gemm_core {

namespace ptx {
// The first `bytes` of 16, which lie at a multiple of 16; zeros after them.
__device__ __forceinline__ void copy_16_partly(std::uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
}  // namespace ptx

template <class Element>
struct Sm80Mma;

#define SM80_MMA(shape, types, c)                                        \
  asm("mma.sync.aligned.m16n8" shape ".row.col." types                   \
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+" c(d[0]), "+" c(d[1]), "+" c(d[2]), "+" c(d[3])               \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <>
struct Sm80Mma<base::half_t> {
  using Sum = float;
  static __device__ __forceinline__ void multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
    SM80_MMA("k16", "f32.f16.f16.f32", "f");
  }
};
template <>
struct Sm80Mma<base::bf16_t> {
  using Sum = float;
  static __device__ __forceinline__ void multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
    SM80_MMA("k16", "f32.bf16.bf16.f32", "f");
  }
};
template <>
struct Sm80Mma<base::tf32_t> {
  using Sum = float;
  static __device__ __forceinline__ void multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
    SM80_MMA("k8", "f32.tf32.tf32.f32", "f");
  }
};
template <>
struct Sm80Mma<std::int8_t> {
  using Sum = std::int32_t;
  static __device__ __forceinline__ void multiply(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
    SM80_MMA("k32", "s32.s8.s8.s32", "r");
  }
};

// D[16, 8] += A[16, 8] * B[8, 8]^T in fp64: one instruction from sm_90 on, four of 8 x 8 x 4
// before.
template <>
struct Sm80Mma<double> {
  using Sum = double;
  static __device__ __forceinline__ void multiply(double (&d)[4], const double (&a)[4],
                                                  const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(d[2 * half]), "+d"(d[2 * half + 1])
            : "d"(a[2 * k + half]), "d"(b[k]));
      }
    }
#endif
  }
};

#undef SM80_MMA

}  // namespace gemm_core

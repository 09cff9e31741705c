// WGMMA with a structured sparse A: D[64, 128] += A[64, 32] * B[128, 32]^T where two of every four
// columns of A are stored (a tile of 64 x 16, K-major), B K-major, both in shared memory. fp32
// sums.
//
// Metadata: four bits a group of four columns, the lower kept column in the lower two; threads 0
// and 1 of each four hold columns 0 - 15 and 16 - 31 of row t / 32 * 16 + t % 32 / 4 (low half) and
// of the row eight below (high half).
#pragma once
#include <cstdint>
#include <type_traits>

#include "gemm_core/base/numeric.hpp"

namespace gemm_core {

#define SPARSE_D8(i)                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define SPARSE_D32(i) SPARSE_D8(i), SPARSE_D8(i + 8), SPARSE_D8(i + 16), SPARSE_D8(i + 24)
#define SPARSE_ISSUE(types)                                                                    \
  asm volatile(                                                                                \
      "{.reg .pred use_d; setp.ne.b32 use_d, %67, 0;\n"                                        \
      "wgmma.mma_async.sp.sync.aligned.m64n128k32." types                                      \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"   \
      "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"   \
      "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64," \
      " %65, %66, 0, use_d, 1, 1, 0, 0;}\n"                                                    \
      : SPARSE_D32(0), SPARSE_D32(32)                                                          \
      : "l"(desc_a), "l"(desc_b), "r"(metadata), "r"(accumulate))

template <class Element_>
struct Sm90SparseWgmma {
  using Element = Element_;
  static_assert(std::is_same_v<Element, base::half_t> || std::is_same_v<Element, base::bf16_t>);
  static constexpr int kM = 64, kN = 128, kK = 32;  // of the matrices that are multiplied
  static constexpr int kAccumulators = kN / 2;

  // Asynchronous: between ptx::wgmma_fence and ptx::wgmma_commit. accumulate == 0: D = A * B.
  static __device__ __forceinline__ void issue(float (&d)[kAccumulators], std::uint64_t desc_a,
                                               std::uint64_t desc_b, std::uint32_t metadata,
                                               int accumulate) {
    if constexpr (std::is_same_v<Element, base::half_t>)
      SPARSE_ISSUE("f32.f16.f16");
    else
      SPARSE_ISSUE("f32.bf16.bf16");
  }
};

#undef SPARSE_ISSUE
#undef SPARSE_D8
#undef SPARSE_D32

}  // namespace gemm_core

// WGMMA atoms whose A comes from registers: D[64, N] += A[64, 16] * B[N, 16]^T, f16 or bf16, fp32
// sums, B K-major in swizzled shared memory. Register v of D: as Sm90Wgmma (sm90_wgmma.cuh) says.
// Register r of A, thread t: row 16 * (t / 32) + t % 32 / 4 + 8 * (r % 2), k 2 * (t % 4) + 8 * (r /
// 2) and the one after it.
#pragma once
#include <cstdint>
#include <type_traits>

#include "gemm_core/base/numeric.hpp"

namespace gemm_core {

#define REGISTER_D8(i)                                                                        \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define REGISTER_D16(i) REGISTER_D8(i), REGISTER_D8(i + 8)
#define REGISTER_D32(i) REGISTER_D16(i), REGISTER_D16(i + 16)
#define REGISTER_D64(i) REGISTER_D32(i), REGISTER_D32(i + 32)
#define REGISTER_D128(i) REGISTER_D64(i), REGISTER_D64(i + 64)
#define REGISTER_R8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define REGISTER_R16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define REGISTER_R32 REGISTER_R16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define REGISTER_R64                                                                           \
  REGISTER_R32                                                                                 \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%" \
  "54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define REGISTER_R128                                                       \
  REGISTER_R64                                                              \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%8" \
  "1,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,"  \
  "%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%"  \
  "113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%"  \
  "127"
#define REGISTER_ISSUE(shape, type, count, four, from)                                      \
  asm volatile(                                                                             \
      "{.reg .pred yes; setp.eq.b32 yes, 0, 0;\n"                                           \
      "wgmma.mma_async.sync.aligned.m64" shape ".f32." type "." type " {" REGISTER_R##count \
      "}, {" four "}, " from ", yes, 1, 1, 0;}\n"                                           \
      : REGISTER_D##count(0)                                                                \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc_b))
#define REGISTER_BY_TYPE(n, count, four, from)         \
  if constexpr (std::is_same_v<Element, base::half_t>) \
    REGISTER_ISSUE(n "k16", "f16", count, four, from); \
  else                                                 \
    REGISTER_ISSUE(n "k16", "bf16", count, four, from)

template <class Element_, int kN_>
struct Sm90RegisterWgmma {
  using Element = Element_;
  static_assert(std::is_same_v<Element, base::half_t> || std::is_same_v<Element, base::bf16_t>);
  static_assert(kN_ == 16 || kN_ == 32 || kN_ == 64 || kN_ == 256);
  static constexpr int kN = kN_, kK = 16, kAccumulators = kN / 2;

  // Asynchronous: between ptx::wgmma_fence and ptx::wgmma_commit; `a` stays as it is until then.
  static __device__ __forceinline__ void issue(float (&d)[kAccumulators],
                                               const std::uint32_t (&a)[4], std::uint64_t desc_b) {
    if constexpr (kN == 16) {
      REGISTER_BY_TYPE("n16", 8, "%8,%9,%10,%11", "%12");
    } else if constexpr (kN == 32) {
      REGISTER_BY_TYPE("n32", 16, "%16,%17,%18,%19", "%20");
    } else if constexpr (kN == 64) {
      REGISTER_BY_TYPE("n64", 32, "%32,%33,%34,%35", "%36");
    } else {
      REGISTER_BY_TYPE("n256", 128, "%128,%129,%130,%131", "%132");
    }
  }
};

#undef REGISTER_BY_TYPE
#undef REGISTER_ISSUE
#undef REGISTER_R128
#undef REGISTER_R64
#undef REGISTER_R32
#undef REGISTER_R16
#undef REGISTER_R8
#undef REGISTER_D128
#undef REGISTER_D64
#undef REGISTER_D32
#undef REGISTER_D16
#undef REGISTER_D8

}  // namespace gemm_core

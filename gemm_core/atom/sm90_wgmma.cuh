// WGMMA atoms: D[64, N] (registers of fp32, of int8 products int32) += A[64, K] * B[N, K]^T, both
// operands K-major in shared memory, or, in the 16-bit types, both with rows of K: A[K, 64], B[K,
// N] (kIsMnMajor). Of sums of 8-bit products the tensor cores keep about 14 bits.
//
// Thread-value layout of D (thread t of the warpgroup, register v): row 16 * (t / 32) + t % 32 / 4
// + 8 * (v / 2 % 2), column 8 * (v / 4) + 2 * (t % 4) + v % 2.
#pragma once
#include <cstdint>
#include <type_traits>

#include "gemm_core/base/numeric.hpp"

namespace gemm_core {

// c: the constraint of the sums' registers.
#define WGMMA_D8(c, i)                                                             \
  "+" c(d[i]), "+" c(d[i + 1]), "+" c(d[i + 2]), "+" c(d[i + 3]), "+" c(d[i + 4]), \
      "+" c(d[i + 5]), "+" c(d[i + 6]), "+" c(d[i + 7])
#define WGMMA_D16(c, i) WGMMA_D8(c, i), WGMMA_D8(c, i + 8)
#define WGMMA_D32(c, i) WGMMA_D16(c, i), WGMMA_D16(c, i + 16)
#define WGMMA_D48(c, i) WGMMA_D32(c, i), WGMMA_D16(c, i + 32)
#define WGMMA_D64(c, i) WGMMA_D32(c, i), WGMMA_D32(c, i + 32)
#define WGMMA_D128(c, i) WGMMA_D64(c, i), WGMMA_D64(c, i + 64)
#define WGMMA_R16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define WGMMA_R32 WGMMA_R16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_R48 WGMMA_R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define WGMMA_R64 WGMMA_R48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define WGMMA_R128                                                               \
  WGMMA_R64                                                                      \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"             \
  ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"             \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
  ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
// shape: "n64k16"; types: of D, A and B; count: registers of D; a, b, p: how the asm names the
// three inputs; tail: signs of A and B and no transposition, where the type has them.
#define WGMMA_ISSUE(shape, types, c, count, a, b, p, tail)                            \
  asm volatile("{.reg .pred use_d; setp.ne.b32 use_d, " p                             \
               ", 0;\n"                                                               \
               "wgmma.mma_async.sync.aligned.m64" shape "." types " {" WGMMA_R##count \
               "}, " a ", " b ", use_d" tail ";}\n"                                   \
               : WGMMA_D##count(c, 0)                                                 \
               : "l"(desc_a), "l"(desc_b), "r"(accumulate))
#define WGMMA_BY_TYPE(n, count, a, b, p)                                        \
  if constexpr (std::is_same_v<Element, base::half_t> && !kIsMnMajor)           \
    WGMMA_ISSUE(n "k16", "f32.f16.f16", "f", count, a, b, p, ", 1, 1, 0, 0");   \
  else if constexpr (std::is_same_v<Element, base::half_t>)                     \
    WGMMA_ISSUE(n "k16", "f32.f16.f16", "f", count, a, b, p, ", 1, 1, 1, 1");   \
  else if constexpr (std::is_same_v<Element, base::bf16_t> && !kIsMnMajor)      \
    WGMMA_ISSUE(n "k16", "f32.bf16.bf16", "f", count, a, b, p, ", 1, 1, 0, 0"); \
  else if constexpr (std::is_same_v<Element, base::bf16_t>)                     \
    WGMMA_ISSUE(n "k16", "f32.bf16.bf16", "f", count, a, b, p, ", 1, 1, 1, 1"); \
  else if constexpr (std::is_same_v<Element, base::e4m3_t>)                     \
    WGMMA_ISSUE(n "k32", "f32.e4m3.e4m3", "f", count, a, b, p, ", 1, 1");       \
  else if constexpr (std::is_same_v<Element, base::tf32_t>)                     \
    WGMMA_ISSUE(n "k8", "f32.tf32.tf32", "f", count, a, b, p, ", 1, 1");        \
  else                                                                          \
    WGMMA_ISSUE(n "k32", "s32.s8.s8", "r", count, a, b, p, "")

template <class Element_, int kN_, bool kIsMnMajor_ = false>
struct Sm90Wgmma {
  using Element = Element_;
  static_assert(std::is_same_v<Element, base::half_t> || std::is_same_v<Element, base::bf16_t> ||
                std::is_same_v<Element, base::tf32_t> || std::is_same_v<Element, base::e4m3_t> ||
                std::is_same_v<Element, std::int8_t>);
  using Sum = std::conditional_t<std::is_same_v<Element, std::int8_t>, std::int32_t, float>;
  static constexpr bool kIsMnMajor = kIsMnMajor_;
  static_assert(!kIsMnMajor || sizeof(Element) == 2);
  static_assert(kN_ == 32 || kN_ == 64 || kN_ == 96 || kN_ == 128 || kN_ == 256);
  static constexpr int kM = 64, kN = kN_,
                       kK = 32 / static_cast<int>(sizeof(Element));  // 32 bytes of K
  static constexpr int kThreads = 128, kAccumulators = kN / 2;

  // Asynchronous: between ptx::wgmma_fence and ptx::wgmma_commit. accumulate == 0: D = A * B.
  static __device__ __forceinline__ void issue(Sum (&d)[kAccumulators], std::uint64_t desc_a,
                                               std::uint64_t desc_b, int accumulate) {
    if constexpr (kN == 32) {
      WGMMA_BY_TYPE("n32", 16, "%16", "%17", "%18");
    } else if constexpr (kN == 64) {
      WGMMA_BY_TYPE("n64", 32, "%32", "%33", "%34");
    } else if constexpr (kN == 96) {
      WGMMA_BY_TYPE("n96", 48, "%48", "%49", "%50");
    } else if constexpr (kN == 128) {
      WGMMA_BY_TYPE("n128", 64, "%64", "%65", "%66");
    } else {
      WGMMA_BY_TYPE("n256", 128, "%128", "%129", "%130");
    }
  }
};

#undef WGMMA_BY_TYPE
#undef WGMMA_ISSUE
#undef WGMMA_D8
#undef WGMMA_D16
#undef WGMMA_D32
#undef WGMMA_D48
#undef WGMMA_D64
#undef WGMMA_D128
#undef WGMMA_R16
#undef WGMMA_R32
#undef WGMMA_R48
#undef WGMMA_R64
#undef WGMMA_R128

}  // namespace gemm_core

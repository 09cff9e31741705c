// WGMMA atoms of dense products: D[64, N] += A[64, K] * B[N, K]^T from shared memory, either
// operand K-major or, where elements have 16 bits, MN-major. fp32 sums; int32 for 8-bit integers.
// Register v of thread t holds what Sm90Wgmma (sm90_wgmma.cuh) says.
#pragma once
#include <cstdint>
#include <type_traits>

#include "gemm_core/base/numeric.hpp"

namespace gemm_core {

#define DENSE_D8(c, i)                                                             \
  "+" c(d[i]), "+" c(d[i + 1]), "+" c(d[i + 2]), "+" c(d[i + 3]), "+" c(d[i + 4]), \
      "+" c(d[i + 5]), "+" c(d[i + 6]), "+" c(d[i + 7])
#define DENSE_D32(c, i) DENSE_D8(c, i), DENSE_D8(c, i + 8), DENSE_D8(c, i + 16), DENSE_D8(c, i + 24)
#define DENSE_D64(c, i) DENSE_D32(c, i), DENSE_D32(c, i + 32)
#define DENSE_D128(c, i) DENSE_D64(c, i), DENSE_D64(c, i + 64)
#define DENSE_R32                                                                     \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22" \
  ",%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define DENSE_R64                                                                        \
  DENSE_R32                                                                              \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52" \
  ",%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define DENSE_R128                                                                       \
  DENSE_R64                                                                              \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84" \
  ",%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103"     \
  ",%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119"     \
  ",%120,%121,%122,%123,%124,%125,%126,%127"
// tail: what follows scale-d, with `majors` as further inputs.
#define DENSE_ISSUE(shape, types, c, count, a, b, p, tail, ...)                       \
  asm volatile("{.reg .pred use_d; setp.ne.b32 use_d, " p                             \
               ", 0;\n"                                                               \
               "wgmma.mma_async.sync.aligned.m64" shape "." types " {" DENSE_R##count \
               "}, " a ", " b ", use_d" tail ";}\n"                                   \
               : DENSE_D##count(c, 0)                                                 \
               : "l"(desc_a), "l"(desc_b), "r"(accumulate)__VA_ARGS__)
#define DENSE_BY_TYPE(n, count, a, b, p, ta, tb)                                        \
  if constexpr (std::is_same_v<Element, base::half_t>)                                  \
    DENSE_ISSUE(n "k16", "f32.f16.f16", "f", count, a, b, p, ", 1, 1, " ta ", " tb, ,   \
                "n"(kMnMajorA), "n"(kMnMajorB));                                        \
  else if constexpr (std::is_same_v<Element, base::bf16_t>)                             \
    DENSE_ISSUE(n "k16", "f32.bf16.bf16", "f", count, a, b, p, ", 1, 1, " ta ", " tb, , \
                "n"(kMnMajorA), "n"(kMnMajorB));                                        \
  else if constexpr (std::is_same_v<Element, base::tf32_t>)                             \
    DENSE_ISSUE(n "k8", "f32.tf32.tf32", "f", count, a, b, p, ", 1, 1");                \
  else if constexpr (std::is_same_v<Element, base::e4m3_t>)                             \
    DENSE_ISSUE(n "k32", "f32.e4m3.e4m3", "f", count, a, b, p, ", 1, 1");               \
  else if constexpr (std::is_same_v<Element, base::e5m2_t>)                             \
    DENSE_ISSUE(n "k32", "f32.e5m2.e5m2", "f", count, a, b, p, ", 1, 1");               \
  else                                                                                  \
    DENSE_ISSUE(n "k32", "s32.s8.s8", "r", count, a, b, p, "")

template <class Element_, int kN_, bool kKMajorA = true, bool kKMajorB = true>
struct Sm90DenseWgmma {
  using Element = Element_;
  static constexpr bool kIsInteger = std::is_same_v<Element, std::int8_t>;
  using Sum = std::conditional_t<kIsInteger, std::int32_t, float>;
  static_assert(kIsInteger || std::is_same_v<Element, base::half_t> ||
                std::is_same_v<Element, base::bf16_t> || std::is_same_v<Element, base::tf32_t> ||
                std::is_same_v<Element, base::e4m3_t> || std::is_same_v<Element, base::e5m2_t>);
  static_assert((kKMajorA && kKMajorB) || sizeof(Element) == 2,
                "wgmma: only 16-bit operands may be MN-major");
  static_assert(kN_ == 64 || kN_ == 128 || kN_ == 256);
  static constexpr int kM = 64, kN = kN_, kK = 32 / static_cast<int>(sizeof(Element));
  static constexpr int kAccumulators = kN / 2;

  // Asynchronous: between ptx::wgmma_fence and ptx::wgmma_commit. accumulate == 0: D = A * B.
  static __device__ __forceinline__ void issue(Sum (&d)[kAccumulators], std::uint64_t desc_a,
                                               std::uint64_t desc_b, int accumulate) {
    [[maybe_unused]] constexpr int kMnMajorA = !kKMajorA, kMnMajorB = !kKMajorB;
    if constexpr (kN == 64) {
      DENSE_BY_TYPE("n64", 32, "%32", "%33", "%34", "%35", "%36");
    } else if constexpr (kN == 128) {
      DENSE_BY_TYPE("n128", 64, "%64", "%65", "%66", "%67", "%68");
    } else {
      DENSE_BY_TYPE("n256", 128, "%128", "%129", "%130", "%131", "%132");
    }
  }
};

#undef DENSE_BY_TYPE
#undef DENSE_ISSUE
#undef DENSE_D8
#undef DENSE_D32
#undef DENSE_D64
#undef DENSE_D128
#undef DENSE_R32
#undef DENSE_R64
#undef DENSE_R128

}  // namespace gemm_core

// The loop over k of a micro-tile of six rows by two vectors of AVX2, in assembly (included once
// per target). Its twelve sums, two vectors of B and two broadcasts take all 16 registers; GCC 12
// moves and spills sums in every arrangement of intrinsics that was tried, which costs a quarter of
// the speed.
#if defined(GEMM_CORE_X86_AVX2_MICRO_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef GEMM_CORE_X86_AVX2_MICRO_TILE_INL
#undef GEMM_CORE_X86_AVX2_MICRO_TILE_INL
#else
#define GEMM_CORE_X86_AVX2_MICRO_TILE_INL
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gemm_core/atom/cpu_ahead.hpp"
#include "gemm_core/atom/cpu_micro_tile-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether this target has the loop.
template <class T>
constexpr bool kLoopsByHand = std::is_same_v<T, float>&& HWY_TARGET == HWY_AVX2;

// Steps along k from one request for what is read later to the next.
template <class T>
constexpr std::int64_t kAheadSteps = kLoopsByHand<T> ? 8 : 4;

#if HWY_TARGET == HWY_AVX2

// As the template of cpu_multiply-inl.hpp, to the bit.
HWY_INLINE void multiply_fours(const float* const (&a)[6], std::int64_t fours, const float* b,
                               FloatVec (&sum)[6][2], Meanwhile& meanwhile) {
  static_assert(offsetof(Meanwhile, panel_step) == 8 && offsetof(Meanwhile, second) == 24 &&
                offsetof(Meanwhile, advance) == 32 && offsetof(Meanwhile, left) == 40 &&
                offsetof(Meanwhile, steps) == 48 && offsetof(Meanwhile, gap) == 56);
  if (fours == 0) {
    for (auto& row : sum) row[0] = row[1] = hn::Zero(FloatTag());
    return;
  }
  std::int64_t at = -16 * fours;  // bytes to the end of A's rows
  const std::int64_t k = 4 * fours;
  // clang-format off
#define GEMM_CORE_FOUR_STEPS(list)                                                \
      ".irp step, " list "\n"                                                     \
      "vmovaps 64*\\step(%[b]), %%ymm12\n"                                        \
      "vmovaps 64*\\step+32(%[b]), %%ymm13\n"                                     \
      "vbroadcastss 4*\\step(%[a0],%[at]), %%ymm14\n"                          \
      "vbroadcastss 4*\\step(%[a1],%[at]), %%ymm15\n"                          \
      "vfmadd231ps %%ymm12, %%ymm14, %[s00]\n vfmadd231ps %%ymm13, %%ymm14, %[s01]\n" \
      "vfmadd231ps %%ymm12, %%ymm15, %[s10]\n vfmadd231ps %%ymm13, %%ymm15, %[s11]\n" \
      "vbroadcastss 4*\\step(%[a2],%[at]), %%ymm14\n"                          \
      "vbroadcastss 4*\\step(%[a3],%[at]), %%ymm15\n"                          \
      "vfmadd231ps %%ymm12, %%ymm14, %[s20]\n vfmadd231ps %%ymm13, %%ymm14, %[s21]\n" \
      "vfmadd231ps %%ymm12, %%ymm15, %[s30]\n vfmadd231ps %%ymm13, %%ymm15, %[s31]\n" \
      "vbroadcastss 4*\\step(%[a4],%[at]), %%ymm14\n"                          \
      "vbroadcastss 4*\\step(%[a5],%[at]), %%ymm15\n"                          \
      "vfmadd231ps %%ymm12, %%ymm14, %[s40]\n vfmadd231ps %%ymm13, %%ymm14, %[s41]\n" \
      "vfmadd231ps %%ymm12, %%ymm15, %[s50]\n vfmadd231ps %%ymm13, %%ymm15, %[s51]\n" \
      ".endr\n"
  asm volatile(
      "vxorps %[s00], %[s00], %[s00]\n vxorps %[s01], %[s01], %[s01]\n"
      "vxorps %[s10], %[s10], %[s10]\n vxorps %[s11], %[s11], %[s11]\n"
      "vxorps %[s20], %[s20], %[s20]\n vxorps %[s21], %[s21], %[s21]\n"
      "vxorps %[s30], %[s30], %[s30]\n vxorps %[s31], %[s31], %[s31]\n"
      "vxorps %[s40], %[s40], %[s40]\n vxorps %[s41], %[s41], %[s41]\n"
      "vxorps %[s50], %[s50], %[s50]\n vxorps %[s51], %[s51], %[s51]\n"
      "cmp $-32, %[at]\n"
      "jg 3f\n"
      ".p2align 5\n"
      "1:\n"
      GEMM_CORE_FOUR_STEPS("0, 1, 2, 3")
      GEMM_CORE_FOUR_STEPS("4, 5, 6, 7")
      // As Meanwhile::step().
      "prefetcht1 (%[panel])\n"
      "prefetcht1 (%[line])\n"
      "prefetcht1 (%[line],%[second])\n"
      "add 8(%[m]), %[panel]\n"
      "add 32(%[m]), %[line]\n"
      "subq $1, 40(%[m])\n"
      "jnz 2f\n"
      "add 56(%[m]), %[line]\n"
      "mov 48(%[m]), %%r11\n"
      "mov %%r11, 40(%[m])\n"
      "2:\n"
      "add $512, %[b]\n"
      "add $32, %[at]\n"
      "cmp $-32, %[at]\n"
      "jle 1b\n"
      "3:\n"
      "test %[at], %[at]\n"
      "jz 4f\n"
      GEMM_CORE_FOUR_STEPS("0, 1, 2, 3")
      "4:\n"
      : [s00] "=&x"(sum[0][0].raw), [s01] "=&x"(sum[0][1].raw), [s10] "=&x"(sum[1][0].raw),
        [s11] "=&x"(sum[1][1].raw), [s20] "=&x"(sum[2][0].raw), [s21] "=&x"(sum[2][1].raw),
        [s30] "=&x"(sum[3][0].raw), [s31] "=&x"(sum[3][1].raw), [s40] "=&x"(sum[4][0].raw),
        [s41] "=&x"(sum[4][1].raw), [s50] "=&x"(sum[5][0].raw), [s51] "=&x"(sum[5][1].raw),
        [b] "+r"(b), [at] "+r"(at), [panel] "+r"(meanwhile.panel), [line] "+r"(meanwhile.line)
      : [a0] "r"(a[0] + k), [a1] "r"(a[1] + k), [a2] "r"(a[2] + k), [a3] "r"(a[3] + k),
        [a4] "r"(a[4] + k), [a5] "r"(a[5] + k), [second] "r"(meanwhile.second),
        [m] "r"(&meanwhile)
      : "ymm12", "ymm13", "ymm14", "ymm15", "r11", "cc", "memory");
#undef GEMM_CORE_FOUR_STEPS
  // clang-format on
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core::detail
HWY_AFTER_NAMESPACE();
#endif

#include "gemm_core/atom/cpu_mma_atoms.hpp"

#include "gemm_core/atom/x86_dot_products.hpp"

namespace gemm_core {

namespace {

// The dot-product atoms are the mainloops' kernels on the smallest problem that they take: words of
// several numbers, kRows x kDepth of A and kDepth x 16 of B.
template <class Word, int kRows, int kDepth, class Sum, class A, class B>
void multiply_smallest(void (*product)(const PanelProduct<Word, Sum>&), Sum* c, const A* a,
                       const B* b) {
  alignas(64) Word rows[kRows * kDepth], words[kDepth * 16];
  std::memcpy(rows, a, sizeof(rows));
  std::memcpy(words, b, sizeof(words));
  product({.base = rows,
           .pitch = kDepth,
           .rows = kRows,
           .k = kDepth,
           .columns = 16,
           .b = words,
           .c = c,
           .ldc = 16});
}

}  // namespace

bool Avx512Bf16Dot::is_available() { return x86::features().avx512_bf16; }
void Avx512Bf16Dot::call(C* c, const A* a, const B* b) {
  multiply_smallest<std::uint32_t, 1, 1>(x86::avx512_bf16_product(), c, a, b);
}

bool Avx512VnniDot::is_available() { return x86::features().avx512_vnni; }
void Avx512VnniDot::call(C* c, const A* a, const B* b) {
  multiply_smallest<std::int32_t, 1, 1>(x86::vnni_product(), c, a, b);
}

bool AmxBf16Tile::is_available() { return x86::features().amx_bf16; }
void AmxBf16Tile::call(C* c, const A* a, const B* b) {
  multiply_smallest<std::uint32_t, 16, 16>(x86::amx_bf16_product(), c, a, b);
}

bool AmxInt8Tile::is_available() { return x86::features().amx_int8; }
void AmxInt8Tile::call(C* c, const A* a, const B* b) {
  multiply_smallest<std::int32_t, 16, 16>(x86::amx_int8_product(), c, a, b);
}

}  // namespace gemm_core

#if defined(__x86_64__)
#include <immintrin.h>

namespace gemm_core {

bool Avx2FmaF32::is_available() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
__attribute__((target("avx2,fma"))) void Avx2FmaF32::call(C* c, const A* a, const B* b) {
  _mm256_storeu_ps(c,
                   _mm256_fmadd_ps(_mm256_broadcast_ss(a), _mm256_loadu_ps(b), _mm256_loadu_ps(c)));
}

bool Avx512FmaF32::is_available() { return __builtin_cpu_supports("avx512f"); }
__attribute__((target("avx512f"))) void Avx512FmaF32::call(C* c, const A* a, const B* b) {
  _mm512_storeu_ps(c, _mm512_fmadd_ps(_mm512_set1_ps(*a), _mm512_loadu_ps(b), _mm512_loadu_ps(c)));
}

bool Avx512FmaF64::is_available() { return __builtin_cpu_supports("avx512f"); }
__attribute__((target("avx512f"))) void Avx512FmaF64::call(C* c, const A* a, const B* b) {
  _mm512_storeu_pd(c, _mm512_fmadd_pd(_mm512_set1_pd(*a), _mm512_loadu_pd(b), _mm512_loadu_pd(c)));
}

}  // namespace gemm_core
#else
namespace gemm_core {

bool Avx2FmaF32::is_available() { return false; }
void Avx2FmaF32::call(C*, const A*, const B*) {}
bool Avx512FmaF32::is_available() { return false; }
void Avx512FmaF32::call(C*, const A*, const B*) {}
bool Avx512FmaF64::is_available() { return false; }
void Avx512FmaF64::call(C*, const A*, const B*) {}

}  // namespace gemm_core
#endif

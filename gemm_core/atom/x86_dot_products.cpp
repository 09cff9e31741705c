#include "gemm_core/atom/x86_dot_products.hpp"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gemm_core::x86 {

#if defined(__x86_64__) && defined(__linux__)
namespace {

constexpr bool has_bit(unsigned word, int bit) { return (word >> bit & 1u) != 0; }

std::uint64_t enabled_states() {
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

// Linux keeps AMX tiles from a process until it asks.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Features detect() {
  Features f;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !has_bit(c, 27)) return f;  // OSXSAVE
  constexpr std::uint64_t kVectors = 0xe6, kTiles = std::uint64_t{3} << 17;
  const std::uint64_t states = enabled_states();
  if ((states & kVectors) != kVectors || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  const bool avx512 = has_bit(b, 16) && has_bit(b, 30);  // F, BW
  f.avx512_vnni = avx512 && has_bit(c, 11);
  const bool tiles = has_bit(d, 24) && (states & kTiles) == kTiles && may_use_tiles();
  f.amx_int8 = tiles && has_bit(d, 25);
  f.amx_bf16 = tiles && has_bit(d, 22);
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) f.avx512_bf16 = avx512 && has_bit(a, 5);
  return f;
}

}  // namespace
#else
namespace {
Features detect() { return {}; }
}  // namespace

QuadProduct vnni_product() { return nullptr; }
Bf16Product avx512_bf16_product() { return nullptr; }
QuadProduct amx_int8_product() { return nullptr; }
Bf16Product amx_bf16_product() { return nullptr; }
#endif

const Features& features() {
  static const Features found = detect();
  return found;
}

void fill_dot_products(CpuAtoms& atoms) {
  constexpr std::int64_t kLanes = 16;
  if (atoms.lanes != kLanes) return;
  if (features().avx512_vnni) {
    atoms.multiply_u8i8 = vnni_product();
    atoms.u8i8_name = "AVX-512-VNNI";
  }
  if (features().avx512_bf16) {
    atoms.multiply_bf16 = avx512_bf16_product();
    atoms.bf16_name = "AVX-512-BF16";
  }
  if (features().amx_int8) {
    atoms.multiply_u8i8 = amx_int8_product();
    atoms.u8i8_name = "AMX-INT8";
  }
  if (features().amx_bf16) {
    atoms.multiply_bf16 = amx_bf16_product();
    atoms.bf16_name = "AMX-BF16";
  }
}

}  // namespace gemm_core::x86

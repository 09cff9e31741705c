// The x86 instructions that multiply several narrow numbers in a 32-bit lane: AVX-512-VNNI (uint8 x
// int8 quads), AVX-512-BF16 (pairs), and AMX, which does both on 16 x 16 tiles. All are compiled
// in; which one is used is decided when the program runs. They read panels of 16-lane vectors, so
// only the widest atoms get them.
#pragma once
#include <cstdint>

#include "gemm_core/atom/cpu_atoms.hpp"

namespace gemm_core::x86 {

struct Features {
  bool avx512_vnni = false, avx512_bf16 = false, amx_int8 = false, amx_bf16 = false;
};
// What processor and operating system offer (AMX also needs leave to use its state, asked for
// here).
const Features& features();

// Fills multiply_u8i8 and multiply_bf16 where atoms.lanes is 16 and the machine has an instruction.
void fill_dot_products(CpuAtoms& atoms);

// The single kernels, for tests and benchmarks; null where this build has none. Call only what
// features() shows.
using QuadProduct = void (*)(const PanelProduct<std::int32_t>&);
using Bf16Product = void (*)(const PanelProduct<std::uint32_t, float>&);
QuadProduct vnni_product();
Bf16Product avx512_bf16_product();
QuadProduct amx_int8_product();
Bf16Product amx_bf16_product();

}  // namespace gemm_core::x86

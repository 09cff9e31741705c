// Weights of 2, 4 or 8 bits, 32 bits at a time, to pairs of f16 or bf16 in registers.
//
// A thread of an MMA fragment wants pairs of neighbouring k. Weights lie along k, so that the two
// halves of a pair would have to be moved next to each other by shifts. Instead k is renumbered
// inside blocks of 8 * kPairs elements, for both operands: word q of a block (0 to 3: the thread's
// place in its group of four) holds elements q * 2 * kPairs + x; pair i takes x = i and x = i +
// kPairs, which are 16 bits apart. In the numbering of the MMA these are 8 * i + 2 * q and the one
// after it, so that element (2 * q + e) * kPairs + i of a block comes to place 8 * i + 2 * q + e:
// an 8 x kPairs matrix, turned. The other operand is written to shared memory in that order.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "gemm_core/base/numeric.hpp"

namespace gemm_core {

enum class NarrowFormat : std::uint8_t { bits_2, bits_4, bits_8, fp8 };

constexpr int bits_of(NarrowFormat format) {
  return format == NarrowFormat::bits_2 ? 2 : format == NarrowFormat::bits_4 ? 4 : 8;
}

// What distinguishes the types of a format.
struct NarrowCode {
  bool is_signed = true;  // integers
  bool is_e5m2 = false;   // fp8: else e4m3
};

// Pairs of values as 32 bits, in arithmetic that rounds each step.
template <class Compute>
struct ComputePair;
template <>
struct ComputePair<base::half_t> {
  using Pair = __half2;
  static constexpr std::uint32_t kMagic = 0x64006400;  // 1024, whose last bit counts 1
  static constexpr float kMagicValue = 1024;
  static __device__ __forceinline__ Pair of(float v) { return __float2half2_rn(v); }
  static __device__ __forceinline__ float2 wide(Pair v) { return __half22float2(v); }
  static __device__ __forceinline__ Pair narrow(float a, float b) {
    return __floats2half2_rn(a, b);
  }
};
template <>
struct ComputePair<base::bf16_t> {
  using Pair = __nv_bfloat162;
  static constexpr std::uint32_t kMagic = 0x43004300;  // 128
  static constexpr float kMagicValue = 128;
  static __device__ __forceinline__ Pair of(float v) { return __float2bfloat162_rn(v); }
  static __device__ __forceinline__ float2 wide(Pair v) { return __bfloat1622float2(v); }
  static __device__ __forceinline__ Pair narrow(float a, float b) {
    return __floats2bfloat162_rn(a, b);
  }
};

// Integers of `kBits` below the leading bit of a number whose last bit counts 1; signed ones are
// made unsigned by turning their highest bit. Subtracting leaves the value, exactly.
template <class Compute, NarrowFormat kFormat>
struct NarrowWords {
  using Arithmetic = ComputePair<Compute>;
  using Pair = typename Arithmetic::Pair;
  static constexpr int kBits = bits_of(kFormat), kPairs = 16 / kBits;
  static constexpr bool kIsWideInteger =
      kFormat == NarrowFormat::bits_8 && std::is_same_v<Compute, base::bf16_t>;
  std::uint32_t flip;
  Pair bias;
  bool is_e5m2;

  __device__ __forceinline__ explicit NarrowWords(const NarrowCode& code) : is_e5m2(code.is_e5m2) {
    constexpr std::uint32_t kTop = 1u << (kBits - 1);
    if constexpr (kIsWideInteger) {
      // 7 bits fit below 128; the eighth is -128, or, turned first, 128 less.
      flip = code.is_signed ? 0 : 0x00800080;
      bias = Arithmetic::of(code.is_signed ? 0.f : 128.f);
    } else {
      flip = Arithmetic::kMagic ^ (code.is_signed ? kTop * 0x00010001u : 0);
      bias = Arithmetic::of(Arithmetic::kMagicValue + (code.is_signed ? kTop : 0));
    }
  }

  // Pair i of a word; i is known when this is compiled.
  __device__ __forceinline__ Pair pair(std::uint32_t word, int i) const {
    if constexpr (kFormat == NarrowFormat::fp8) {
      return pair_of_fp8(word, i);
    } else if constexpr (kIsWideInteger) {
      const std::uint32_t bytes = (word >> 8 * i) ^ flip;
      const std::uint32_t low = (bytes & 0x007f007fu) | Arithmetic::kMagic,
                          high = (bytes & 0x00800080u) | Arithmetic::kMagic;
      return __hadd2_rn(__hsub2_rn(as_pair(low), as_pair(high)), bias);
    } else {
      constexpr std::uint32_t kMask = (1u << kBits) - 1;
      const std::uint32_t bits = ((word >> kBits * i) & (kMask * 0x00010001u)) ^ flip;
      return __hsub2_rn(as_pair(bits), bias);
    }
  }

  static __device__ __forceinline__ Pair as_pair(std::uint32_t bits) {
    return *reinterpret_cast<const Pair*>(&bits);
  }
  static __device__ __forceinline__ std::uint32_t bits(Pair pair) {
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }

 private:
  __device__ __forceinline__ Pair pair_of_fp8(std::uint32_t word, int i) const {
    // Bytes i and i + 2.
    const auto two =
        static_cast<__nv_fp8x2_storage_t>(__byte_perm(word, 0, i == 0 ? 0x4420 : 0x4431));
    // An e5m2 number is the upper half of an f16 one.
    const std::uint32_t upper = __byte_perm(word, 0, i == 0 ? 0x2404 : 0x3414);
    const __half2 four = __half2(__nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3));
    const __half2 v = is_e5m2 ? *reinterpret_cast<const __half2*>(&upper) : four;
    if constexpr (std::is_same_v<Compute, base::half_t>) {
      return v;
    } else {
      const float2 values = __half22float2(v);
      return Arithmetic::narrow(values.x, values.y);
    }
  }
};

}  // namespace gemm_core

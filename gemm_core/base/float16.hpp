// half_t, bf16_t, tf32_t. Conversion from float rounds to nearest even, overflow goes to infinity,
// NaN stays NaN, subnormals are kept. Conversion to float is exact. Other rounding and overflow
// rules: convert.hpp.
#pragma once
#include "gemm_core/base/host_device.hpp"

namespace base {

BASE_HD constexpr std::uint16_t f32_to_f16_bits(float value) {
  const std::uint32_t word = bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (word >> 16) & 0x8000u;
  const std::uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u)
    return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds past 65504
  if (magnitude < 0x38800000u) {                        // subnormal half or zero
    if (magnitude < 0x33000000u) return static_cast<std::uint16_t>(sign);
    const int shift = 126 - static_cast<int>(magnitude >> 23);  // 14 .. 24
    const std::uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t kept = fraction >> shift;
    const std::uint32_t rest = fraction & ((1u << shift) - 1), halfway = 1u << (shift - 1);
    const std::uint32_t up = rest > halfway || (rest == halfway && (kept & 1u));
    return static_cast<std::uint16_t>(sign | (kept + up));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

BASE_HD constexpr float f16_bits_to_f32(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu, fraction = half & 0x3ffu;
  if (exponent == 0x1f) return bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  if (fraction == 0) return bit_cast<float>(sign);
  const int lead = bit_width(fraction) - 1;  // 0 .. 9
  return bit_cast<float>(sign | static_cast<std::uint32_t>(lead + 103) << 23 |
                         ((fraction << (23 - lead)) & 0x7fffffu));
}

BASE_HD constexpr std::uint16_t f32_to_bf16_bits(float value) {
  const std::uint32_t word = bit_cast<std::uint32_t>(value);
  if ((word & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((word >> 16) | 0x40u);
  return static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

// Nearest even on the low 13 bits: what `cvt.rn.tf32.f32` computes.
BASE_HD constexpr float round_to_tf32(float value) {
  const std::uint32_t word = bit_cast<std::uint32_t>(value);
  if ((word & 0x7fffffffu) >= 0x7f800000u) return value;
  return bit_cast<float>((word + 0xfffu + ((word >> 13) & 1u)) & ~0x1fffu);
}

// Ties away from zero: what `cvt.rna.tf32.f32` computes (sm_80 has no other).
BASE_HD constexpr float round_to_tf32_away(float value) {
  const std::uint32_t word = bit_cast<std::uint32_t>(value);
  if ((word & 0x7fffffffu) >= 0x7f800000u) return value;
  return bit_cast<float>((word + 0x1000u) & ~0x1fffu);
}

struct half_t {
  std::uint16_t bits = 0;
  half_t() = default;
  BASE_HD constexpr explicit half_t(float value) : bits(f32_to_f16_bits(value)) {}
  BASE_HD constexpr operator float() const { return f16_bits_to_f32(bits); }
  BASE_HD static constexpr half_t from_bits(std::uint16_t b) {
    half_t h;
    h.bits = b;
    return h;
  }
};

struct bf16_t {
  std::uint16_t bits = 0;
  bf16_t() = default;
  BASE_HD constexpr explicit bf16_t(float value) : bits(f32_to_bf16_bits(value)) {}
  BASE_HD constexpr operator float() const {
    return bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  BASE_HD static constexpr bf16_t from_bits(std::uint16_t b) {
    bf16_t h;
    h.bits = b;
    return h;
  }
};

// A float whose low 13 bits are zero. Built from a float by nearest even; round_to_tf32_away serves
// kernels that say so.
struct tf32_t {
  float value = 0;
  tf32_t() = default;
  BASE_HD constexpr explicit tf32_t(float v) : value(round_to_tf32(v)) {}
  BASE_HD constexpr operator float() const { return value; }
};

}  // namespace base

// Narrow floating point types stored as bit patterns: half_t, bf16_t, tf32_t. Conversion from float rounds to
// nearest even, overflow goes to infinity, NaN stays NaN, subnormals are kept. Conversion to float is exact.
#pragma once
#include <bit>
#include <cstdint>

#include "gemm_core/base/dtype.hpp"

namespace base {

constexpr std::uint16_t f32_to_f16_bits(float value) {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (word >> 16) & 0x8000u;
  const std::uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds past 65504
  if (magnitude < 0x38800000u) {  // subnormal half or zero
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

constexpr float f16_bits_to_f32(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu, fraction = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  if (fraction == 0) return std::bit_cast<float>(sign);
  const int lead = 31 - std::countl_zero(fraction);  // 0 .. 9
  return std::bit_cast<float>(sign | static_cast<std::uint32_t>(lead + 103) << 23 |
                              ((fraction << (23 - lead)) & 0x7fffffu));
}

constexpr std::uint16_t f32_to_bf16_bits(float value) {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  if ((word & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((word >> 16) | 0x40u);
  return static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

// Nearest even on the low 13 bits: what `cvt.rn.tf32.f32` computes.
constexpr float round_to_tf32(float value) {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
  if ((word & 0x7fffffffu) >= 0x7f800000u) return value;
  return std::bit_cast<float>((word + 0xfffu + ((word >> 13) & 1u)) & ~0x1fffu);
}

struct half_t {
  std::uint16_t bits = 0;
  half_t() = default;
  constexpr explicit half_t(float value) : bits(f32_to_f16_bits(value)) {}
  constexpr operator float() const { return f16_bits_to_f32(bits); }
  static constexpr half_t from_bits(std::uint16_t b) { half_t h; h.bits = b; return h; }
};

struct bf16_t {
  std::uint16_t bits = 0;
  bf16_t() = default;
  constexpr explicit bf16_t(float value) : bits(f32_to_bf16_bits(value)) {}
  constexpr operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  static constexpr bf16_t from_bits(std::uint16_t b) { bf16_t h; h.bits = b; return h; }
};

// A float whose low 13 bits are zero.
struct tf32_t {
  float value = 0;
  tf32_t() = default;
  constexpr explicit tf32_t(float v) : value(round_to_tf32(v)) {}
  constexpr operator float() const { return value; }
};

template <class T> struct dtype_of;
template <> struct dtype_of<double> { static constexpr DType value = DType::f64; };
template <> struct dtype_of<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of<half_t> { static constexpr DType value = DType::f16; };
template <> struct dtype_of<bf16_t> { static constexpr DType value = DType::bf16; };
template <> struct dtype_of<tf32_t> { static constexpr DType value = DType::tf32; };
template <> struct dtype_of<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct dtype_of<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct dtype_of<std::int16_t> { static constexpr DType value = DType::i16; };
template <> struct dtype_of<std::int8_t> { static constexpr DType value = DType::i8; };
template <> struct dtype_of<std::uint64_t> { static constexpr DType value = DType::u64; };
template <> struct dtype_of<std::uint32_t> { static constexpr DType value = DType::u32; };
template <> struct dtype_of<std::uint16_t> { static constexpr DType value = DType::u16; };
template <> struct dtype_of<std::uint8_t> { static constexpr DType value = DType::u8; };
template <class T> inline constexpr DType dtype_v = dtype_of<T>::value;

// The one dtype switch. Callers list what they support; anything else is an error naming the operation.
//   visit_dtype<float, half_t>(x.dtype(), "relu", [&]<class T>() { ... });
template <class... Supported, class F>
void visit_dtype(DType type, const char* operation, F&& body) {
  const bool found = ((type == dtype_v<Supported> ? (body.template operator()<Supported>(), true) : false) || ...);
  if (!found) fail(operation, ": element type ", name(type), " is not supported");
}

}  // namespace base

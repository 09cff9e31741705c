// Single elements of any number type, for operands that no vector loop reads.
#pragma once
#include <cstdint>

#include "gemm_core/base/array.hpp"
#include "gemm_core/base/convert.hpp"
#include "gemm_core/base/numeric.hpp"

namespace gemm_core {

constexpr bool is_narrow_float(base::DType t) {
  return t == base::DType::f32 || t == base::DType::f16 || t == base::DType::bf16;
}
constexpr bool is_fp8(base::DType t) { return t == base::DType::e4m3 || t == base::DType::e5m2; }
constexpr bool is_complex(base::DType t) { return t == base::DType::c64 || t == base::DType::c128; }
// Integers of at most 8 bits: operands of integer products, and quantised weights.
constexpr bool is_small_integer(base::DType t) {
  using enum base::DType;
  return t == i8 || t == u8 || t == i4 || t == i2 || t == u4 || t == u2 || t == b1;
}

template <class T>
T packed_element(const void* data, std::int64_t at) {
  constexpr int kPerByte = 8 / base::bits_of<T>;
  // Offsets may be negative: division rounds down.
  const std::int64_t byte = at >= 0 ? at / kPerByte : -((-at + kPerByte - 1) / kPerByte);
  const auto within = static_cast<unsigned>(at - byte * kPerByte) * base::bits_of<T>;
  return T::from_bits(static_cast<unsigned>(static_cast<const std::uint8_t*>(data)[byte]) >>
                      within);
}

inline int integer_element(const void* data, base::DType type, std::int64_t at) {
  using base::DType;
  switch (type) {
    case DType::u8:
      return static_cast<const std::uint8_t*>(data)[at];
    case DType::i4:
      return packed_element<base::int4_t>(data, at);
    case DType::u4:
      return packed_element<base::uint4_t>(data, at);
    case DType::i2:
      return packed_element<base::int2_t>(data, at);
    case DType::u2:
      return packed_element<base::uint2_t>(data, at);
    case DType::b1:
      return packed_element<base::uint1_t>(data, at);
    default:
      return static_cast<const std::int8_t*>(data)[at];
  }
}

// All types above, the narrow floats and fp8.
inline float float_element(const void* data, base::DType type, std::int64_t at) {
  using base::DType;
  switch (type) {
    case DType::f32:
      return static_cast<const float*>(data)[at];
    case DType::f16:
      return static_cast<const base::half_t*>(data)[at];
    case DType::bf16:
      return static_cast<const base::bf16_t*>(data)[at];
    case DType::e4m3:
      return static_cast<float>(static_cast<const base::e4m3_t*>(data)[at]);
    case DType::e5m2:
      return static_cast<float>(static_cast<const base::e5m2_t*>(data)[at]);
    default:
      return static_cast<float>(integer_element(data, type, at));
  }
}

// The nearest value of `type` (saturating for fp8), as fp32.
inline float rounded_to(float value, base::DType type) {
  using base::DType;
  switch (type) {
    case DType::f16:
      return base::half_t(value);
    case DType::bf16:
      return base::bf16_t(value);
    case DType::tf32:
      return base::round_to_tf32(value);
    case DType::e4m3:
      return static_cast<float>(base::convert<base::e4m3_t>(value));
    case DType::e5m2:
      return static_cast<float>(base::convert<base::e5m2_t>(value));
    case DType::i8:
      return static_cast<float>(base::convert<std::int8_t>(value));
    default:
      return value;
  }
}

inline void store_element(void* data, base::DType type, std::int64_t at, float value) {
  using base::DType;
  switch (type) {
    case DType::f16:
      static_cast<base::half_t*>(data)[at] = base::half_t(value);
      return;
    case DType::bf16:
      static_cast<base::bf16_t*>(data)[at] = base::bf16_t(value);
      return;
    case DType::e4m3:
      static_cast<base::e4m3_t*>(data)[at] = base::convert<base::e4m3_t>(value);
      return;
    case DType::e5m2:
      static_cast<base::e5m2_t*>(data)[at] = base::convert<base::e5m2_t>(value);
      return;
    case DType::i8:
      static_cast<std::int8_t*>(data)[at] = base::convert<std::int8_t>(value);
      return;
    default:
      static_cast<float*>(data)[at] = value;
      return;
  }
}

}  // namespace gemm_core

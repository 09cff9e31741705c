// Element types of tensors and of point cloud fields. Sub-byte types: element 0 in the low bits.
#pragma once
#include <cstdint>
#include <string_view>

#include "gemm_core/base/error.hpp"

namespace base {
// clang-format off
enum class DType : std::uint8_t {
  f64, f32, tf32, f16, bf16, e4m3, e5m2,
  i64, i32, i16, i8, u64, u32, u16, u8,
  i4, i2, u4, u2, b1,
  c64, c128,  // complex of f32 and f64
};

constexpr int bits(DType type) {
  switch (type) {
    case DType::c128: return 128;
    case DType::f64: case DType::i64: case DType::u64: case DType::c64: return 64;
    case DType::f32: case DType::tf32: case DType::i32: case DType::u32: return 32;
    case DType::f16: case DType::bf16: case DType::i16: case DType::u16: return 16;
    case DType::e4m3: case DType::e5m2: case DType::i8: case DType::u8: return 8;
    case DType::i4: case DType::u4: return 4;
    case DType::i2: case DType::u2: return 2;
    case DType::b1: return 1;
  }
  return 0;
}
// clang-format on
// Bytes of `count` packed elements, rounded up to a whole byte.
constexpr std::int64_t bytes(DType type, std::int64_t count = 1) {
  return (count * bits(type) + 7) / 8;
}
// clang-format off
constexpr std::string_view name(DType type) {
  switch (type) {
    case DType::f64: return "float64";
    case DType::f32: return "float32";
    case DType::tf32: return "tf32";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    case DType::e4m3: return "float8_e4m3";
    case DType::e5m2: return "float8_e5m2";
    case DType::i64: return "int64";
    case DType::i32: return "int32";
    case DType::i16: return "int16";
    case DType::i8: return "int8";
    case DType::u64: return "uint64";
    case DType::u32: return "uint32";
    case DType::u16: return "uint16";
    case DType::u8: return "uint8";
    case DType::i4: return "int4";
    case DType::i2: return "int2";
    case DType::u4: return "uint4";
    case DType::u2: return "uint2";
    case DType::b1: return "bool1";
    case DType::c64: return "complex64";
    case DType::c128: return "complex128";
  }
  return "unknown";
}

constexpr bool is_float(DType t) { return t <= DType::e5m2; }
constexpr bool is_signed_integer(DType t) {
  return t == DType::i64 || t == DType::i32 || t == DType::i16 || t == DType::i8 || t == DType::i4 ||
         t == DType::i2;
}
// clang-format on
// "fp32", "f32" and "float32" all name DType::f32, and so on: what command lines accept.
DType parse_dtype(std::string_view text);

}  // namespace base

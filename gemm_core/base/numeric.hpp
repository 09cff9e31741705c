// All number types (float16, float8, small_integer, complex), DType of each, the one dtype switch.
#pragma once
#include <cstdint>

#include "gemm_core/base/complex.hpp"
#include "gemm_core/base/dtype.hpp"
#include "gemm_core/base/float16.hpp"
#include "gemm_core/base/float8.hpp"
#include "gemm_core/base/small_integer.hpp"

namespace base {
// clang-format off
template <class T> struct dtype_of;
template <> struct dtype_of<double> { static constexpr DType value = DType::f64; };
template <> struct dtype_of<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of<half_t> { static constexpr DType value = DType::f16; };
template <> struct dtype_of<bf16_t> { static constexpr DType value = DType::bf16; };
template <> struct dtype_of<tf32_t> { static constexpr DType value = DType::tf32; };
template <> struct dtype_of<e4m3_t> { static constexpr DType value = DType::e4m3; };
template <> struct dtype_of<e5m2_t> { static constexpr DType value = DType::e5m2; };
template <> struct dtype_of<int4_t> { static constexpr DType value = DType::i4; };
template <> struct dtype_of<int2_t> { static constexpr DType value = DType::i2; };
template <> struct dtype_of<uint4_t> { static constexpr DType value = DType::u4; };
template <> struct dtype_of<uint2_t> { static constexpr DType value = DType::u2; };
template <> struct dtype_of<uint1_t> { static constexpr DType value = DType::b1; };
template <> struct dtype_of<complex<float>> { static constexpr DType value = DType::c64; };
template <> struct dtype_of<complex<double>> { static constexpr DType value = DType::c128; };
template <> struct dtype_of<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct dtype_of<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct dtype_of<std::int16_t> { static constexpr DType value = DType::i16; };
template <> struct dtype_of<std::int8_t> { static constexpr DType value = DType::i8; };
template <> struct dtype_of<std::uint64_t> { static constexpr DType value = DType::u64; };
template <> struct dtype_of<std::uint32_t> { static constexpr DType value = DType::u32; };
template <> struct dtype_of<std::uint16_t> { static constexpr DType value = DType::u16; };
template <> struct dtype_of<std::uint8_t> { static constexpr DType value = DType::u8; };
template <class T> inline constexpr DType dtype_v = dtype_of<T>::value;

// The one dtype switch. Callers list what they support; all else is an error naming the operation.
//   visit_dtype<float, half_t>(x.dtype(), "relu", [&]<class T>() { ... });
template <class... Supported, class F>
void visit_dtype(DType type, const char* operation, F&& body) {
  const bool found = ((type == dtype_v<Supported> ? (body.template operator()<Supported>(), true) : false) || ...);
  if (!found) fail(operation, ": element type ", name(type), " is not supported");
}
// clang-format on
}  // namespace base

// Elements of a dense operand of any type and strides, one at a time or 16 bytes of the type that
// is multiplied: for kernels that take operands as they come.
#pragma once
#include "gemm_core/epilogue/cuda/dense_epilogue.cuh"

namespace gemm_core {

// GroupedValues as a kernel sees them: one value for row_group rows by k_group of k.
struct GroupedRef {
  const void* data = nullptr;
  base::DType type = base::DType::f32;
  std::int64_t row_stride = 0, k_stride = 0, row_group = 1, k_group = 1;

  __device__ __forceinline__ float at(std::int64_t row, std::int64_t k) const {
    return load_value(data, type, row / row_group * row_stride + k / k_group * k_stride);
  }
};

// A: rows of the product by k; B: columns of the product by k.
struct DenseOperand {
  const void* data = nullptr;
  const void* const* pointers = nullptr;  // one a batch, instead of data and batch_stride
  std::int64_t row_stride = 0, k_stride = 1, batch_stride = 0;
  std::int64_t rows = 0;
  base::DType type = base::DType::f32;
  base::DType rounds_to = base::DType::f32;  // what is multiplied
  bool is_plain = false;                     // elements are stored as they are multiplied
  bool vectors = false;                      // and rows are aligned to 16 bytes
  GroupedRef scale, zero;                    // of weights: scale * value + zero, rounded twice

  bool is_scaled() const { return scale.data != nullptr || zero.data != nullptr; }
  __device__ __forceinline__ const void* data_of(std::int64_t batch) const {
    return pointers != nullptr ? pointers[batch] : data;
  }
  __device__ __forceinline__ std::int64_t offset_of(std::int64_t row, std::int64_t k,
                                                    std::int64_t batch) const {
    return row * row_stride + k * k_stride + (pointers != nullptr ? 0 : batch * batch_stride);
  }
};

// Nearest even, like the host's; NaN stays NaN.
__device__ __forceinline__ float round_tf32(float v) {
  const std::uint32_t bits = __float_as_uint(v);
  if ((bits & 0x7f800000u) == 0x7f800000u) return v;
  return __uint_as_float((bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu);
}

// The nearest value of `type`, as fp32; 8-bit floats saturate.
__device__ __forceinline__ float rounded_value(float v, base::DType type) {
  using base::DType;
  switch (type) {
    case DType::f16:
      return __half2float(__float2half_rn(v));
    case DType::bf16:
      return __bfloat162float(__float2bfloat16_rn(v));
    case DType::tf32:
      return round_tf32(v);
    case DType::e4m3:
      return __half2float(__half(
          __nv_cvt_fp8_to_halfraw(__nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3), __NV_E4M3)));
    case DType::e5m2:
      return __half2float(__half(
          __nv_cvt_fp8_to_halfraw(__nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2), __NV_E5M2)));
    default:
      return v;
  }
}

// Packed integers below a byte, the first lowest; offsets are not negative.
__device__ __forceinline__ int load_integer(const void* data, base::DType type, std::int64_t at) {
  using base::DType;
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  switch (type) {
    case DType::i8:
      return static_cast<const std::int8_t*>(data)[at];
    case DType::u8:
      return bytes[at];
    case DType::i4:
      return static_cast<std::int32_t>(static_cast<std::uint32_t>(bytes[at >> 1] >> (at & 1) * 4)
                                       << 28) >>
             28;
    case DType::u4:
      return bytes[at >> 1] >> (at & 1) * 4 & 15;
    case DType::i2:
      return static_cast<std::int32_t>(static_cast<std::uint32_t>(bytes[at >> 2] >> (at & 3) * 2)
                                       << 30) >>
             30;
    case DType::u2:
      return bytes[at >> 2] >> (at & 3) * 2 & 3;
    default:
      return bytes[at >> 3] >> (at & 7) & 1;
  }
}

__device__ __forceinline__ bool is_integer_type(base::DType type) {
  return type == base::DType::i8 || type >= base::DType::u8;
}

// What is multiplied, where it has to be converted: Value is float or int32. `at`: the offset of
// element (row, k). A function of its own: slow, but small, and rarely called.
template <class Value>
__device__ __noinline__ Value converted_operand(const DenseOperand& o, const void* data,
                                                std::int64_t at, std::int64_t row, std::int64_t k) {
  if constexpr (std::is_same_v<Value, std::int32_t>) {
    return load_integer(data, o.type, at);
  } else {
    float v = is_integer_type(o.type) ? static_cast<float>(load_integer(data, o.type, at))
                                      : load_value(data, o.type, at);
    if (o.type != o.rounds_to) v = rounded_value(v, o.rounds_to);
    if (o.scale.data != nullptr) v = rounded_value(__fmul_rn(v, o.scale.at(row, k)), o.rounds_to);
    if (o.zero.data != nullptr) v = rounded_value(__fadd_rn(v, o.zero.at(row, k)), o.rounds_to);
    return v;
  }
}

}  // namespace gemm_core

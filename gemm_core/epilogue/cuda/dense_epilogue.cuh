// The epilogue of dense products as kernels see it: alpha * sum + beta * C and a list of nodes, in
// fp32, on eight neighbouring columns of a row at a time; loads and stores of any element type and
// stride, 16 bytes at a time where the operands allow it.
#pragma once
#include <cuda_fp8.h>

#include "gemm_core/epilogue/cuda/device_epilogue.cuh"

namespace gemm_core {

struct DenseNode {
  EpilogueNode::Kind kind = EpilogueNode::Kind::activate;
  Activation activation = Activation::identity;
  float slope = 1;
  const float* scale = nullptr;
  const float* shift = nullptr;
  const void* aux = nullptr;
  std::int64_t aux_pitch = 0;
  base::DType aux_type = base::DType::f32;
  bool aux_vectors = false;
};

struct DenseMatrix {
  void* data = nullptr;
  void* const* pointers = nullptr;  // one a batch, instead of data and batch_stride
  std::int64_t row_stride = 0, column_stride = 1, batch_stride = 0;
  base::DType type = base::DType::f32;
  bool vectors = false;  // eight columns of a row, from a multiple of eight on, are aligned vectors
};

struct DenseEpilogue {
  static constexpr int kMaxNodes = 8;
  DenseMatrix c, d;  // c: where beta is not 0
  float alpha = 1, beta = 0;
  double alpha_64 = 1, beta_64 = 0;  // of f64 results
  std::int64_t m = 0, n = 0;
  // Nodes and C can be applied to accumulators in registers: f32, f16 and bf16 matrices whose rows
  // are aligned to 16 bytes, n a multiple of 8.
  bool fuses = false;
  int early_add = -1;       // the first node that adds a 16-bit matrix, where nodes are fused
  bool rows_first = false;  // neighbouring threads take neighbouring rows: D is column-major
  int count = 0;
  DenseNode nodes[kMaxNodes];
};

__device__ __forceinline__ void* data_of(const DenseMatrix& matrix, std::int64_t batch) {
  return matrix.pointers != nullptr ? matrix.pointers[batch] : matrix.data;
}
__device__ __forceinline__ std::int64_t offset_of(const DenseMatrix& matrix, std::int64_t row,
                                                  std::int64_t column, std::int64_t batch) {
  return row * matrix.row_stride + column * matrix.column_stride +
         (matrix.pointers != nullptr ? 0 : batch * matrix.batch_stride);
}

__device__ __forceinline__ float load_value(const void* data, base::DType type, std::int64_t at) {
  using base::DType;
  switch (type) {
    case DType::f16:
      return __half2float(static_cast<const __half*>(data)[at]);
    case DType::bf16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
    case DType::e4m3:
      return __half2float(__half(
          __nv_cvt_fp8_to_halfraw(static_cast<const __nv_fp8_storage_t*>(data)[at], __NV_E4M3)));
    case DType::e5m2:
      return __half2float(__half(
          __nv_cvt_fp8_to_halfraw(static_cast<const __nv_fp8_storage_t*>(data)[at], __NV_E5M2)));
    case DType::i8:
      return static_cast<const std::int8_t*>(data)[at];
    case DType::u8:
      return static_cast<const std::uint8_t*>(data)[at];
    default:
      return static_cast<const float*>(data)[at];
  }
}

// Nearest even; 8-bit types saturate.
__device__ __forceinline__ void store_value(void* data, base::DType type, std::int64_t at,
                                            float v) {
  using base::DType;
  switch (type) {
    case DType::f16:
      static_cast<__half*>(data)[at] = __float2half_rn(v);
      return;
    case DType::bf16:
      static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(v);
      return;
    case DType::e4m3:
      static_cast<__nv_fp8_storage_t*>(data)[at] =
          __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
      return;
    case DType::e5m2:
      static_cast<__nv_fp8_storage_t*>(data)[at] =
          __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
      return;
    case DType::i8: {
      std::int32_t rounded;
      asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(rounded) : "f"(v));
      static_cast<std::int8_t*>(data)[at] = static_cast<std::int8_t>(rounded);
      return;
    }
    default:
      static_cast<float*>(data)[at] = v;
      return;
  }
}

// Two values as the bits of a pair of `type` (f16 or bf16).
__device__ __forceinline__ std::uint32_t pack_pair(base::DType type, float a, float b) {
  return type == base::DType::f16 ? DeviceElement<base::half_t>::pack(a, b)
                                  : DeviceElement<base::bf16_t>::pack(a, b);
}
__device__ __forceinline__ float2 unpack_pair(base::DType type, std::uint32_t bits) {
  return type == base::DType::f16 ? DeviceElement<base::half_t>::unpack(bits)
                                  : DeviceElement<base::bf16_t>::unpack(bits);
}

constexpr int kDenseRun = 8;  // columns that a thread takes at a time

// The first `count` of the eight values at `at`, `step` apart; the others are 0.
__device__ __forceinline__ void load_run(const void* data, base::DType type, bool vectors,
                                         std::int64_t at, std::int64_t step, int count,
                                         float (&v)[kDenseRun]) {
  using base::DType;
  if (vectors && count == kDenseRun && type == DType::f32) {
    const auto* from = reinterpret_cast<const float4*>(static_cast<const float*>(data) + at);
    const float4 low = from[0], high = from[1];
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
    v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
  } else if (vectors && count == kDenseRun && (type == DType::f16 || type == DType::bf16)) {
    const uint4 raw = *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(data) + at);
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = unpack_pair(type, words[i]);
      v[2 * i] = pair.x;
      v[2 * i + 1] = pair.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kDenseRun; ++i)
      v[i] = i < count ? load_value(data, type, at + i * step) : 0;
  }
}

__device__ __forceinline__ void store_run(void* data, base::DType type, bool vectors,
                                          std::int64_t at, std::int64_t step, int count,
                                          const float (&v)[kDenseRun]) {
  using base::DType;
  if (vectors && count == kDenseRun && type == DType::f32) {
    auto* to = reinterpret_cast<float4*>(static_cast<float*>(data) + at);
    to[0] = make_float4(v[0], v[1], v[2], v[3]);
    to[1] = make_float4(v[4], v[5], v[6], v[7]);
  } else if (vectors && count == kDenseRun && (type == DType::f16 || type == DType::bf16)) {
    *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(data) + at) =
        make_uint4(pack_pair(type, v[0], v[1]), pack_pair(type, v[2], v[3]),
                   pack_pair(type, v[4], v[5]), pack_pair(type, v[6], v[7]));
  } else {
#pragma unroll
    for (int i = 0; i < kDenseRun; ++i) {
      if (i < count) store_value(data, type, at + i * step, v[i]);
    }
  }
}

// The function is chosen once for all values, so that their computations overlap. Exponentials and
// quotients of sigmoid and silu: to about 2 ulp.
template <int kCount>
__device__ __forceinline__ void activate_values(float (&v)[kCount], Activation activation,
                                                float slope) {
  const auto each = [&](const auto& f) {
#pragma unroll
    for (float& value : v) value = f(value);
  };
  switch (activation) {
    case Activation::sigmoid:
      return each([](float x) { return __fdividef(1.f, 1.f + __expf(-x)); });
    case Activation::silu:
      return each([](float x) { return x * __fdividef(1.f, 1.f + __expf(-x)); });
    case Activation::tanh:
      return each([](float x) { return tanhf(x); });
    case Activation::gelu:
      return each([](float x) { return 0.5f * x * (1.f + erff(x * 0.70710678f)); });
    default:
      return each([=](float x) { return piecewise_linear(x, slope); });
  }
}

__device__ __forceinline__ void apply_dense_node(const DenseNode& node, std::int64_t row,
                                                 std::int64_t column, int count,
                                                 float (&v)[kDenseRun]) {
  if (node.kind == EpilogueNode::Kind::scale_shift) {
#pragma unroll
    for (int i = 0; i < kDenseRun; ++i) {
      if (i >= count) continue;
      const float scale = node.scale != nullptr ? __ldg(node.scale + column + i) : 1.f;
      const float shift = node.shift != nullptr ? __ldg(node.shift + column + i) : 0.f;
      v[i] = fmaf(v[i], scale, shift);
    }
  } else if (node.kind == EpilogueNode::Kind::add) {
    float addend[kDenseRun];
    load_run(node.aux, node.aux_type, node.aux_vectors, row * node.aux_pitch + column, 1, count,
             addend);
#pragma unroll
    for (int i = 0; i < kDenseRun; ++i) v[i] += addend[i];
  } else {
    activate_values(v, node.activation, node.slope);
  }
}

// Columns [column, column + 8) of a row, as far as they exist.
__device__ __forceinline__ void finish_run(const DenseEpilogue& e, std::int64_t row,
                                           std::int64_t column, std::int64_t batch,
                                           float (&v)[kDenseRun]) {
  if (row >= e.m || column >= e.n) return;
  const int count = e.n - column < kDenseRun ? static_cast<int>(e.n - column) : kDenseRun;
#pragma unroll
  for (float& value : v) value *= e.alpha;
  if (e.beta != 0) {
    float c[kDenseRun];
    load_run(data_of(e.c, batch), e.c.type, e.c.vectors, offset_of(e.c, row, column, batch),
             e.c.column_stride, count, c);
#pragma unroll
    for (int i = 0; i < kDenseRun; ++i) v[i] = fmaf(e.beta, c[i], v[i]);
  }
  for (int i = 0; i < e.count; ++i) apply_dense_node(e.nodes[i], row, column, count, v);
  store_run(data_of(e.d, batch), e.d.type, e.d.vectors, offset_of(e.d, row, column, batch),
            e.d.column_stride, count, v);
}

// int32 sums to int32 results: alpha 1, beta 0 or 1, no nodes; sums wrap. Other results as above.
__device__ __forceinline__ void finish_run(const DenseEpilogue& e, std::int64_t row,
                                           std::int64_t column, std::int64_t batch,
                                           std::int32_t (&sums)[kDenseRun]) {
  if (e.d.type != base::DType::i32) {
    float v[kDenseRun];
#pragma unroll
    for (int i = 0; i < kDenseRun; ++i) v[i] = static_cast<float>(sums[i]);
    finish_run(e, row, column, batch, v);
    return;
  }
  if (row >= e.m) return;
#pragma unroll
  for (int i = 0; i < kDenseRun; ++i) {
    const std::int64_t at = column + i;
    if (at >= e.n) continue;
    std::uint32_t v = static_cast<std::uint32_t>(sums[i]);
    if (e.beta != 0)
      v += static_cast<const std::uint32_t*>(data_of(e.c, batch))[offset_of(e.c, row, at, batch)];
    static_cast<std::uint32_t*>(data_of(e.d, batch))[offset_of(e.d, row, at, batch)] = v;
  }
}

// f64 results: no nodes.
__device__ __forceinline__ void finish_run(const DenseEpilogue& e, std::int64_t row,
                                           std::int64_t column, std::int64_t batch,
                                           double (&sums)[kDenseRun]) {
  if (row >= e.m) return;
#pragma unroll
  for (int i = 0; i < kDenseRun; ++i) {
    const std::int64_t at = column + i;
    if (at >= e.n) continue;
    double v = sums[i] * e.alpha_64;
    if (e.beta_64 != 0)
      v = fma(e.beta_64,
              static_cast<const double*>(data_of(e.c, batch))[offset_of(e.c, row, at, batch)], v);
    static_cast<double*>(data_of(e.d, batch))[offset_of(e.d, row, at, batch)] = v;
  }
}

}  // namespace gemm_core

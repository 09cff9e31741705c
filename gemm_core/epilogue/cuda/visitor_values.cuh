// What nodes of visitor epilogues do to the values that a thread holds, in the order of WGMMA's
// accumulators: value 4 * j + 2 * half + i is row `row + 8 * half`, column `column + 8 * j + i`.
// A warp holds 16 rows: lane l rows l / 4 and l / 4 + 8, columns 2 * (l % 4) and the next of every
// eight. All lanes of a warp call these functions together.
#pragma once
#include "gemm_core/collective/cuda_operand_loads.cuh"
#include "gemm_core/epilogue/cuda/visitor_program.hpp"

namespace gemm_core {

struct VisitorSpot {
  int row = 0, column = 0;  // of the thread's first value
  int batch = 0, lane = 0;
  int m = 0, n = 0;

  __device__ __forceinline__ int row_of(int half) const { return row + 8 * half; }
  __device__ __forceinline__ int column_of(int j) const { return column + 8 * j; }
};

// sigmoid by the machine's exponential and reciprocal: relative error at most (|x| + 8) * 2^-24
// where the result is a normal number; below, 0. NaN stays NaN.
__device__ __forceinline__ float fast_sigmoid(float x) {
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.f + power));
  return result;
}

// NaN of either wins.
__device__ __forceinline__ float maximum_of(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ __forceinline__ float minimum_of(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// The function is chosen once for all values.
template <int kValues>
__device__ __forceinline__ void apply_op(ElementwiseOp op, const OpParameters& parameters,
                                         const float (&a)[kValues], const float (&b)[kValues],
                                         const float (&c)[kValues], float (&to)[kValues]) {
  const float first = parameters.first, second = parameters.second;
  const auto each = [&](const auto& function) {
#pragma unroll
    for (int i = 0; i < kValues; ++i) to[i] = function(a[i], b[i], c[i]);
  };
  switch (op) {
    case ElementwiseOp::relu:
      return each([](float x, float, float) { return x < 0 ? 0.f : x; });
    case ElementwiseOp::leaky_relu:
      return each([=](float x, float, float) { return x < 0 ? x * first : x; });
    case ElementwiseOp::clamp:
      return each([=](float x, float, float) {
        return x < first ? first : x > second ? second : x;
      });
    case ElementwiseOp::sigmoid:
      return each([](float x, float, float) { return fast_sigmoid(x); });
    case ElementwiseOp::silu:
      // Rounded before a sum that follows, as where functions are chosen at run time.
      return each([](float x, float, float) { return __fmul_rn(x, fast_sigmoid(x)); });
    case ElementwiseOp::tanh:
      return each([](float x, float, float) { return tanhf(x); });
    case ElementwiseOp::gelu:
      return each([](float x, float, float) { return 0.5f * x * erfcf(-x * 0.70710678f); });
    case ElementwiseOp::absolute:
      return each([](float x, float, float) { return fabsf(x); });
    case ElementwiseOp::plus:
      return each([](float x, float y, float) { return x + y; });
    case ElementwiseOp::minus:
      return each([](float x, float y, float) { return x - y; });
    case ElementwiseOp::multiplies:
      return each([](float x, float y, float) { return __fmul_rn(x, y); });
    case ElementwiseOp::divides:
      return each([](float x, float y, float) { return x / y; });
    case ElementwiseOp::maximum:
      return each([](float x, float y, float) { return maximum_of(x, y); });
    case ElementwiseOp::minimum:
      return each([](float x, float y, float) { return minimum_of(x, y); });
    case ElementwiseOp::d_relu:
      return each([](float x, float y, float) { return y > 0 ? x : 0.f; });
    case ElementwiseOp::multiply_add:
      return each([](float x, float y, float z) { return fmaf(x, y, z); });
    default:
      return each([](float x, float, float) { return x; });
  }
}

// Nearest even; 8-bit types saturate. The type is chosen once for all values.
template <int kValues>
__device__ __forceinline__ void round_values(base::DType type, float (&v)[kValues]) {
  if (type == base::DType::f32) return;
#pragma unroll
  for (float& value : v) {
    if (type == base::DType::i8) {
      std::int32_t rounded;
      asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(rounded) : "f"(value));
      value = static_cast<float>(static_cast<std::int8_t>(rounded));
    } else {
      value = rounded_value(value, type);
    }
  }
}

// Elements of the matrix at node.data; what lies outside is 0.
template <int kValues>
__device__ __forceinline__ void read_matrix(const VisitorSpot& s, const VisitorNode& node,
                                            float (&v)[kValues]) {
  const std::int64_t batch = s.batch * node.batch_stride;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = batch + s.row_of(half) * node.row_stride;
#pragma unroll
    for (int j = 0; j < kValues / 4; ++j) {
      float* const to = v + 4 * j + 2 * half;
      const int column = s.column_of(j);
      to[0] = to[1] = 0;
      if (s.row_of(half) >= s.m || column >= s.n) continue;
      if (node.pairs && node.type == base::DType::f32) {
        const float2 two =
            *reinterpret_cast<const float2*>(static_cast<const float*>(node.data) + row + column);
        to[0] = two.x, to[1] = two.y;
      } else if (node.pairs) {
        const float2 two = unpack_pair(
            node.type, *reinterpret_cast<const std::uint32_t*>(
                           static_cast<const std::uint16_t*>(node.data) + row + column));
        to[0] = two.x, to[1] = two.y;
      } else {
        to[0] = load_value(node.data, node.type, row + column * node.column_stride);
        if (column + 1 < s.n)
          to[1] = load_value(node.data, node.type, row + (column + 1) * node.column_stride);
      }
    }
  }
}

template <int kValues>
__device__ __forceinline__ void write_matrix(const VisitorSpot& s, const VisitorNode& node,
                                             const float (&v)[kValues]) {
  const std::int64_t batch = s.batch * node.batch_stride;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = batch + s.row_of(half) * node.row_stride;
#pragma unroll
    for (int j = 0; j < kValues / 4; ++j) {
      const float* const from = v + 4 * j + 2 * half;
      const int column = s.column_of(j);
      if (s.row_of(half) >= s.m || column >= s.n) continue;
      if (node.pairs && node.type == base::DType::f32) {
        *reinterpret_cast<float2*>(static_cast<float*>(node.data) + row + column) =
            make_float2(from[0], from[1]);
      } else if (node.pairs) {
        *reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(node.data) + row + column) =
            pack_pair(node.type, from[0], from[1]);
      } else {
        store_value(node.data, node.type, row + column * node.column_stride, from[0]);
        if (column + 1 < s.n)
          store_value(node.data, node.type, row + (column + 1) * node.column_stride, from[1]);
      }
    }
  }
}

// Vectors at node.data, by column or by row.
template <int kValues>
__device__ __forceinline__ void read_row_vector(const VisitorSpot& s, const VisitorNode& node,
                                                float (&v)[kValues]) {
  const float* const from = static_cast<const float*>(node.data) + s.batch * node.batch_stride;
#pragma unroll
  for (int j = 0; j < kValues / 4; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = s.column_of(j) + i;
      v[4 * j + i] = v[4 * j + 2 + i] = column < s.n ? __ldg(from + column) : 0.f;
    }
  }
}
template <int kValues>
__device__ __forceinline__ void read_column_vector(const VisitorSpot& s, const VisitorNode& node,
                                                   float (&v)[kValues]) {
  const float* const from = static_cast<const float*>(node.data) + s.batch * node.batch_stride;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float value = s.row_of(half) < s.m ? __ldg(from + s.row_of(half)) : 0.f;
#pragma unroll
    for (int j = 0; j < kValues / 4; ++j) v[4 * j + 2 * half] = v[4 * j + 2 * half + 1] = value;
  }
}

// Eight columns are a byte, whose lowest bit is the first; four lanes hold two each.
template <int kValues>
__device__ __forceinline__ void read_mask(const VisitorSpot& s, const VisitorNode& node,
                                          float (&v)[kValues]) {
  const auto* const bytes = static_cast<const std::uint8_t*>(node.data);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < kValues / 4; ++j) {
      const int column = s.column_of(j);
      const bool is_there = s.row_of(half) < s.m && column < s.n;
      const unsigned byte =
          is_there
              ? bytes[s.batch * node.batch_stride + s.row_of(half) * node.row_stride + column / 8]
              : 0;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        v[4 * j + 2 * half + i] = static_cast<float>(byte >> (column % 8 + i) & 1);
    }
  }
}
// Bits past the last column stay as they are, like the bytes past it.
template <int kValues>
__device__ __forceinline__ void write_mask(const VisitorSpot& s, const VisitorNode& node,
                                           const float (&v)[kValues]) {
  auto* const bytes = static_cast<std::uint8_t*>(node.data);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < kValues / 4; ++j) {
      const int column = s.column_of(j);
      const float* const from = v + 4 * j + 2 * half;
      unsigned byte = (from[0] >= 0 ? 1u : 0u) << column % 8 | (from[1] >= 0 ? 2u : 0u)
                                                                   << column % 8;
      byte |= __shfl_xor_sync(~0u, byte, 1);
      byte |= __shfl_xor_sync(~0u, byte, 2);
      if (s.lane % 4 != 0 || s.row_of(half) >= s.m || column >= s.n) continue;
      std::uint8_t& to =
          bytes[s.batch * node.batch_stride + s.row_of(half) * node.row_stride + column / 8];
      const int left = s.n - column;
      const unsigned kept = left >= 8 ? 0u : 0xffu << left & 0xffu;
      to = static_cast<std::uint8_t>(kept == 0 ? byte : (to & kept) | (byte & ~kept));
    }
  }
}

__device__ __forceinline__ float reduction_identity(visitor::Reduction reduction) {
  return reduction == visitor::Reduction::maximum   ? -__uint_as_float(0x7f800000u)
         : reduction == visitor::Reduction::minimum ? __uint_as_float(0x7f800000u)
                                                    : 0.f;
}
__device__ __forceinline__ float reduced(visitor::Reduction reduction, float a, float b) {
  return reduction == visitor::Reduction::sum       ? a + b
         : reduction == visitor::Reduction::minimum ? minimum_of(a, b)
                                                    : maximum_of(a, b);
}

// Partial results of 16 x 16 blocks to node.data: see VisitorBlocks. The thread's first column is
// one of the first eight of a block.
template <int kValues>
__device__ __forceinline__ void leave_reduction(const VisitorSpot& s, const VisitorNode& node,
                                                const float (&v)[kValues]) {
  using visitor::ReductionAxis;
  static_assert(kValues % 8 == 0);
  const visitor::Reduction how = node.reduction;
  const VisitorBlocks blocks{s.m, s.n};
  auto* const to = static_cast<float*>(node.data) + s.batch * blocks.count(node.axis);
  const int block_row = (s.row - s.lane / 4) / 16;
  const auto across = [&](float x, int step) {
    return reduced(how, x, __shfl_xor_sync(~0u, x, step));
  };
#pragma unroll
  for (int block = 0; block < kValues / 8; ++block) {
    float some[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const bool is_there =
          s.row_of(i / 2 % 2) < s.m && s.column_of(2 * block + i / 4) + i % 2 < s.n;
      const float value = v[8 * block + i];
      some[i] = !is_there                         ? reduction_identity(how)
                : how == visitor::Reduction::amax ? fabsf(value)
                                                  : value;
    }
    if (node.axis == ReductionAxis::rows) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (i / 2 % 2 == 1) continue;  // rows r and r + 8 are one column
        float x = reduced(how, some[i], some[i + 2]);
        x = across(across(across(x, 4), 8), 16);
        const int column = s.column_of(2 * block + i / 4) + i % 2;
        if (s.lane / 4 == 0 && column < s.n && s.row < s.m)
          to[static_cast<std::int64_t>(block_row) * s.n + column] = x;
      }
      continue;
    }
    float rows[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* const from = some + 2 * half;
      rows[half] = reduced(how, reduced(how, from[0], from[1]), reduced(how, from[4], from[5]));
      rows[half] = across(across(rows[half], 1), 2);
    }
    const int first_column = s.column_of(2 * block) - 2 * (s.lane % 4);
    const int block_column = first_column / 16;
    if (node.axis == ReductionAxis::columns) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (s.lane % 4 == 0 && s.row_of(half) < s.m && first_column < s.n)
          to[static_cast<std::int64_t>(block_column) * s.m + s.row_of(half)] = rows[half];
      }
    } else {
      float x = reduced(how, rows[0], rows[1]);
      x = across(across(across(x, 4), 8), 16);
      if (s.lane == 0 && s.row < s.m && first_column < s.n)
        to[static_cast<std::int64_t>(block_row) * ((s.n + 15) / 16) + block_column] = x;
    }
  }
}

}  // namespace gemm_core

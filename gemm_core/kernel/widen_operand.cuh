// Writes a narrow or scaled operand as what is multiplied, f16 or bf16, rows of k side by side:
// value, times scale, plus zero point, each step rounded. A thread takes eight neighbouring k of a
// row.
#pragma once
#include "gemm_core/base/fast_divmod.hpp"
#include "gemm_core/collective/cuda_operand_loads.cuh"

namespace gemm_core {

struct WidenParams {
  DenseOperand from;
  void* to = nullptr;      // [batch][row][pitch], aligned to 16 bytes
  std::int64_t pitch = 0;  // a multiple of 8
  std::int64_t k = 0;
  base::FastDivMod by_chunks, by_rows;                                  // of eight k; of a batch
  base::FastDivMod by_scale_rows, by_scale_k, by_zero_rows, by_zero_k;  // groups
  std::uint32_t chunks = 0;                                             // of all rows and batches
};

// One of eight packed elements; i is known when this is compiled.
template <base::DType kType>
__device__ __forceinline__ float packed_value(const std::uint32_t (&words)[2], int i) {
  using base::DType;
  constexpr int kWidth = base::bits(kType);
  constexpr bool kIsSigned = kType == DType::i8 || kType == DType::i4 || kType == DType::i2;
  const int at = i * kWidth;
  const std::uint32_t bits = words[at / 32] >> at % 32 & ((1u << kWidth) - 1);
  if constexpr (kType == DType::e4m3 || kType == DType::e5m2) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(
        static_cast<__nv_fp8_storage_t>(bits), kType == DType::e4m3 ? __NV_E4M3 : __NV_E5M2)));
  } else if constexpr (kIsSigned) {
    return static_cast<float>(static_cast<std::int32_t>(bits << (32 - kWidth)) >> (32 - kWidth));
  } else {
    return static_cast<float>(bits);
  }
}

__device__ __forceinline__ float group_value(const GroupedRef& g, std::uint32_t row_group,
                                             std::uint32_t k_group) {
  return g.data == nullptr
             ? 0.f
             : load_value(g.data, g.type, row_group * g.row_stride + k_group * g.k_stride);
}

// Where eight k lie together in whole bytes, aligned to so many, and share scale and zero point.
template <class Compute, base::DType kType>
__global__ void __launch_bounds__(256) widen_packed(const __grid_constant__ WidenParams p) {
  constexpr base::DType kTo = base::dtype_v<Compute>;
  constexpr int kWidth = base::bits(kType);
  const DenseOperand& o = p.from;
  const std::uint32_t i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.chunks) return;
  const auto [line, chunk] = p.by_chunks(i);
  const auto [batch, row] = p.by_rows(line);
  const std::uint32_t k = chunk * kDenseRun;
  const auto* const from = static_cast<const std::uint8_t*>(o.data) +
                           (row * o.row_stride + batch * o.batch_stride + k) * kWidth / 8;
  std::uint32_t words[2] = {};
  if constexpr (kWidth == 8) {
    const uint2 two = __ldg(reinterpret_cast<const uint2*>(from));
    words[0] = two.x;
    words[1] = two.y;
  } else if constexpr (kWidth == 4) {
    words[0] = __ldg(reinterpret_cast<const unsigned*>(from));
  } else {
    words[0] = __ldg(reinterpret_cast<const unsigned short*>(from));
  }
  const float scale = group_value(o.scale, p.by_scale_rows.divide(row), p.by_scale_k.divide(k));
  const float zero = group_value(o.zero, p.by_zero_rows.divide(row), p.by_zero_k.divide(k));
  float v[kDenseRun];
#pragma unroll
  for (int x = 0; x < kDenseRun; ++x) v[x] = packed_value<kType>(words, x);  // exact
  if (o.scale.data != nullptr) {
#pragma unroll
    for (float& x : v) x = rounded_value(__fmul_rn(x, scale), kTo);
  }
  if (o.zero.data != nullptr) {
#pragma unroll
    for (float& x : v) x = rounded_value(__fadd_rn(x, zero), kTo);
  }
  store_run(static_cast<std::uint16_t*>(p.to) + std::int64_t{line} * p.pitch + k, kTo, true, 0, 1,
            kDenseRun, v);
}

__global__ void __launch_bounds__(256) widen_operand(const __grid_constant__ WidenParams p) {
  const std::uint32_t i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.chunks) return;
  const auto [line, chunk] = p.by_chunks(i);
  const auto [batch, row] = p.by_rows(line);
  const std::uint32_t k = chunk * kDenseRun;
  const DenseOperand& o = p.from;
  const void* const data = o.data_of(batch);
  const int count = static_cast<int>(min(std::int64_t{kDenseRun}, p.k - k));
  const std::int64_t at = o.offset_of(row, k, batch);
  float v[kDenseRun] = {};
#pragma unroll 1
  for (int x = 0; x < count; ++x) {
    const float value =
        converted_operand<float>(o, data, at + x * o.k_stride, row, std::int64_t{k} + x);
#pragma unroll
    for (int y = 0; y < kDenseRun; ++y) v[y] = x == y ? value : v[y];
  }
  auto* const to = static_cast<std::uint16_t*>(p.to) + std::int64_t{line} * p.pitch + k;
  store_run(to, o.rounds_to, true, 0, 1, kDenseRun, v);
}

}  // namespace gemm_core

// The end of a product whose result is found by tables: alpha * sum + beta * C, nodes, one element
// of D at a time. `line` of C and D is a row, `k` a column.
#pragma once
#include "gemm_core/collective/cuda_table_operand.cuh"

namespace gemm_core {

struct TableEpilogue {
  static constexpr int kMaxNodes = DenseEpilogue::kMaxNodes;
  TableView c, d;  // c: where beta is not 0
  double alpha = 1, beta = 0;
  std::int64_t n = 0;
  int count = 0;
  DenseNode nodes[kMaxNodes];
};

struct TableBatch {
  TableData a, b, c, d;
};

// Of up to eight columns from `column` on: `count` of them.
__device__ __forceinline__ void store_table_run(const TableEpilogue& e, const TableBatch& batch,
                                                std::int64_t row, std::int64_t column, int count,
                                                float (&v)[kDenseRun]) {
  const auto alpha = static_cast<float>(e.alpha), beta = static_cast<float>(e.beta);
  const TableLine to = find_line(e.d, row);
  if (!to.exists) return;
#pragma unroll
  for (float& value : v) value *= alpha;
  if (beta != 0) {
    const TableLine from = find_line(e.c, row);
#pragma unroll
    for (int i = 0; i < kDenseRun; ++i) {
      if (i >= count) continue;
      const std::int64_t at = find_element(e.c, batch.c.slots, from, column + i);
      if (at != kAbsent) v[i] = fmaf(beta, load_value(batch.c.data, e.c.type, at), v[i]);
    }
  }
  for (int i = 0; i < e.count; ++i) apply_dense_node(e.nodes[i], row, column, count, v);
#pragma unroll
  for (int i = 0; i < kDenseRun; ++i) {
    if (i >= count) continue;
    const std::int64_t at = find_element(e.d, batch.d.slots, to, column + i);
    if (at != kAbsent) store_value(const_cast<void*>(batch.d.data), e.d.type, at, v[i]);
  }
}

// int32 sums: as they are where D is int32 (beta 0 or 1), else as above.
__device__ __forceinline__ void store_table_run(const TableEpilogue& e, const TableBatch& batch,
                                                std::int64_t row, std::int64_t column, int count,
                                                std::int32_t (&sums)[kDenseRun]) {
  if (e.d.type != base::DType::i32) {
    float v[kDenseRun];
#pragma unroll
    for (int i = 0; i < kDenseRun; ++i) v[i] = static_cast<float>(sums[i]);
    store_table_run(e, batch, row, column, count, v);
    return;
  }
  const TableLine to = find_line(e.d, row), from = find_line(e.c, row);
#pragma unroll
  for (int i = 0; i < kDenseRun; ++i) {
    if (i >= count) continue;
    auto v = static_cast<std::uint32_t>(sums[i]);
    if (e.beta != 0) {
      const std::int64_t at = find_element(e.c, batch.c.slots, from, column + i);
      if (at != kAbsent) v += static_cast<const std::uint32_t*>(batch.c.data)[at];
    }
    const std::int64_t at = find_element(e.d, batch.d.slots, to, column + i);
    if (at != kAbsent) static_cast<std::uint32_t*>(const_cast<void*>(batch.d.data))[at] = v;
  }
}

__device__ __forceinline__ double scaled_sum(double sum, double alpha, double beta, double c) {
  return fma(beta, c, alpha * sum);
}
template <class T>
__device__ __forceinline__ base::complex<T> scaled_sum(base::complex<T> sum, double alpha,
                                                       double beta, base::complex<T> c) {
  const T a = static_cast<T>(alpha), b = static_cast<T>(beta);
  return {fma(b, c.real, a * sum.real), fma(b, c.imag, a * sum.imag)};
}

// f64, c64 and c128: no nodes.
template <class Value>
__device__ __forceinline__ void store_table_run(const TableEpilogue& e, const TableBatch& batch,
                                                std::int64_t row, std::int64_t column, int count,
                                                Value (&sums)[kDenseRun]) {
  const TableLine to = find_line(e.d, row), from = find_line(e.c, row);
#pragma unroll
  for (int i = 0; i < kDenseRun; ++i) {
    if (i >= count) continue;
    Value c{};
    if (e.beta != 0) {
      const std::int64_t at = find_element(e.c, batch.c.slots, from, column + i);
      if (at != kAbsent) c = static_cast<const Value*>(batch.c.data)[at];
    }
    const std::int64_t at = find_element(e.d, batch.d.slots, to, column + i);
    if (at != kAbsent)
      static_cast<Value*>(const_cast<void*>(batch.d.data))[at] =
          scaled_sum(sums[i], e.alpha, e.beta, c);
  }
}

}  // namespace gemm_core

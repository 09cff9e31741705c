// The end of a filter gradient whose positions were cut into parts: the parts' sums added in their
// order, alpha, beta * C, the type of D. A thread takes four neighbouring columns.
#pragma once
#include "gemm_core/base/fast_divmod.hpp"
#include "gemm_core/collective/cuda_operand_loads.cuh"

namespace gemm_core {

struct FilterPartsParams {
  const float* sums = nullptr;  // [part][tap batch][row][column], packed, columns a multiple of 4
  int parts = 1;
  std::int64_t count = 0;                // of a part
  base::FastDivMod by_columns, by_rows;  // quads of columns; rows
  DenseMatrix c, d;                      // batch: tap batch
  float alpha = 1, beta = 0;
};

template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    add_filter_parts(const __grid_constant__ FilterPartsParams p) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i * 4 >= p.count) return;
  const auto* from = reinterpret_cast<const float4*>(p.sums) + i;
  float4 sum = __ldcg(from);
#pragma unroll 4
  for (int part = 1; part < p.parts; ++part) {
    const float4 v = __ldcg(from + part * (p.count / 4));
    sum.x += v.x;
    sum.y += v.y;
    sum.z += v.z;
    sum.w += v.w;
  }
  const auto [line, quad] = p.by_columns(static_cast<std::uint32_t>(i));
  const auto [batch, row] = p.by_rows(line);
  const float values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const std::int64_t column = std::int64_t{quad} * 4 + j;
    float v = values[j] * p.alpha;
    if (p.beta != 0)
      v = fmaf(p.beta, load_value(p.c.data, p.c.type, offset_of(p.c, row, column, batch)), v);
    store_value(p.d.data, p.d.type, offset_of(p.d, row, column, batch), v);
  }
}

}  // namespace gemm_core

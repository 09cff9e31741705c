// Dense products on the CPU: operands of any strides, B packed once into panels, A packed a
// cache-sized block at a time, the epilogue on the tile while it is in cache. Work is a list of
// units (pack) and tiles (multiply), so that batched and grouped products share one loop over
// threads.
#pragma once
#include <cstdint>

#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/base/dtype.hpp"
#include "gemm_core/epilogue/epilogue.hpp"
#include "gemm_core/epilogue/tile_epilogue.hpp"

namespace gemm_core {

// Element (i, j) of a matrix is data[i * row_stride + j * column_stride].
struct MatrixRef {
  const void* data = nullptr;
  base::DType dtype = base::DType::f32;
  std::int64_t row_stride = 0, column_stride = 1;
};

// D[m,n] = epilogue(alpha * A[m,k] B[k,n] + beta * C[m,n]).
struct DenseProblem {
  std::int64_t m = 0, n = 0, k = 0;
  MatrixRef a, b, c;
  void* d = nullptr;
  base::DType d_dtype = base::DType::f32;
  std::int64_t d_row_stride = 0, d_column_stride = 1;
  base::DType compute = base::DType::f32;  // f32, tf32, f16, bf16; f64; i8 (accumulated in int32)
  double alpha = 1, beta = 0;
  const Epilogue* epilogue = nullptr;  // null: none
  TileEpilogue* visitor = nullptr;     // instead of the nodes of `epilogue`
  std::int64_t batch = 0;              // which one this is, for the visitor
};

std::int64_t packed_bytes(const CpuAtoms& atoms, const DenseProblem& problem);
std::int64_t pack_units(const CpuAtoms& atoms, const DenseProblem& problem);
void pack_unit(const CpuAtoms& atoms, const DenseProblem& problem, void* packed, std::int64_t unit);
TileGrid dense_grid(const CpuAtoms& atoms, const DenseProblem& problem, std::int64_t batch);
std::int64_t dense_tiles(const CpuAtoms& atoms, const DenseProblem& problem);
void run_dense_tile(const CpuAtoms& atoms, const DenseProblem& problem, const void* packed,
                    std::int64_t tile);

}  // namespace gemm_core

// Dense products on the CPU: operands of any strides or access, B packed once into panels, A packed
// a cache-sized block at a time, the epilogue on the tile while it is in cache. Work is a list of
// units (pack) and tiles (multiply), so that batched and grouped products share one loop over
// threads; a tile's blocks along k may also be shared out (stream-K).
#pragma once
#include <cstdint>

#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/base/dtype.hpp"
#include "gemm_core/collective/operand.hpp"
#include "gemm_core/epilogue/epilogue.hpp"
#include "gemm_core/epilogue/tile_epilogue.hpp"

namespace gemm_core {

// How a product is cut; 0 takes the default. None of it changes results beyond rounding.
struct DenseTiling {
  std::int64_t tile_m = 0, tile_n = 0;  // rows, columns of a tile of the result
  bool dot_products =
      true;  // bf16 pairs and int8 quads by the machine's own instructions, where it has them
};

// D[m,n] = epilogue(alpha * A[m,k] B[k,n] + beta * C[m,n]).
struct DenseProblem {
  std::int64_t m = 0, n = 0, k = 0;
  MatrixRef a, b, c;
  void* d = nullptr;
  base::DType d_dtype = base::DType::f32;
  std::int64_t d_row_stride = 0, d_column_stride = 1;
  const OperandAccess* d_access = nullptr;
  // f32, tf32, f16, bf16, e4m3, e5m2 (summed in fp32); f64; i8 (summed in int32); c64, c128.
  base::DType compute = base::DType::f32;
  double alpha = 1, beta = 0, alpha_imag = 0, beta_imag = 0;
  const Epilogue* epilogue = nullptr;  // null: none
  TileEpilogue* visitor = nullptr;     // instead of the nodes of `epilogue`
  std::int64_t batch = 0;              // which one this is, for the visitor
  std::int64_t chain = 0;  // products in one chain of multiply-adds before it joins the sum; 0: 256
  DenseTiling tiling;
};

// What the micro-kernel sums in.
enum class SumType : std::uint8_t { f32, f64, i32 };

std::int64_t packed_bytes(const CpuAtoms& atoms, const DenseProblem& problem);
std::int64_t pack_units(const CpuAtoms& atoms, const DenseProblem& problem);
void pack_unit(const CpuAtoms& atoms, const DenseProblem& problem, void* packed, std::int64_t unit);
TileGrid dense_grid(const CpuAtoms& atoms, const DenseProblem& problem, std::int64_t batch);
std::int64_t dense_tiles(const CpuAtoms& atoms, const DenseProblem& problem);
void run_dense_tile(const CpuAtoms& atoms, const DenseProblem& problem, const void* packed,
                    std::int64_t tile);

// The parts of a tile. `sums` has room for sums_count(...) values of sum_type(...); accumulate
// overwrites it with the sum over the k blocks [begin, end) (zero where there are none); finish may
// change it.
std::int64_t dense_k_blocks(const CpuAtoms& atoms, const DenseProblem& problem);
SumType sum_type(const CpuAtoms& atoms, const DenseProblem& problem);
std::int64_t sums_count(const CpuAtoms& atoms, const DenseProblem& problem);  // of the largest tile
void accumulate_dense_tile(const CpuAtoms& atoms, const DenseProblem& problem, const void* packed,
                           std::int64_t tile, std::int64_t begin, std::int64_t end, void* sums);
void finish_dense_tile(const CpuAtoms& atoms, const DenseProblem& problem, const void* packed,
                       std::int64_t tile, void* sums);

}  // namespace gemm_core

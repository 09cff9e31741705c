// Blocks of a strided matrix to row-major blocks of the type that the micro-kernels multiply.
#pragma once
#include <cstdint>

#include "gemm_core/atom/cpu_atoms.hpp"
#include "gemm_core/collective/operand.hpp"

namespace gemm_core {

struct BlockRange {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
};

// to[i * ld + j] = element (row + i, column + j), as fp32 rounded to `compute`.
void load_block(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& range,
                base::DType compute, float* to, std::int64_t ld);
void load_block(const MatrixRef& from, const BlockRange& range, double* to, std::int64_t ld);

// Words of two integers of at most 8 bits widened to int16, paired along a row or down a column;
// past `limit` the second one is 0.
void load_pairs_along_rows(const MatrixRef& from, const BlockRange& words, std::int64_t limit,
                           std::int32_t* to, std::int64_t ld);
void load_pairs_down_columns(const MatrixRef& from, const BlockRange& words, std::int64_t limit,
                             std::int32_t* to, std::int64_t ld);

}  // namespace gemm_core

#include "gemm_core/collective/cpu_block_loads.hpp"

#include <algorithm>

#include "gemm_core/base/numeric.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"

namespace gemm_core {
namespace {

const char* address(const MatrixRef& m, std::int64_t row, std::int64_t column) {
  return static_cast<const char*>(m.data) +
         (row * m.row_stride + column * m.column_stride) * base::bytes(m.dtype);
}

float element_f32(const MatrixRef& m, std::int64_t row, std::int64_t column) {
  const char* at = address(m, row, column);
  switch (m.dtype) {
    case base::DType::f16:
      return *reinterpret_cast<const base::half_t*>(at);
    case base::DType::bf16:
      return *reinterpret_cast<const base::bf16_t*>(at);
    default:
      return *reinterpret_cast<const float*>(at);
  }
}

float rounded(float value, base::DType compute) {
  switch (compute) {
    case base::DType::f16:
      return base::half_t(value);
    case base::DType::bf16:
      return base::bf16_t(value);
    case base::DType::tf32:
      return base::round_to_tf32(value);
    default:
      return value;
  }
}

std::int32_t word(std::int8_t low, std::int8_t high) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint16_t>(low)) |
                                   static_cast<std::uint32_t>(static_cast<std::uint16_t>(high))
                                       << 16);
}

std::int8_t element_i8(const MatrixRef& m, std::int64_t row, std::int64_t column) {
  return *reinterpret_cast<const std::int8_t*>(address(m, row, column));
}

// Contiguous down the columns: whole columns are converted, then turned.
void load_turned(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& r,
                 base::DType compute, float* to, std::int64_t ld) {
  thread_local AlignedBuffer kept;
  float* columns = kept.reserve(r.columns * r.rows);
  atoms.convert_rows({.base = address(from, r.row, r.column),
                      .dtype = from.dtype,
                      .pitch = from.column_stride,
                      .rows = r.columns,
                      .columns = r.rows,
                      .compute = compute,
                      .to = columns,
                      .ldto = r.rows});
  constexpr std::int64_t kSquare = 16;  // both sides of a square stay in L1
  for (std::int64_t i0 = 0; i0 < r.rows; i0 += kSquare) {
    const std::int64_t i1 = std::min(r.rows, i0 + kSquare);
    for (std::int64_t j0 = 0; j0 < r.columns; j0 += kSquare) {
      const std::int64_t j1 = std::min(r.columns, j0 + kSquare);
      for (std::int64_t i = i0; i < i1; ++i) {
        for (std::int64_t j = j0; j < j1; ++j) to[i * ld + j] = columns[j * r.rows + i];
      }
    }
  }
}

}  // namespace

void load_block(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& r,
                base::DType compute, float* to, std::int64_t ld) {
  if (from.column_stride == 1) {
    atoms.convert_rows({.base = address(from, r.row, r.column),
                        .dtype = from.dtype,
                        .pitch = from.row_stride,
                        .rows = r.rows,
                        .columns = r.columns,
                        .compute = compute,
                        .to = to,
                        .ldto = ld});
  } else if (from.row_stride == 1) {
    load_turned(atoms, from, r, compute, to, ld);
  } else {
    for (std::int64_t i = 0; i < r.rows; ++i) {
      for (std::int64_t j = 0; j < r.columns; ++j) {
        to[i * ld + j] = rounded(element_f32(from, r.row + i, r.column + j), compute);
      }
    }
  }
}

void load_block(const MatrixRef& from, const BlockRange& r, double* to, std::int64_t ld) {
  for (std::int64_t i = 0; i < r.rows; ++i) {
    for (std::int64_t j = 0; j < r.columns; ++j) {
      to[i * ld + j] = *reinterpret_cast<const double*>(address(from, r.row + i, r.column + j));
    }
  }
}

void load_pairs_along_rows(const MatrixRef& from, const BlockRange& w, std::int64_t limit,
                           std::int32_t* to, std::int64_t ld) {
  for (std::int64_t i = 0; i < w.rows; ++i) {
    for (std::int64_t j = 0; j < w.columns; ++j) {
      const std::int64_t k = 2 * (w.column + j);
      to[i * ld + j] = word(element_i8(from, w.row + i, k),
                            k + 1 < limit ? element_i8(from, w.row + i, k + 1) : std::int8_t{0});
    }
  }
}

void load_pairs_down_columns(const MatrixRef& from, const BlockRange& w, std::int64_t limit,
                             std::int32_t* to, std::int64_t ld) {
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const std::int64_t k = 2 * (w.row + i);
    for (std::int64_t j = 0; j < w.columns; ++j) {
      to[i * ld + j] = word(element_i8(from, k, w.column + j),
                            k + 1 < limit ? element_i8(from, k + 1, w.column + j) : std::int8_t{0});
    }
  }
}

}  // namespace gemm_core

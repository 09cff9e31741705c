#include "gemm_core/collective/cpu_block_loads.hpp"

#include <algorithm>

#include "gemm_core/base/numeric.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/collective/cpu_operand_loads.hpp"

namespace gemm_core {
namespace {

const char* address(const MatrixRef& m, std::int64_t row, std::int64_t column) {
  return static_cast<const char*>(m.data) +
         (row * m.row_stride + column * m.column_stride) * base::bytes(m.dtype);
}

std::int32_t word(int low, int high) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint16_t>(low)) |
                                   static_cast<std::uint32_t>(static_cast<std::uint16_t>(high))
                                       << 16);
}

// 0 past `limit` and where the operand has no element.
struct IntegerReader {
  explicit IntegerReader(const MatrixRef& m) : matrix(m), locate(m) {}
  int operator()(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = locate(row, column);
    return at == kAbsent ? 0 : integer_element(matrix.data, matrix.dtype, at);
  }
  const MatrixRef& matrix;
  Locator locate;
};

// Contiguous down the columns: turned; where values need a conversion, whole columns are converted
// first.
void load_turned(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& r,
                 base::DType compute, float* to, std::int64_t ld) {
  if (from.dtype == base::DType::f32 && compute == base::DType::f32) {
    return atoms.transpose({.from = reinterpret_cast<const float*>(address(from, r.row, r.column)),
                            .pitch = from.column_stride,
                            .rows = r.columns,
                            .columns = r.rows,
                            .to = to,
                            .ldto = ld});
  }
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
  atoms.transpose({.from = columns,
                   .pitch = r.rows,
                   .rows = r.columns,
                   .columns = r.rows,
                   .to = to,
                   .ldto = ld});
}

}  // namespace

void load_block(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& r,
                base::DType compute, float* to, std::int64_t ld) {
  if (from.access || !is_narrow_float(from.dtype) || is_fp8(compute)) {
    load_operand(atoms, from, r, compute, to, ld);
  } else if (from.column_stride == 1) {
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
        const std::int64_t at = (r.row + i) * from.row_stride + (r.column + j) * from.column_stride;
        to[i * ld + j] = rounded_to(float_element(from.data, from.dtype, at), compute);
      }
    }
  }
}

void load_block(const MatrixRef& from, const BlockRange& r, double* to, std::int64_t ld) {
  const Locator locate(from);
  const auto* data = static_cast<const double*>(from.data);
  for (std::int64_t i = 0; i < r.rows; ++i) {
    for (std::int64_t j = 0; j < r.columns; ++j) {
      const std::int64_t at = locate(r.row + i, r.column + j);
      to[i * ld + j] = at == kAbsent ? 0 : data[at];
    }
  }
}

void load_pairs_along_rows(const MatrixRef& from, const BlockRange& w, std::int64_t limit,
                           std::int32_t* to, std::int64_t ld) {
  const IntegerReader read(from);
  for (std::int64_t i = 0; i < w.rows; ++i) {
    for (std::int64_t j = 0; j < w.columns; ++j) {
      const std::int64_t k = 2 * (w.column + j);
      to[i * ld + j] = word(read(w.row + i, k), k + 1 < limit ? read(w.row + i, k + 1) : 0);
    }
  }
}

void load_pairs_down_columns(const MatrixRef& from, const BlockRange& w, std::int64_t limit,
                             std::int32_t* to, std::int64_t ld) {
  const IntegerReader read(from);
  for (std::int64_t i = 0; i < w.rows; ++i) {
    const std::int64_t k = 2 * (w.row + i);
    for (std::int64_t j = 0; j < w.columns; ++j) {
      to[i * ld + j] = word(read(k, w.column + j), k + 1 < limit ? read(k + 1, w.column + j) : 0);
    }
  }
}

}  // namespace gemm_core

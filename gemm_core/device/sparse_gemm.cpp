#include "gemm_core/device/sparse_gemm.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "gemm_core/base/error.hpp"
#include "gemm_core/collective/cpu_element.hpp"

namespace gemm_core {
namespace {

void check(const DenseRows& m, const char* operation) {
  ENSURE(is_narrow_float(m.dtype) || is_fp8(m.dtype) || m.dtype == base::DType::i8, operation,
         ": element type ", base::name(m.dtype), " is not supported");
  ENSURE(m.rows >= 0 && m.columns >= 0 && m.columns % 4 == 0, operation, ": [", m.rows, ", ",
         m.columns, "], expected a multiple of 4 columns");
  if (m.rows == 0 || m.columns == 0) return;
  ENSURE(m.data != nullptr, operation, ": the matrix is null");
  ENSURE(reinterpret_cast<std::uintptr_t>(m.data) %
                 static_cast<std::uintptr_t>(base::bytes(m.dtype)) ==
             0,
         operation, ": the matrix is not aligned to its element of ", base::bytes(m.dtype),
         " bytes");
  constexpr std::int64_t kMost = std::int64_t{1} << 59;
  std::int64_t elements = 0, reach = 0;
  ENSURE(!__builtin_mul_overflow(m.rows, m.columns, &elements) && elements <= kMost &&
             !__builtin_mul_overflow(m.rows - 1, m.row_stride, &reach) && reach <= kMost &&
             reach >= -kMost,
         operation, ": [", m.rows, ", ", m.columns, "] with row stride ", m.row_stride,
         " spans more than 2^59 elements");
}

float at(const DenseRows& m, std::int64_t row, std::int64_t column) {
  return float_element(m.data, m.dtype, row * m.row_stride + column);
}

char* address(const DenseRows& m, std::int64_t row, std::int64_t column) {
  return static_cast<char*>(m.data) + (row * m.row_stride + column) * base::bytes(m.dtype);
}

// The two columns of a group that stay, in rising order.
std::array<int, 2> largest_two(const std::array<float, 4>& v) {
  int first = 0;
  for (int i = 1; i < 4; ++i) {
    if (std::fabs(v[static_cast<std::size_t>(i)]) > std::fabs(v[static_cast<std::size_t>(first)]))
      first = i;
  }
  int second = first == 0 ? 1 : 0;
  for (int i = 0; i < 4; ++i) {
    if (i != first && std::fabs(v[static_cast<std::size_t>(i)]) >
                          std::fabs(v[static_cast<std::size_t>(second)])) {
      second = i;
    }
  }
  return {std::min(first, second), std::max(first, second)};
}

std::array<float, 4> group_at(const DenseRows& m, std::int64_t row, std::int64_t column) {
  return {at(m, row, column), at(m, row, column + 1), at(m, row, column + 2),
          at(m, row, column + 3)};
}

}  // namespace

GemmOperand SparseMatrix::operand() const {
  GemmOperand o;
  o.data = values.data();
  o.dtype = dtype;
  o.row_stride = columns / 2;
  o.column_stride = 1;
  o.metadata = metadata.data();
  o.metadata_pitch = metadata_pitch();
  return o;
}

void prune_2to4(const DenseRows& m) {
  check(m, "prune_2to4");
  for (std::int64_t row = 0; row < m.rows; ++row) {
    for (std::int64_t column = 0; column < m.columns; column += 4) {
      const auto kept = largest_two(group_at(m, row, column));
      for (int i = 0; i < 4; ++i) {
        if (i != kept[0] && i != kept[1])
          store_element(m.data, m.dtype, row * m.row_stride + column + i, 0);
      }
    }
  }
}

SparseMatrix compress_2to4(const DenseRows& m) {
  check(m, "compress_2to4");
  SparseMatrix sparse{.rows = m.rows, .columns = m.columns, .dtype = m.dtype};
  const std::int64_t size = base::bytes(m.dtype);
  sparse.values.resize(static_cast<std::size_t>(m.rows * m.columns / 2 * size));
  sparse.metadata.resize(static_cast<std::size_t>(m.rows * sparse.metadata_pitch()));
  for (std::int64_t row = 0; row < m.rows; ++row) {
    for (std::int64_t column = 0; column < m.columns; column += 4) {
      const auto group = group_at(m, row, column);
      int present = 0;
      for (const float v : group) present += v != 0;  // NaN counts
      ENSURE(present <= 2, "compress_2to4: row ", row, " has ", present, " values in columns ",
             column, " to ", column + 3, ", expected at most 2");
      const auto kept = largest_two(group);
      for (int i = 0; i < 2; ++i) {
        std::memcpy(sparse.values.data() + ((row * m.columns + column) / 2 + i) * size,
                    address(m, row, column + kept[static_cast<std::size_t>(i)]),
                    static_cast<std::size_t>(size));
      }
      const unsigned bits = static_cast<unsigned>(kept[0]) | static_cast<unsigned>(kept[1]) << 2;
      auto& byte =
          sparse.metadata[static_cast<std::size_t>(row * sparse.metadata_pitch() + column / 8)];
      byte = static_cast<std::uint8_t>(byte | bits << (column / 4 % 2 * 4));
    }
  }
  return sparse;
}

}  // namespace gemm_core

#include "gemm_core/collective/cpu_operand_loads.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "gemm_core/base/complex.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/collective/cpu_element.hpp"

namespace gemm_core {
namespace {

using base::DType;
using Table = std::array<float, 256>;

Table table_of(DType type) {
  Table table{};
  for (unsigned code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    table[code] = float_element(&byte, type, 0);
  }
  return table;
}

// The value of each byte, for types of 8 bits; of each nibble's low position for those of 4.
const Table& values_of(DType type) {
  static const Table e4m3 = table_of(DType::e4m3), e5m2 = table_of(DType::e5m2),
                     i8 = table_of(DType::i8), u8 = table_of(DType::u8), i4 = table_of(DType::i4),
                     u4 = table_of(DType::u4);
  switch (type) {
    case DType::e4m3:
      return e4m3;
    case DType::e5m2:
      return e5m2;
    case DType::u8:
      return u8;
    case DType::i4:
      return i4;
    case DType::u4:
      return u4;
    default:
      return i8;
  }
}

void read_bytes(const Table& values, const std::uint8_t* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = values[from[i]];
}

// Elements at, at + 1, ... of data.
void read_run(const CpuAtoms& atoms, const MatrixRef& m, std::int64_t at, std::int64_t count,
              float* to) {
  switch (m.dtype) {
    case DType::f32:
      std::copy_n(static_cast<const float*>(m.data) + at, count, to);
      return;
    case DType::f16:
    case DType::bf16:
      atoms.convert_rows({.base = static_cast<const char*>(m.data) + at * 2,
                          .dtype = m.dtype,
                          .rows = 1,
                          .columns = count,
                          .to = to,
                          .ldto = count});
      return;
    case DType::e4m3:
    case DType::e5m2:
    case DType::i8:
    case DType::u8:
      return read_bytes(values_of(m.dtype), static_cast<const std::uint8_t*>(m.data) + at, count,
                        to);
    case DType::i4:
    case DType::u4: {
      const Table& values = values_of(m.dtype);
      std::int64_t i = 0;
      if (at % 2 != 0 && count > 0) to[i++] = float_element(m.data, m.dtype, at);
      for (; i + 2 <= count; i += 2) {
        const std::uint8_t byte = static_cast<const std::uint8_t*>(m.data)[(at + i) / 2];
        to[i] = values[byte];  // the table looks at the low four bits
        to[i + 1] = values[byte >> 4];
      }
      if (i < count) to[i] = float_element(m.data, m.dtype, at + i);
      return;
    }
    default:
      for (std::int64_t i = 0; i < count; ++i) to[i] = float_element(m.data, m.dtype, at + i);
  }
}

// Columns of which a locator's answer for the first holds for all: `run`, or all of them.
std::int64_t run_of(const MatrixRef& m) {
  constexpr std::int64_t kUnbounded = std::int64_t{1} << 62;
  const OperandAccess* a = m.access;
  if (a == nullptr) return kUnbounded;
  if (a->column_index || a->column_offsets || a->column_points || a->column_slots) return a->run;
  return kUnbounded;
}

void read_kept(const MatrixRef& m, std::int64_t row, const BlockRange& r, float* to) {
  const std::uint8_t* metadata = m.access->metadata + row * m.access->metadata_pitch;
  const std::int64_t start = row * m.row_stride;
  std::fill_n(to, r.columns, 0.0f);
  for (std::int64_t group = r.column / 4; group * 4 < r.column + r.columns; ++group) {
    const unsigned bits = metadata[group / 2] >> (group % 2 * 4);
    for (unsigned kept = 0; kept < 2; ++kept) {
      const std::int64_t column = group * 4 + (bits >> (2 * kept) & 3) - r.column;
      if (column < 0 || column >= r.columns) continue;
      const std::int64_t at = start + (group * 2 + kept) * m.column_stride;
      to[column] += float_element(m.data, m.dtype, at);
    }
  }
}

void read_row(const CpuAtoms& atoms, const MatrixRef& m, std::int64_t row, const BlockRange& r,
              float* to) {
  if (m.access && m.access->metadata) return read_kept(m, row, r, to);
  const Locator locate(m);
  const std::int64_t run = run_of(m);
  for (std::int64_t j = 0; j < r.columns;) {
    const std::int64_t column = r.column + j;
    const std::int64_t count = std::min(r.columns - j, run - column % run);
    const std::int64_t at = locate(row, column);
    const std::int64_t step = m.access && m.access->column_offsets ? 1 : m.column_stride;
    if (at == kAbsent) {
      std::fill_n(to + j, count, 0.0f);
    } else if (step == 1) {
      read_run(atoms, m, at, count, to + j);
    } else {
      for (std::int64_t i = 0; i < count; ++i)
        to[j + i] = float_element(m.data, m.dtype, at + i * step);
    }
    j += count;
  }
}

void round_row(const CpuAtoms& atoms, DType compute, std::int64_t count, float* to) {
  if (compute == DType::f32) return;
  if (is_fp8(compute)) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = rounded_to(to[i], compute);
    return;
  }
  atoms.convert_rows({.base = to,
                      .dtype = DType::f32,
                      .pitch = count,
                      .rows = 1,
                      .columns = count,
                      .compute = compute,
                      .to = to,
                      .ldto = count});
}

// apply(value, factor) for a row whose factors hold for column_group columns each.
template <class Apply>
void apply_groups(const GroupedValues& g, std::int64_t row, const BlockRange& r, float* to,
                  const Apply& apply) {
  const std::int64_t start = row / g.row_group * g.row_stride;
  for (std::int64_t j = 0; j < r.columns;) {
    const std::int64_t group = (r.column + j) / g.column_group;
    const std::int64_t end = std::min(r.columns, (group + 1) * g.column_group - r.column);
    const float factor = float_element(g.data, g.dtype, start + group * g.column_stride);
    for (; j < end; ++j) to[j] = apply(to[j], factor);
  }
}

bool is_exact(DType from, DType compute) {
  if (compute == DType::f32 || compute == from) return true;
  if (is_fp8(compute)) return from == DType::i2 || from == DType::u2 || from == DType::b1;
  if (from == DType::f32 || is_narrow_float(from))
    return compute == DType::tf32 && from != DType::f32;
  return true;  // at most 8 bits fit every type of 16
}

void finish_row(const CpuAtoms& atoms, const MatrixRef& m, std::int64_t row, const BlockRange& r,
                DType compute, float* to) {
  if (!is_exact(m.dtype, compute)) round_row(atoms, compute, r.columns, to);
  if (m.access == nullptr) return;
  if (m.access->scale.data) {
    apply_groups(m.access->scale, row, r, to, [](float v, float s) { return v * s; });
    round_row(atoms, compute, r.columns, to);
  }
  if (m.access->zero.data) {
    apply_groups(m.access->zero, row, r, to, [](float v, float z) { return v + z; });
    round_row(atoms, compute, r.columns, to);
  }
}

void swap_sides(GroupedValues& g) {
  std::swap(g.row_stride, g.column_stride);
  std::swap(g.row_group, g.column_group);
}

// Contiguous down its columns, and nothing but strides, scales and index lists.
bool is_better_turned(const MatrixRef& m) {
  if (m.row_stride != 1 || m.column_stride == 1) return false;
  const OperandAccess* a = m.access;
  return a == nullptr || !(a->row_index || a->row_offsets || a->column_offsets || a->slots ||
                           a->row_points || a->metadata);
}

void load_turned_operand(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& r,
                         DType compute, float* to, std::int64_t ld) {
  OperandAccess access;
  MatrixRef turned{from.data, from.dtype, from.column_stride, 1};
  if (from.access) {
    access = *from.access;
    std::swap(access.row_index, access.column_index);
    swap_sides(access.scale);
    swap_sides(access.zero);
    turned.access = &access;
  }
  thread_local AlignedBuffer kept;
  float* columns = kept.reserve(r.rows * r.columns);
  load_operand(atoms, turned, {r.column, r.columns, r.row, r.rows}, compute, columns, r.rows);
  for (std::int64_t i = 0; i < r.rows; ++i) {
    for (std::int64_t j = 0; j < r.columns; ++j) to[i * ld + j] = columns[j * r.rows + i];
  }
}

template <class Real>
base::complex<Real> complex_element(const MatrixRef& m, const Locator& locate, std::int64_t i,
                                    std::int64_t j) {
  const std::int64_t at = locate(i, j);
  if (at == kAbsent) return {};
  const auto value = static_cast<const base::complex<Real>*>(m.data)[at];
  return m.access && m.access->conjugate ? conj(value) : value;
}

}  // namespace

void load_operand(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& r,
                  base::DType compute, float* to, std::int64_t ld) {
  if (is_better_turned(from)) return load_turned_operand(atoms, from, r, compute, to, ld);
  for (std::int64_t i = 0; i < r.rows; ++i) {
    read_row(atoms, from, r.row + i, r, to + i * ld);
    finish_row(atoms, from, r.row + i, r, compute, to + i * ld);
  }
}

template <class Real>
void load_complex_rows(const MatrixRef& from, const BlockRange& r, Real* to, std::int64_t ld) {
  const Locator locate(from);
  for (std::int64_t i = 0; i < r.rows; ++i) {
    for (std::int64_t j = 0; j < r.columns; ++j) {
      const auto value = complex_element<Real>(from, locate, r.row + i, r.column + j);
      to[i * ld + 2 * j] = value.real;
      to[i * ld + 2 * j + 1] = value.imag;
    }
  }
}

template <class Real>
void load_complex_blocks(const MatrixRef& from, const BlockRange& r, Real* to, std::int64_t ld) {
  const Locator locate(from);
  for (std::int64_t i = 0; i < r.rows; ++i) {
    Real* upper = to + 2 * i * ld;
    Real* lower = upper + ld;
    for (std::int64_t j = 0; j < r.columns; ++j) {
      const auto value = complex_element<Real>(from, locate, r.row + i, r.column + j);
      upper[2 * j] = lower[2 * j + 1] = value.real;
      upper[2 * j + 1] = value.imag;
      lower[2 * j] = -value.imag;
    }
  }
}

template void load_complex_rows<float>(const MatrixRef&, const BlockRange&, float*, std::int64_t);
template void load_complex_rows<double>(const MatrixRef&, const BlockRange&, double*, std::int64_t);
template void load_complex_blocks<float>(const MatrixRef&, const BlockRange&, float*, std::int64_t);
template void load_complex_blocks<double>(const MatrixRef&, const BlockRange&, double*,
                                          std::int64_t);

}  // namespace gemm_core

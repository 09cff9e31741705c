// From the sums of a tile to D.
#include <algorithm>
#include <cmath>

#include "gemm_core/base/complex.hpp"
#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/collective/cpu_dense_kinds.hpp"
#include "gemm_core/epilogue/cpu_epilogue.hpp"

namespace gemm_core::dense {
namespace {

using base::DType;

MatrixRef d_matrix(const DenseProblem& p) {
  return {p.d, p.d_dtype, p.d_row_stride, p.d_column_stride, p.d_access};
}

// D has rows of consecutive elements wherever the rows themselves lie.
bool has_plain_rows(const DenseProblem& p) {
  if (p.d_column_stride != 1 || !is_narrow_float(p.d_dtype)) return false;
  const OperandAccess* a = p.d_access;
  return a == nullptr || !(a->column_index || a->column_offsets || a->slots || a->row_points);
}

void combine_with_c(const CpuAtoms& atoms, const DenseProblem& p, const Block& block,
                    std::int64_t m0, std::int64_t n0) {
  thread_local AlignedBuffer kept;
  LinearCombination l{.alpha = static_cast<float>(p.alpha), .beta = static_cast<float>(p.beta)};
  if (p.beta != 0) {
    float* c = kept.reserve(block.rows * block.columns);
    load_block(atoms, p.c, {m0, block.rows, n0, block.columns}, DType::f32, c, block.columns);
    l.c = c;
    l.pitch = block.columns;
  }
  if (p.alpha != 1 || p.beta != 0) atoms.combine(block, l);
}

void store_elements(const DenseProblem& p, const Block& block, std::int64_t m0, std::int64_t n0) {
  const Locator locate(d_matrix(p));
  // D may be contiguous down its columns.
  for (std::int64_t j = 0; j < block.columns; ++j) {
    for (std::int64_t i = 0; i < block.rows; ++i) {
      const std::int64_t at = locate(m0 + i, n0 + j);
      if (at != kAbsent) store_element(p.d, p.d_dtype, at, block.values[i * block.ld + j]);
    }
  }
}

void store_rows(const CpuAtoms& atoms, const DenseProblem& p, const Block& block, std::int64_t m0,
                std::int64_t n0) {
  const Locator locate(d_matrix(p));
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const std::int64_t at = locate(m0 + i, n0);
    if (at == kAbsent) continue;
    atoms.store({block.values + i * block.ld, block.ld, 1, block.columns},
                static_cast<char*>(p.d) + at * base::bytes(p.d_dtype), p.d_dtype, block.ld);
  }
}

template <class Real>
void store_complex(const DenseProblem& p, const Real* tile, const TileAt& t) {
  using Value = base::complex<Real>;
  const Value alpha{static_cast<Real>(p.alpha), static_cast<Real>(p.alpha_imag)};
  const Value beta{static_cast<Real>(p.beta), static_cast<Real>(p.beta_imag)};
  const bool has_c = p.beta != 0 || p.beta_imag != 0;
  const Locator at_d(d_matrix(p)), at_c(p.c);
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < t.columns / 2; ++j) {
      const std::int64_t row = t.m0 + i, column = t.n0 / 2 + j, at = at_d(row, column);
      if (at == kAbsent) continue;
      Value value = alpha * Value{tile[i * t.ld + 2 * j], tile[i * t.ld + 2 * j + 1]};
      if (has_c) value = value + beta * static_cast<const Value*>(p.c.data)[at_c(row, column)];
      static_cast<Value*>(p.d)[at] = value;
    }
  }
}

}  // namespace

void store_tile(const CpuAtoms& atoms, const DenseProblem& p, float* tile, const TileAt& t) {
  if (p.compute == DType::c64) return store_complex(p, tile, t);
  const Block block{tile, t.ld, t.rows, t.columns};
  combine_with_c(atoms, p, block, t.m0, t.n0);
  if (p.visitor) p.visitor->tile(atoms, block, {t.m0, t.n0, p.batch});
  const Epilogue& epilogue = p.epilogue ? *p.epilogue : kNoEpilogue;
  if (has_plain_rows(p) && p.d_access == nullptr) {
    run_epilogue(atoms, epilogue, block, t.m0, t.n0,
                 {p.d, p.d_dtype, {}, {p.m, p.n}, {p.d_row_stride, 1}});
    return;
  }
  run_epilogue_nodes(atoms, epilogue, block, t.m0, t.n0);
  if (has_plain_rows(p)) return store_rows(atoms, p, block, t.m0, t.n0);
  store_elements(p, block, t.m0, t.n0);
}

void store_tile(const CpuAtoms&, const DenseProblem& p, double* tile, const TileAt& t) {
  if (p.compute == DType::c128) return store_complex(p, tile, t);
  const Locator at_d(d_matrix(p)), at_c(p.c);
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < t.columns; ++j) {
      const std::int64_t at = at_d(t.m0 + i, t.n0 + j);
      if (at == kAbsent) continue;
      double value = p.alpha * tile[i * t.ld + j];
      if (p.beta != 0) {
        value =
            std::fma(p.beta, static_cast<const double*>(p.c.data)[at_c(t.m0 + i, t.n0 + j)], value);
      }
      static_cast<double*>(p.d)[at] = value;
    }
  }
}

void store_tile(const CpuAtoms& atoms, const DenseProblem& p, std::int32_t* tile, const TileAt& t) {
  if (p.d_dtype != DType::i32) {  // sums leave the integers here
    float* values = reinterpret_cast<float*>(tile);
    for (std::int64_t i = 0; i < t.rows * t.ld; ++i) values[i] = static_cast<float>(tile[i]);
    return store_tile(atoms, p, values, t);
  }
  if (p.beta == 0 && p.d_access == nullptr && p.d_column_stride == 1) {
    for (std::int64_t row = 0; row < t.rows; ++row) {
      auto* to = static_cast<std::int32_t*>(p.d) + (t.m0 + row) * p.d_row_stride + t.n0;
      std::copy_n(tile + row * t.ld, t.columns, to);
    }
    return;
  }
  const Locator at_d(d_matrix(p)), at_c(p.c);
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < t.columns; ++j) {
      const std::int64_t at = at_d(t.m0 + i, t.n0 + j);
      if (at == kAbsent) continue;
      auto value = static_cast<std::uint32_t>(tile[i * t.ld + j]);
      if (p.beta != 0) {
        value += static_cast<std::uint32_t>(
            static_cast<const std::int32_t*>(p.c.data)[at_c(t.m0 + i, t.n0 + j)]);
      }
      static_cast<std::int32_t*>(p.d)[at] = static_cast<std::int32_t>(value);
    }
  }
}

}  // namespace gemm_core::dense

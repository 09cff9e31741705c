// Blocks of operands that no plain vector loop reads: with an OperandAccess, of fp8, of small
// integers, complex.
#pragma once
#include "gemm_core/collective/cpu_block_loads.hpp"

namespace gemm_core {

// As load_block, for any operand of real numbers of at most 32 bits.
void load_operand(const CpuAtoms& atoms, const MatrixRef& from, const BlockRange& range,
                  base::DType compute, float* to, std::int64_t ld);

// Complex numbers as real ones: a row of A is (re, im, re, im, ...); element b of B stands as the 2
// x 2 block (re, im; -im, re), so that the real product of both has the complex product, real and
// imaginary parts side by side. `range` counts complex elements; ld counts reals.
template <class Real>
void load_complex_rows(const MatrixRef& from, const BlockRange& range, Real* to, std::int64_t ld);
template <class Real>
void load_complex_blocks(const MatrixRef& from, const BlockRange& range, Real* to, std::int64_t ld);

}  // namespace gemm_core

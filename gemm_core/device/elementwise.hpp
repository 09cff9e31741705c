// Applies an epilogue to rows that no product made: D[m][n] = epilogue(A[m][n]). Also a strided
// copy with conversion.
#pragma once
#include "gemm_core/base/tensor.hpp"
#include "gemm_core/epilogue/epilogue.hpp"

namespace gemm_core {

// Both [rows, channels], any row stride, unit stride along channels; f32, f16, bf16. Values are
// fp32 on the way and rounded once, at the store. Runs in the caller's task arena; allocates
// nothing in steady state. The operands may be the same memory, but must not overlap otherwise.
void elementwise(const base::ConstTensorView& input, const Epilogue& epilogue,
                 const base::TensorView& output);

}  // namespace gemm_core

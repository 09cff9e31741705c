// The sparse convolution as a GEMM with a composed layout (docs/architecture.md): M = output rows,
// N = output channels, K = (tap, input channel). Row m of operand A under tap r is input row
// neighbours[r*rows + m], or zero where that is -1. A is never materialised beyond a cache-sized
// panel.
//
//   const auto weights = pack_conv_weights({.weight = w, .cout = 64, .taps = 27, .cin = 64});
//   gather_conv({.input = x, .neighbours = map, .rows = n, .weights = &weights, .output = y});
#pragma once
#include "gemm_core/collective/gather_conv_arguments.hpp"

namespace gemm_core {

// Runs in the caller's task arena. Deterministic: the sum over (tap, channel) has one order for any
// thread count. Does not allocate in steady state (per-thread scratch is kept). No output row may
// overlap an input row. Throws base::Error naming operand and extent.
void gather_conv(const GatherConvArguments& arguments);

// Dense GEMM D[M,N] = epilogue(A[M,K] * B[N,K]^T) on the CPU is gather_conv with one tap and null
// neighbours; device/gemm.hpp has every other form.

}  // namespace gemm_core

// The sparse convolution as a GEMM with a composed layout (docs/architecture.md): M = output rows,
// N = output channels, K = (tap, input channel). Row m of operand A under tap r is input row
// neighbours[r*rows + m], or zero where that is -1. A is never materialised beyond a cache-sized
// panel.
//
//   const auto weights = pack_conv_weights({.weight = w, .cout = 64, .taps = 27, .cin = 64});
//   gather_conv({.input = x, .neighbours = map, .rows = n, .weights = &weights, .output = y});
#pragma once
#include <cstdint>
#include <memory>

#include "gemm_core/base/tensor.hpp"
#include "gemm_core/epilogue/epilogue.hpp"
#include "gemm_core/epilogue/tile_epilogue.hpp"

namespace gemm_core {

struct ConvWeightsDesc {
  const float* weight = nullptr;  // [cout][taps][cin/groups], host memory (KRSC)
  std::int64_t cout = 0, taps = 1, cin = 0, groups = 1;
  // f32, tf32, f16 or bf16: weights are rounded to it once, here.
  base::DType compute = base::DType::f32;
};

// Weights in the order the CPU micro-kernels read them. Immutable, shareable between threads.
class PackedConvWeights {
 public:
  PackedConvWeights();
  ~PackedConvWeights();
  PackedConvWeights(PackedConvWeights&&) noexcept;
  PackedConvWeights& operator=(PackedConvWeights&&) noexcept;
  std::int64_t cout = 0, taps = 0, cin = 0, groups = 1;
  base::DType compute = base::DType::f32;
  std::int64_t nbytes() const;

  struct Data;
  std::unique_ptr<Data> data;
};
PackedConvWeights pack_conv_weights(const ConvWeightsDesc& desc);

struct GatherConvArguments {
  // [rows_in, cin], unit stride along channels; f32, f16, bf16.
  base::ConstTensorView input;
  // [taps][rows] (tap-major), -1 = absent. Null: taps must be 1, row m reads row m.
  const std::int32_t* neighbours = nullptr;
  std::int64_t rows = 0;  // output rows
  const PackedConvWeights* weights = nullptr;
  Epilogue epilogue;  // on fp32 accumulators
  // A visitor tree (epilogue/visitor_tree.hpp) instead of nodes; one call at a time may use it.
  TileEpilogue* visitor = nullptr;
  // [rows, cout], any row stride; f32, f16, bf16, rounded once, at the store.
  base::TensorView output;
};

// Runs in the caller's task arena. Deterministic: the sum over (tap, channel) has one order for any
// thread count. Does not allocate in steady state (per-thread scratch is kept). No output row may
// overlap an input row. Throws base::Error naming operand and extent.
void gather_conv(const GatherConvArguments& arguments);

// Dense GEMM D[M,N] = epilogue(A[M,K] * B[N,K]^T) on the CPU is gather_conv with one tap and null
// neighbours; device/gemm.hpp has every other form.

}  // namespace gemm_core

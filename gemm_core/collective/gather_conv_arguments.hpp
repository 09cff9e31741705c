// What a gathered convolution is asked to do: its weights, operands and epilogue
// (device/gather_conv.hpp runs it; the mainloops below it read this).
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
  // Operand of the input gradient: `weight` belongs to the layer [cin][taps][cout/groups] whose
  // channels change places here, so cout and cin are those of the packed operand.
  bool is_transposed = false;
  // Taps in opposite order: with the map of a submanifold layer, which is symmetric, that is the
  // inverse map.
  bool has_reversed_taps = false;
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
// The same into memory that is there already; runs in the caller's task arena.
void pack_conv_weights(const ConvWeightsDesc& desc, PackedConvWeights& packed);

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

}  // namespace gemm_core

// Nodes of epilogue visitor trees on the CPU. A node sees one piece of the result at a time (some
// rows of all columns of a tile, fp32, row-major without gaps) and gives a fragment of the same
// shape. visitor_tree.hpp composes nodes at compile time, visitor_graph.hpp at run time.
//
// A node is one struct with `visit(piece, inputs)`; where it needs them also `check` (refuses what
// does not fit), `memory` (adds what it reads and writes), `begin` and `finish` (state over the
// whole result). Null data of a load gives `null_default`; a store or reduction with null data does
// nothing.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gemm_core/atom/elementwise_op.hpp"
#include "gemm_core/collective/cpu_dense_mainloop.hpp"
#include "gemm_core/epilogue/reduction_kind.hpp"
#include "gemm_core/epilogue/tile_epilogue.hpp"

namespace gemm_core::visitor {

using Fragment = const float*;  // piece.count() values

struct Piece {
  std::int64_t rows = 0, columns = 0;
  TilePlace place;                 // of element (0, 0)
  Fragment accumulator = nullptr;  // inside a Split: the common value
  const CpuAtoms* atoms = nullptr;
  const TileGrid* grid = nullptr;
  float* free = nullptr;  // scratch for fragments, enough for two a node
  std::int64_t count() const { return rows * columns; }
  float* take() {
    float* taken = free;
    free += count();
    return taken;
  }
};
using Inputs = std::span<const Fragment>;

struct Extents {
  std::int64_t m = 0, n = 0, batch = 1;
};

// ---- fetch and load ----

struct Accumulator {
  Fragment visit(Piece& piece, Inputs) const { return piece.accumulator; }
};

// A matrix [m, n]: the source C, a residual, a mask. f32, f16 or bf16.
struct MatrixLoad {
  std::string name = "aux";
  MatrixRef matrix = {};
  std::int64_t batch_stride = 0;
  float null_default = 0;
  Fragment visit(Piece& piece, Inputs) const;
  void check(const Extents& extents) const;
  void memory(const Extents& extents, std::vector<NodeMemory>& to) const;
};

// [n], the same for every row.
struct RowLoad {
  const float* data = nullptr;
  std::int64_t batch_stride = 0;
  float null_default = 0;
  Fragment visit(Piece& piece, Inputs) const;
  void memory(const Extents& extents, std::vector<NodeMemory>& to) const;
};

// [m], the same for every column.
struct ColumnLoad {
  const float* data = nullptr;
  std::int64_t batch_stride = 0;
  float null_default = 0;
  Fragment visit(Piece& piece, Inputs) const;
  void memory(const Extents& extents, std::vector<NodeMemory>& to) const;
};

// The product of its factors (scale_a * scale_b * alpha). A factor's pointer, if any, wins over its
// value.
struct Scalar {
  struct Factor {
    float value = 1;
    const float* pointer = nullptr;
    std::int64_t batch_stride = 0;
  };
  std::vector<Factor> factors;
  Scalar() = default;
  Scalar(float value) : factors{{value}} {}  // NOLINT: a number is a scalar node
  explicit Scalar(std::vector<Factor> all) : factors(std::move(all)) {}
  float value(std::int64_t batch) const;
  Fragment visit(Piece& piece, Inputs) const;
  void memory(const Extents& extents, std::vector<NodeMemory>& to) const;
};

// ---- compute ----

// The function on fp32 values, its result rounded to `output` (f32, tf32, f16, bf16).
struct Compute {
  ElementwiseOp op = ElementwiseOp::identity;
  OpParameters parameters = {};
  base::DType output = base::DType::f32;
  Fragment visit(Piece& piece, Inputs inputs) const;
};

// Any function of one to eight floats, for trees composed at compile time: ComputeWith{[](float a,
// float b) { return a * a + b; }}. It takes as many inputs as it has parameters.
template <class Function>
struct ComputeWith {
  Function function;
  Fragment visit(Piece& piece, Inputs inputs) const {
    float* to = piece.take();
    apply(to, piece.count(), inputs, std::make_index_sequence<kArity>());
    return to;
  }

 private:
  template <std::size_t>
  struct Always {  // an alias would lose its pack on the way through nvcc
    using Float = float;
  };
  template <std::size_t... kI>
  static constexpr bool takes(std::index_sequence<kI...>) {
    return std::is_invocable_r_v<float, const Function&, typename Always<kI>::Float...>;
  }
  template <std::size_t kN>
  static constexpr std::size_t arity() {
    static_assert(kN <= 8, "compute: the function takes no one to eight floats");
    if constexpr (takes(std::make_index_sequence<kN>())) {
      return kN;
    } else {
      return arity<kN + 1>();
    }
  }
  static constexpr std::size_t kArity = arity<1>();

  template <std::size_t... kI>
  void apply(float* to, std::int64_t count, Inputs inputs, std::index_sequence<kI...>) const {
    for (std::int64_t i = 0; i < count; ++i) to[i] = function(inputs[kI][i]...);
  }
};
template <class Function>
ComputeWith(Function) -> ComputeWith<Function>;

// fma(beta, C, input). Where beta is 0, C is not read and may be null; elsewhere a null C is
// refused.
struct AddScaledSource {
  Scalar beta;
  MatrixLoad source{.name = "C", .matrix = {}};
  Fragment visit(Piece& piece, Inputs inputs) const;
  void check(const Extents& extents) const;
  void memory(const Extents& extents, std::vector<NodeMemory>& to) const;
};

// The value that scale * input has in `type` (e4m3, e5m2, i8: saturating; f16, bf16), as fp32.
struct Quantise {
  base::DType type = base::DType::e4m3;
  Scalar scale = 1.0f;
  Fragment visit(Piece& piece, Inputs inputs) const;
  void check(const Extents& extents) const;
  void memory(const Extents& extents, std::vector<NodeMemory>& to) const;
};

// ---- store: the input passes through unchanged ----

struct MatrixStore {
  std::string name = "aux store";
  void* data = nullptr;
  base::DType dtype = base::DType::f32;  // f32, f16, bf16, e4m3, e5m2, i8
  std::int64_t row_stride = 0, column_stride = 1, batch_stride = 0;
  Fragment visit(Piece& piece, Inputs inputs) const;
  void check(const Extents& extents) const;
  void memory(const Extents& extents, std::vector<NodeMemory>& to) const;
};

// A bit an element, set where the input is at least 0: what the gradient of relu needs of a value
// before the activation. Rows start at whole bytes, the first column in the lowest bit.
struct MaskStore {
  std::string name = "mask store";
  std::uint8_t* data = nullptr;
  std::int64_t row_stride = 0, batch_stride = 0;  // bytes
  Fragment visit(Piece& piece, Inputs inputs) const;
  void check(const Extents& extents) const;
  void memory(const Extents& extents, std::vector<NodeMemory>& to) const;
};

// 1 where the bit is set, else 0: the second input of ElementwiseOp::d_relu.
struct MaskLoad {
  const std::uint8_t* data = nullptr;
  std::int64_t row_stride = 0, batch_stride = 0;  // bytes
  float null_default = 0;
  Fragment visit(Piece& piece, Inputs) const;
  void memory(const Extents& extents, std::vector<NodeMemory>& to) const;
};

// Partial results a tile, combined in tile order by finish(): the same bits for any number of
// threads. The result starts from the identity of the reduction. Batches that share `out` (stride
// 0) are reduced together.
struct Reduce {
  ReductionAxis axis = ReductionAxis::all;
  Reduction reduction = Reduction::sum;
  float* out = nullptr;
  std::int64_t batch_stride = 0;
  // Not final: the partial results [batch][slots][length] go here instead, for the caller to
  // combine. `slots` is the number of tiles that a result meets. CPU only.
  std::vector<float>* parts = nullptr;
  // While a result is made: its grid and the partial results [batch][slots][length].
  TileGrid grid = {};
  std::vector<float> partials = {};

  void check(const Extents& extents) const;
  void begin(const TileGrid& tiles);
  void memory(const Extents& extents, std::vector<NodeMemory>& to) const;
  Fragment visit(Piece& piece, Inputs inputs);
  void finish();
  bool is_null() const { return out == nullptr && parts == nullptr; }
  std::int64_t length() const;  // results of a batch
  std::int64_t slots() const;   // partial results of each
};

}  // namespace gemm_core::visitor

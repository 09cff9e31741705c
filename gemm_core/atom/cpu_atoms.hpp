// CPU atoms: the inner loops that are compiled once per instruction set and chosen at run time.
// Each works on rows of fp32 values in cache; everything above them is ordinary C++.
//
//   const CpuAtoms& atoms = cpu_atoms();
//   atoms.multiply(product);   // c[rows] (+)= a[rows] * panel of b
#pragma once
#include <cstdint>
#include <vector>

#include "gemm_core/atom/activation.hpp"
#include "gemm_core/atom/elementwise_op.hpp"
#include "gemm_core/base/dtype.hpp"

namespace gemm_core {

// Rows of memory that are read or written soon after a product.
struct AheadRows {
  const void* first = nullptr;
  std::int64_t pitch = 0, rows = 0, bytes = 0;  // pitch and length of a row in bytes
};

// What a product asks the memory for (into L2) while it multiplies, in this order.
class Ahead {
 public:
  static constexpr int kMost = 8;
  // Nothing where the rows are empty or there are kMost already: a hint may be dropped.
  void add(const AheadRows& rows) {
    if (count_ < kMost && rows.first != nullptr && rows.rows > 0 && rows.bytes > 0)
      part_[count_++] = rows;
  }
  int count() const { return count_; }
  const AheadRows& operator[](int i) const { return part_[i]; }

 private:
  AheadRows part_[kMost];
  int count_ = 0;
};

// Row i of operand A is base + source[i] * pitch (source null: i), k consecutive values.
// Row i of C is c + target[i] * ldc (target null: i), `columns` values, a multiple of the lanes.
// B is packed in panels [k][panel_vectors * lanes], the last one narrower, 64-byte aligned. Each
// element of C is one chain of multiply-adds from zero in the order of k, added to C at the end:
// its value depends on no tile size. T is float or double. Or T is a 32-bit word of several
// numbers, and the product of two words is the sum of the products of what they hold: a pair of
// int16 (int32 sums), a quad of uint8 in A and int8 in B (int32 sums), a pair of bf16 (Sum float).
template <class T, class Sum = T>
struct PanelProduct {
  const T* base = nullptr;
  std::int64_t pitch = 0;
  const std::int32_t* source = nullptr;
  const std::int32_t* target = nullptr;
  std::int64_t rows = 0, k = 0, columns = 0;
  const T* b = nullptr;
  Sum* c = nullptr;
  std::int64_t ldc = 0;
  bool accumulate = true;  // false: C is overwritten
  // Rows that the chains are added to instead of C's where `accumulate` is set; none: C's.
  const Sum* addend = nullptr;
  std::int64_t ld_addend = 0;
  // Hints, without effect on results; atoms may ignore them.
  const T* next_b = nullptr;  // the panel that is read after the last of these
  const Ahead* ahead = nullptr;
};

// c[target[i]][j] += a[source[i]][j] * weight[j]: one tap of a depthwise convolution.
struct DepthwiseProduct {
  const float* base = nullptr;
  std::int64_t pitch = 0;
  const std::int32_t* source = nullptr;
  const std::int32_t* target = nullptr;
  std::int64_t rows = 0;
  std::int64_t channels = 0;
  const float* weight = nullptr;
  float* c = nullptr;
  std::int64_t ldc = 0;
};

// Few input channels: row i of C (overwritten) is the sum over its pairs (input row, tap) of the k
// values of that input row times the weights b [tap][k][columns], one row of C in registers over
// all its pairs. The sum has two chains in the order of pairs, of even and of odd k, added at the
// end.
struct PairProduct {
  struct Pair {
    std::int32_t source, tap;
  };
  const float* base = nullptr;
  std::int64_t pitch = 0;
  const Pair* pairs = nullptr;  // row i has counts[i] of them from pairs + i * pairs_pitch
  const std::int32_t* counts = nullptr;
  std::int64_t pairs_pitch = 0;
  std::int64_t rows = 0, k = 0, columns = 0;
  const float* b = nullptr;
  float* c = nullptr;
  std::int64_t ldc = 0;
};

// Weight gradient of one tap: c[i][j] += sum over pairs p of a[source[p]][i] * b[target[p]][j]
// (source or target null: p), for i < rows and j < columns. Each sum is cut into chains of `block`
// pairs, added to C one after the other: its value depends on no tile size. Columns of A and B past
// the end of a row are never read; rows of C have room for whole vectors.
struct RowPairProduct {
  const float* a = nullptr;
  std::int64_t pitch_a = 0;
  const std::int32_t* source = nullptr;
  const float* b = nullptr;
  std::int64_t pitch_b = 0;
  const std::int32_t* target = nullptr;
  std::int64_t pairs = 0, block = 64;
  std::int64_t rows = 0, columns = 0;
  float* c = nullptr;
  std::int64_t ldc = 0;
};

// Rows of any supported type to packed fp32 rows [rows][columns], rounded to what `compute` can
// hold.
struct RowConversion {
  const void* base = nullptr;
  base::DType dtype = base::DType::f32;
  std::int64_t pitch = 0;  // elements
  const std::int32_t* source = nullptr;
  std::int64_t rows = 0, columns = 0;
  base::DType compute = base::DType::f32;
  float* to = nullptr;
  std::int64_t ldto = 0;
};

// to[j * ldto + i] = from[i * pitch + j] for i < rows, j < columns.
struct Transposition {
  const float* from = nullptr;
  std::int64_t pitch = 0, rows = 0, columns = 0;
  float* to = nullptr;
  std::int64_t ldto = 0;
};

// A block of fp32 values on which an epilogue works.
struct Block {
  float* values = nullptr;
  std::int64_t ld = 0, rows = 0, columns = 0;
};

struct LinearCombination {
  float alpha = 1, beta = 0;
  const void* c = nullptr;
  base::DType dtype = base::DType::f32;
  std::int64_t pitch = 0;  // elements
};

// to[i][j] = activation(fma(v, scale[j], shift[j]) + aux[i][j]), rounded once to `dtype`; null
// scale, shift and aux are left out. Activations: identity, relu, leaky_relu.
struct RowFinish {
  const float* scale = nullptr;
  const float* shift = nullptr;
  const void* aux = nullptr;
  base::DType aux_dtype = base::DType::f32;  // f32, f16 or bf16, and so is `dtype`
  std::int64_t aux_pitch = 0;                // elements
  Activation activation = Activation::identity;
  float slope = 0;
  void* to = nullptr;
  base::DType dtype = base::DType::f32;
  std::int64_t pitch = 0;
};

struct CpuAtoms {
  const char* name = "";
  std::int64_t lanes = 1;  // floats (and int32) in a vector
  std::int64_t lanes_f64 = 1;
  int panel_vectors = 1;  // vectors in a full panel of B
  void (*multiply)(const PanelProduct<float>&) = nullptr;
  void (*multiply_f64)(const PanelProduct<double>&) = nullptr;
  void (*multiply_i16)(const PanelProduct<std::int32_t>&) = nullptr;
  // Dot-product and matrix instructions; null where the machine has none, or works on other
  // vectors.
  void (*multiply_u8i8)(const PanelProduct<std::int32_t>&) = nullptr;
  void (*multiply_bf16)(const PanelProduct<std::uint32_t, float>&) = nullptr;
  const char* u8i8_name = "";
  const char* bf16_name = "";
  void (*multiply_pairs)(const PairProduct&) = nullptr;
  void (*multiply_depthwise)(const DepthwiseProduct&) = nullptr;
  void (*multiply_row_pairs)(const RowPairProduct&) = nullptr;
  // One row of C: c[j] += sum over pairs of a[source[p]][j] * b[target[p]][j].
  void (*multiply_row_pairs_depthwise)(const RowPairProduct&) = nullptr;
  void (*convert_rows)(const RowConversion&) = nullptr;
  void (*transpose)(const Transposition&) = nullptr;
  // Rows of `neighbours` that are present: their index to `source`, their position to `target`;
  // returns how many.
  std::int64_t (*list_present)(const std::int32_t* neighbours, std::int64_t rows,
                               std::int32_t* source, std::int32_t* target) = nullptr;
  // v = fma(beta, c, alpha * v); c null: v = alpha * v.
  void (*combine)(const Block&, const LinearCombination&) = nullptr;
  void (*scale_shift)(const Block&, const float* scale, const float* shift) = nullptr;
  void (*add)(const Block&, const void* aux, base::DType dtype, std::int64_t pitch) = nullptr;
  void (*activate)(const Block&, Activation, float slope) = nullptr;
  // to[i] = op(inputs[0][i], ...); `to` may be one of the inputs.
  void (*elementwise)(ElementwiseOp, const OpParameters&, const float* const* inputs,
                      std::int64_t count, float* to) = nullptr;
  void (*store)(const Block&, void* to, base::DType dtype, std::int64_t pitch) = nullptr;
  void (*finish)(const Block&, const RowFinish&) = nullptr;  // values of the block stay
  // As many multiply-adds as the registers allow at once, `iterations` times; returns the
  // operations done.
  double (*fma_burst)(std::int64_t iterations) = nullptr;
};

const CpuAtoms& cpu_atoms();                         // the best that this machine runs
std::vector<const CpuAtoms*> supported_cpu_atoms();  // all that it runs, for tests

}  // namespace gemm_core

// A visitor graph as kernels take it: nodes in topological order, each with the numbers of the
// nodes that it reads; trivially copyable, so that it travels in the kernel's parameters. Made from
// the CPU's description by visitor_lowering.hpp. Pointers are device pointers.
#pragma once
#include <cstdint>

#include "gemm_core/atom/elementwise_op.hpp"
#include "gemm_core/base/dtype.hpp"
#include "gemm_core/base/host_device.hpp"
#include "gemm_core/epilogue/reduction_kind.hpp"

namespace gemm_core {

// Loads, which whoever reads them evaluates; from `compute` on, steps.
enum class VisitorKind : std::uint8_t {
  accumulator,
  matrix,      // data[m][n]
  row,         // data[n], fp32
  column,      // data[m], fp32
  scalar,      // the product of factors
  mask,        // a bit an element of data, as 0 or 1
  compute,     // op(inputs), rounded to `type`
  add_source,  // fma(factors, data[m][n], input); data is not read where the factors' product is 0
  quantise,    // factors * input, rounded to `type`
  store,       // input to data[m][n]
  store_mask,  // input >= 0 as a bit an element
  reduce,      // partial results to data, in blocks of 16 x 16
};

struct VisitorFactor {
  float value = 1;
  const float* pointer = nullptr;  // instead of value
  std::int64_t batch_stride = 0;
};

struct VisitorNode {
  VisitorKind kind = VisitorKind::accumulator;
  ElementwiseOp op = ElementwiseOp::identity;
  base::DType type = base::DType::f32;
  visitor::ReductionAxis axis = visitor::ReductionAxis::all;
  visitor::Reduction reduction = visitor::Reduction::sum;
  bool pairs = false;  // two neighbours of a row, the first in an even column, are an aligned word
  bool keeps = false;  // a step whose value is read later than by the next step
  std::int8_t inputs[3] = {0, 0, 0};
  std::uint8_t first_factor = 0, factor_count = 0;
  OpParameters parameters;
  void* data = nullptr;
  std::int64_t row_stride = 0, column_stride = 1, batch_stride = 0;  // elements; of masks: bytes
};

// Where the partial results of a `reduce` node end.
struct VisitorReduction {
  std::int8_t node = 0;
  float* out = nullptr;
  std::int64_t batch_stride = 0;
};

struct VisitorProgram {
  static constexpr int kMaxNodes = 24, kMaxFactors = 16, kMaxReductions = 6;
  int count = 0, result = 0, factors = 0, reductions = 0;
  VisitorNode nodes[kMaxNodes];
  VisitorFactor factor[kMaxFactors];
  VisitorReduction reduction[kMaxReductions];
};

// Partial results of reductions: one of each block of 16 x 16 elements, by row of blocks and column
// (axis rows), by column of blocks and row (axis columns), or by both (all). What a block gives
// does not depend on the kernel's tiles, and the blocks are combined in order.
struct VisitorBlocks {
  std::int64_t m = 0, n = 0;
  BASE_HD constexpr std::int64_t slots(visitor::ReductionAxis axis) const {
    const std::int64_t rows = (m + 15) / 16, columns = (n + 15) / 16;
    return axis == visitor::ReductionAxis::rows      ? rows
           : axis == visitor::ReductionAxis::columns ? columns
                                                     : rows * columns;
  }
  BASE_HD constexpr std::int64_t length(visitor::ReductionAxis axis) const {
    return axis == visitor::ReductionAxis::rows      ? n
           : axis == visitor::ReductionAxis::columns ? m
                                                     : 1;
  }
  BASE_HD constexpr std::int64_t count(visitor::ReductionAxis axis) const {
    return slots(axis) * length(axis);
  }
};

}  // namespace gemm_core

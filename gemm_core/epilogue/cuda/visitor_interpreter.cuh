// Runs a visitor program on eight values a thread at a time: for graphs that have no kernel of
// their own. The value of a step stays in registers for the next one; only those that are read
// later go to the thread's local memory. Branches are uniform over the grid.
#pragma once
#include "gemm_core/epilogue/cuda/visitor_values.cuh"

namespace gemm_core {

struct VisitorInterpreter {
  static constexpr int kValues = 8;
  using Values = float[kValues];

  static __device__ __forceinline__ float factors_of(const VisitorProgram& program,
                                                     const VisitorNode& node, int batch) {
    float product = 1;
    for (int i = 0; i < node.factor_count; ++i) {
      const VisitorFactor& f = program.factor[node.first_factor + i];
      product *= f.pointer != nullptr ? __ldg(f.pointer + batch * f.batch_stride) : f.value;
    }
    return product;
  }

  // v: accumulators, afterwards the program's result.
  static __device__ __forceinline__ void run(const VisitorProgram& program, const VisitorSpot& spot,
                                             Values& v) {
    float kept[VisitorProgram::kMaxNodes][kValues];
    Values last = {};  // of step `step`
    int step = -1;
    const auto copy = [](const float* from, float* to) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) to[i] = from[i];
    };
    const auto fetch = [&](int index, Values& to) {
      if (index == step) return copy(last, to);
      const VisitorNode& node = program.nodes[index];
      switch (node.kind) {
        case VisitorKind::accumulator:
          return copy(v, to);
        case VisitorKind::matrix:
          return read_matrix(spot, node, to);
        case VisitorKind::row:
          return read_row_vector(spot, node, to);
        case VisitorKind::column:
          return read_column_vector(spot, node, to);
        case VisitorKind::mask:
          return read_mask(spot, node, to);
        case VisitorKind::scalar: {
          const float value = factors_of(program, node, spot.batch);
#pragma unroll
          for (float& x : to) x = value;
          return;
        }
        default:
          return copy(kept[index], to);
      }
    };
    // The steps, and the result as one that changes nothing.
#pragma unroll 1
    for (int index = 0; index <= program.count; ++index) {
      const bool is_end = index == program.count;
      const VisitorNode& node = program.nodes[is_end ? 0 : index];
      if (!is_end && node.kind < VisitorKind::compute) continue;
      const int inputs = !is_end && node.kind == VisitorKind::compute ? arity(node.op) : 1;
      Values a = {}, b = {}, c = {};
      // Inputs come in from the last one: one copy of the code.
#pragma unroll 1
      for (int i = inputs; i-- > 0;) {
        copy(b, c);
        copy(a, b);
        fetch(is_end ? program.result : node.inputs[i], a);
      }
      if (is_end) {
        copy(a, v);
        break;
      }
      switch (node.kind) {
        case VisitorKind::compute:
          apply_op(node.op, node.parameters, a, b, c, a);
          round_values(node.type, a);
          break;
        case VisitorKind::add_source: {
          const float factor = factors_of(program, node, spot.batch);
          if (factor == 0) break;
          read_matrix(spot, node, b);
#pragma unroll
          for (int i = 0; i < kValues; ++i) a[i] = fmaf(factor, b[i], a[i]);
          break;
        }
        case VisitorKind::quantise: {
          const float factor = factors_of(program, node, spot.batch);
#pragma unroll
          for (float& x : a) x = __fmul_rn(factor, x);
          round_values(node.type, a);
          break;
        }
        case VisitorKind::store:
          write_matrix(spot, node, a);
          break;
        case VisitorKind::store_mask:
          write_mask(spot, node, a);
          break;
        default:
          leave_reduction(spot, node, a);
          break;
      }
      copy(a, last);
      step = index;
      if (node.keeps) copy(a, kept[index]);
    }
  }
};

}  // namespace gemm_core

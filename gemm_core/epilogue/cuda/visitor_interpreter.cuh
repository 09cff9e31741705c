// Runs a visitor program on eight values a thread at a time: for graphs that have no kernel of
// their own. Values of nodes lie in the thread's local memory; branches are uniform over the grid.
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
    float values[VisitorProgram::kMaxNodes][kValues];
    const auto copy = [](const float* from, float* to) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) to[i] = from[i];
    };
#pragma unroll 1
    for (int index = 0; index < program.count; ++index) {
      const VisitorNode& node = program.nodes[index];
      Values a, b, c;
      if (node.kind != VisitorKind::accumulator && node.kind >= VisitorKind::compute)
        copy(values[node.inputs[0]], a);
      switch (node.kind) {
        case VisitorKind::accumulator:
          copy(v, a);
          break;
        case VisitorKind::matrix:
          read_matrix(spot, node, a);
          break;
        case VisitorKind::row:
          read_row_vector(spot, node, a);
          break;
        case VisitorKind::column:
          read_column_vector(spot, node, a);
          break;
        case VisitorKind::mask:
          read_mask(spot, node, a);
          break;
        case VisitorKind::scalar: {
          const float value = factors_of(program, node, spot.batch);
#pragma unroll
          for (float& x : a) x = value;
          break;
        }
        case VisitorKind::compute:
          copy(values[node.inputs[1]], b);
          copy(values[node.inputs[2]], c);
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
        case VisitorKind::reduce:
          leave_reduction(spot, node, a);
          break;
      }
      copy(a, values[index]);
    }
    copy(values[program.result], v);
  }
};

}  // namespace gemm_core

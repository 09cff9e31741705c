// Visitor programs as launches of their own: over sums that a product left in memory, where no
// kernel runs the program in its store path, and over the partial results of reductions.
#pragma once
#include "gemm_core/epilogue/cuda/visitor_interpreter.cuh"

namespace gemm_core {

struct VisitorPassParams {
  VisitorProgram program;
  VisitorNode d;                // where the program's result goes, like a `store` node
  const float* sums = nullptr;  // [batch][m][pitch]
  std::int64_t pitch = 0;       // a multiple of 2
  int m = 0, n = 0, batch = 0;
};

inline constexpr int kVisitorBlock = 64, kVisitorThreads = 128;

// A thread block takes 64 x 64 elements.
static __global__ void __launch_bounds__(kVisitorThreads)
    visitor_pass(const __grid_constant__ VisitorPassParams params) {
  const unsigned blocks_n = (static_cast<unsigned>(params.n) + kVisitorBlock - 1) / kVisitorBlock;
  const unsigned blocks_m = (static_cast<unsigned>(params.m) + kVisitorBlock - 1) / kVisitorBlock;
  const unsigned block_n = blockIdx.x % blocks_n, rest = blockIdx.x / blocks_n;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  VisitorSpot spot;
  spot.row = static_cast<int>(rest % blocks_m) * kVisitorBlock + warp * 16 + lane / 4;
  spot.column = static_cast<int>(block_n) * kVisitorBlock + lane % 4 * 2;
  spot.batch = static_cast<int>(rest / blocks_m);
  spot.lane = lane;
  spot.m = params.m;
  spot.n = params.n;
  const float* const sums =
      params.sums + static_cast<std::int64_t>(spot.batch) * params.m * params.pitch;
#pragma unroll 1
  for (int chunk = 0; chunk < kVisitorBlock / 16; ++chunk, spot.column += 16) {
    VisitorInterpreter::Values v;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float2 two{};
        if (spot.row_of(half) < params.m && spot.column_of(j) < params.n)
          two = *reinterpret_cast<const float2*>(sums + spot.row_of(half) * params.pitch +
                                                 spot.column_of(j));
        v[4 * j + 2 * half] = two.x;
        v[4 * j + 2 * half + 1] = two.y;
      }
    }
    VisitorInterpreter::run(params.program, spot, v);
    write_matrix(spot, params.d, v);
  }
}

inline constexpr int kFinishElements = 32, kFinishParts = 8;

struct VisitorFinishParams {
  VisitorProgram program;
  int m = 0, n = 0, batch = 0;
};

// grid: (elements / 32, batches, reductions). Parts of the slots are combined in order, the parts
// in order too; batches that share a result are further slots.
static __global__ void __launch_bounds__(kFinishElements* kFinishParts)
    visitor_finish(const __grid_constant__ VisitorFinishParams params) {
  using visitor::ReductionAxis;
  __shared__ float parts[kFinishParts][kFinishElements];
  const VisitorReduction& reduction = params.program.reduction[blockIdx.z];
  const VisitorNode& node = params.program.nodes[reduction.node];
  const VisitorBlocks blocks{params.m, params.n};
  const std::int64_t length = blocks.length(node.axis), slots = blocks.slots(node.axis);
  const bool shares = reduction.batch_stride == 0;
  if (shares && blockIdx.y > 0) return;
  const int x = static_cast<int>(threadIdx.x) % kFinishElements;
  const int y = static_cast<int>(threadIdx.x) / kFinishElements;
  const bool is_all = node.axis == ReductionAxis::all;
  const std::int64_t element = is_all ? 0 : std::int64_t{blockIdx.x} * kFinishElements + x;
  if (is_all && blockIdx.x > 0) return;
  const std::int64_t total = slots * (shares ? params.batch : 1);
  const float* const from =
      static_cast<const float*>(node.data) + blockIdx.y * blocks.count(node.axis);
  const visitor::Reduction how = node.reduction;
  float value = reduction_identity(how);
  if (is_all) {
    for (std::int64_t i = threadIdx.x; i < total; i += kFinishElements * kFinishParts)
      value = reduced(how, value, from[i]);
  } else if (element < length) {
    const std::int64_t end = total * (y + 1) / kFinishParts;
#pragma unroll 4
    for (std::int64_t i = total * y / kFinishParts; i < end; ++i)
      value = reduced(how, value, from[i * length + element]);
  }
  parts[y][x] = value;
  __syncthreads();
  if (y > 0) return;
#pragma unroll
  for (int i = 1; i < kFinishParts; ++i) value = reduced(how, value, parts[i][x]);
  float* const to = reduction.out + blockIdx.y * reduction.batch_stride;
  if (!is_all) {
    if (element < length) to[element] = value;
    return;
  }
#pragma unroll
  for (int step = kFinishElements / 2; step > 0; step /= 2)
    value = reduced(how, value, __shfl_down_sync(~0u, value, step));
  if (x == 0) *to = value;
}

}  // namespace gemm_core

// What one executor keeps on its device for all frames: weights and epilogue vectors of a plan, and
// how the plan's levels become coordinate sets. Immutable after construction, shared by frames in
// flight.
#pragma once
#include <deque>
#include <vector>

#include "gemm_core/device/cuda/gather_conv.hpp"
#include "sparseconv/executor.hpp"

namespace sparseconv::cuda {

struct DevicePlan {
  // Error for a plan with steps that this backend lacks, naming the node.
  DevicePlan(const Plan& plan, const ExecutorOptions& options);

  Plan plan;  // with the rows of every buffer padded to whole 16-byte chunks
  int device;
  base::DType dtype, storage;                         // storage: f32 for tf32
  std::vector<gemm_core::cuda::ConvWeights> weights;  // of each step; empty where it has none
  std::vector<gemm_core::Epilogue> epilogues;         // of each step, without operands of `add`
  std::deque<base::cuda::Buffer<float>> constants;    // what epilogues point to
  bool caches_maps;
  int label_output;  // index into plan.outputs, or -1
  std::int64_t row_bound;
  std::optional<VoxelizeOptions> voxelize;  // where clouds can be voxelised on the device
  std::vector<int> set_of_level;            // -1: no coordinates on the device
  std::vector<int> levels_of_sets;          // level of a set
  // The frame's features stand in a buffer of their own with rows padded by zeros to this many
  // channels, so that the first layer's rows are whole 16-byte chunks, or spans of the gather
  // kernels; 0: they stand in the plan's buffer.
  std::int64_t padded_input = 0;

  std::int64_t weight_bytes() const;
  bool reads_padded_input(const PlanStep& step) const {
    return padded_input > 0 && step.kind == PlanStep::Kind::convolution &&
           step.inputs[0].buffer == plan.input.buffer;
  }
};

}  // namespace sparseconv::cuda

// What one executor keeps on its device for all frames: weights and epilogue vectors of a plan, and
// how the plan's levels become coordinate sets. Immutable after construction, shared by frames in
// flight.
#pragma once
#include <deque>
#include <span>
#include <vector>

#include "gemm_core/device/cuda/gather/gather_conv.hpp"
#include "sparseconv/cuda/narrow_plan.hpp"
#include "sparseconv/executor.hpp"

namespace sparseconv::cuda {

struct DevicePlan {
  // Error for a plan with steps that this backend lacks, naming the node. `largest`: magnitudes of
  // each step's output, where options.dtype is e4m3 or i8; without them everything stays in f16.
  DevicePlan(const Plan& plan, const ExecutorOptions& options, std::span<const float> largest = {});

  DeviceSteps plan;  // with the rows of every buffer padded to whole 16-byte chunks
  int device;
  // Of everything but 8-bit buffers; f16 where 8 bits were asked for. storage: f32 for tf32.
  base::DType dtype, storage;
  base::DType narrow;                                     // of 8-bit buffers: e4m3 or i8
  std::vector<gemm_core::cuda::ConvWeights> weights;      // of each step; empty where it has none
  std::vector<gemm_core::cuda::ConvWeights> own_weights;  // of each step, of StepExtras::own_weight
  std::vector<gemm_core::Epilogue> epilogues;             // of each step, without operands of `add`
  std::deque<base::cuda::Buffer<float>> constants;        // what epilogues point to
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

  // For place_buffers: the plan with every buffer's row in bytes instead of channels.
  Plan in_bytes() const;
  // Frames run to learn the largest magnitudes of the steps' outputs.
  bool measures = false;

  std::int64_t weight_bytes() const;
  base::DType type_of(const PlanSlice& slice) const {
    return plan.is_narrow[static_cast<std::size_t>(slice.buffer)] ? narrow : storage;
  }
  base::DType compute_of(const PlanStep& step) const {
    return multiplies_narrow(plan, step) ? narrow : dtype;
  }
  bool reads_padded_input(const PlanStep& step) const {
    return padded_input > 0 && step.kind == PlanStep::Kind::convolution &&
           step.inputs[0].buffer == plan.input.buffer;
  }
};

}  // namespace sparseconv::cuda

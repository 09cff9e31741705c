// What the tape keeps on the CPU (training/tape.hpp has the interface).
#pragma once
#include <string>
#include <vector>

#include "gemm_core/collective/aligned_buffer.hpp"
#include "gemm_core/collective/gather_conv_arguments.hpp"
#include "sparseconv/cpu/frame.hpp"
#include "sparseconv/cpu/gradients.hpp"
#include "sparseconv/training/tape.hpp"

namespace sparseconv::training {

struct Tape::Impl {
  Impl(const Model& model, const TapeOptions& options);

  // Empty, or with `checks` the node of the first output that is not finite.
  std::string forward(const FrameInput& input, bool checks);
  void backward();
  void update_statistics();
  base::TensorView view(const PlanSlice& slice) const;
  // A value in the backward pass.
  base::TensorView kept(const PlanSlice& slice) const { return view(planned.kept(slice)); }
  static base::ConstTensorView constant(const base::TensorView& v) {
    return {v.data, v.dtype, v.device, v.shape, v.stride};
  }

  // Kept for each step; offsets into the parameters' arrays, -1 where it has no such parameter.
  struct StepState {
    std::int64_t weight = -1, bias = -1, running_mean = -1, running_variance = -1;
    double eps = 0;
    gemm_core::PackedConvWeights weights, transposed;
    gemm_core::Epilogue epilogue;
    std::int64_t rows = 0;               // batch norm: of the last forward pass
    std::vector<double> mean, variance;  // biased
    std::vector<float> centre, scale, shift;
  };

  Model model;
  TapeOptions options;
  base::DType storage;  // of values
  TrainingPlan planned;
  Parameters parameters;
  std::vector<StepState> steps;

  FrameInput input;
  cpu::Frame frame;
  std::vector<KernelMapPtr> inverse;  // of a map: made when a gradient first needs it
  Placement placement;
  gemm_core::AlignedBuffer arena, workspace;
  char* start = nullptr;  // of the arena
  std::vector<base::Tensor> dense, dense_gradients;
  double maps_ms = 0;
  bool is_forward_done = false;

 private:
  void build(const FrameInput& input);
  void run_step(std::size_t index);
  const gemm_core::Epilogue& epilogue(std::size_t index);
  void convolve(std::size_t index, const base::ConstTensorView& from, const base::TensorView& to);
  void normalise(std::size_t index, const base::ConstTensorView& from, const base::TensorView& to);
  const KernelMapPtr& map_of(const PlanStep& step) const {
    return frame.maps[static_cast<std::size_t>(step.map)];
  }
  cpu::DevoxelizeArguments devoxelize_arguments(const PlanStep& step) const;

  // cpu/tape_backward.cpp
  void clear_parameters(int node);
  void recompute(int buffer);
  void step_back(std::size_t index);
  void convolve_back(std::size_t index, const base::TensorView& gradient);
  void input_gradient_of(std::size_t index, const base::ConstTensorView& gradient);
  void normalise_back(std::size_t index, const base::TensorView& gradient);
  void merge_back(std::size_t index, const base::ConstTensorView& gradient);
  void move_back(std::size_t index, const base::ConstTensorView& gradient);
  const KernelMap& inverse_of(int map);
  // Zeroes what nobody has written; false where no gradient is wanted.
  bool prepare(const GradientWrite& write);
};

}  // namespace sparseconv::training

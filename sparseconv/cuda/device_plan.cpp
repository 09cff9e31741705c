#include "sparseconv/cuda/device_plan.hpp"

namespace sparseconv::cuda {
namespace {

using Kind = PlanStep::Kind;

void check_steps(const Plan& plan) {
  for (const PlanStep& step : plan.steps) {
    ENSURE(step.kind != Kind::merge, "node '", step.node,
           "': merging levels is not available on CUDA");
    ENSURE(step.kind != Kind::devoxelize || (!step.trilinear && step.input_level == 0), "node '",
           step.node, "': on CUDA, devoxelize takes the nearest voxel of the input's level only");
  }
}

const float* upload_constants(std::deque<base::cuda::Buffer<float>>& constants,
                              const std::vector<float>& values) {
  if (values.empty()) return nullptr;
  auto& buffer = constants.emplace_back(values.size());
  CUDA_CHECK(cudaMemcpy(buffer.data(), values.data(), buffer.nbytes(), cudaMemcpyHostToDevice));
  return buffer.data();
}

gemm_core::Epilogue epilogue_of(const PlanStep& step,
                                std::deque<base::cuda::Buffer<float>>& constants) {
  gemm_core::Epilogue epilogue;
  for (const PlanEpilogueNode& node : step.epilogue) {
    switch (node.kind) {
      case gemm_core::EpilogueNode::Kind::scale_shift:
        epilogue.scale_shift(upload_constants(constants, node.scale),
                             upload_constants(constants, node.shift));
        break;
      case gemm_core::EpilogueNode::Kind::add:
        epilogue.add({});
        break;
      default:
        epilogue.activate(node.activation, node.slope);
        break;
    }
  }
  return epilogue;
}

// Padding pays where the first layers could not run on the matrix cores otherwise.
std::int64_t padded_input_channels(const Plan& plan, base::DType dtype) {
  if (dtype == base::DType::f32 || plan.input.buffer < 0) return 0;
  const auto& buffer = plan.buffers[static_cast<std::size_t>(plan.input.buffer)];
  const std::int64_t per_chunk = dtype == base::DType::tf32 ? 4 : 8;
  if (buffer.channels != plan.input.channels || buffer.channels % per_chunk == 0) return 0;
  for (const PlanStep& step : plan.steps) {
    if (step.output.buffer == plan.input.buffer) return 0;  // reused for something else later
  }
  return (buffer.channels + per_chunk - 1) / per_chunk * per_chunk;
}

}  // namespace

DevicePlan::DevicePlan(const Plan& p, const ExecutorOptions& options)
    : plan(p),
      device(options.device.index),
      dtype(options.dtype),
      storage(options.dtype == base::DType::tf32 ? base::DType::f32 : options.dtype),
      padded_input(padded_input_channels(p, options.dtype)) {
  check_steps(plan);
  for (const PlanStep& step : plan.steps) {
    weights.emplace_back();
    epilogues.push_back(epilogue_of(step, constants));
    if (step.kind != Kind::convolution) continue;
    weights.back() = gemm_core::cuda::upload_conv_weights({.weight = step.weight.data<float>(),
                                                           .cout = step.weight.size(0),
                                                           .taps = step.taps,
                                                           .cin = step.inputs[0].channels,
                                                           .groups = step.groups,
                                                           .compute = dtype});
    if (reads_padded_input(step) && step.groups == 1) weights.back().cin = padded_input;
  }
  for (std::size_t level = 0; level < plan.levels.size(); ++level) {
    using LevelKind = Level::Kind;
    const LevelKind kind = plan.levels[level].kind;
    const bool has_set =
        plan.is_level_used[level] &&
        (kind == LevelKind::input || kind == LevelKind::strided || kind == LevelKind::generative);
    set_of_level.push_back(has_set ? static_cast<int>(levels_of_sets.size()) : -1);
    if (has_set) levels_of_sets.push_back(static_cast<int>(level));
  }
}

std::int64_t DevicePlan::weight_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& w : weights) bytes += static_cast<std::int64_t>(w.data.nbytes());
  for (const auto& c : constants) bytes += static_cast<std::int64_t>(c.nbytes());
  return bytes;
}

}  // namespace sparseconv::cuda

// The tape on the CPU: frames, buffers and steps forward; cpu/tape_backward.cpp has the way back.
#include <chrono>
#include <cmath>

#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/elementwise.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "sparseconv/cpu/float_rows.hpp"
#include "sparseconv/cpu/tape_impl.hpp"

namespace sparseconv::training {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = PlanStep::Kind;

bool all_finite(const base::ConstTensorView& view) {
  const cpu::FloatRows values(view, 0, view.shape[0]);
  for (std::int64_t row = 0; row < view.shape[0]; ++row) {
    const float* x = values.row(row);
    for (std::int64_t c = 0; c < view.shape[1]; ++c) {
      if (!std::isfinite(x[c])) return false;
    }
  }
  return true;
}

}  // namespace

Tape::Impl::Impl(const Model& m, const TapeOptions& o)
    : model(m),
      options(o),
      storage(o.dtype == base::DType::tf32 ? base::DType::f32 : o.dtype),
      planned(make_training_plan(model,
                                 {.input_gradient = o.input_gradient, .recomputes = o.recomputes})),
      parameters(model, planned.plan),
      steps(planned.plan.steps.size()) {
  using base::DType;
  ENSURE(o.dtype == DType::f32 || o.dtype == DType::tf32 || o.dtype == DType::f16 ||
             o.dtype == DType::bf16,
         "tape: element type ", base::name(o.dtype),
         " is none of float32, tf32, float16, bfloat16");
  ENSURE(o.batch_norm_momentum >= 0 && o.batch_norm_momentum <= 1, "batch_norm_momentum ",
         o.batch_norm_momentum, " is not in 0..1");
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const PlanStep& step = planned.plan.steps[s];
    if (step.parameters < 0) continue;
    StepState& state = steps[s];
    const Node& node = model.nodes[static_cast<std::size_t>(step.parameters)];
    state.weight = parameters.entry(step.parameters, "weight").offset;
    if (node.op == Op::batch_norm || node.bias)
      state.bias = parameters.entry(step.parameters, "bias").offset;
    if (node.op != Op::batch_norm) continue;
    state.eps = node.eps;
    state.running_mean = parameters.entry(step.parameters, "running_mean").offset;
    state.running_variance = parameters.entry(step.parameters, "running_var").offset;
  }
}

base::TensorView Tape::Impl::view(const PlanSlice& slice) const {
  const auto b = static_cast<std::size_t>(slice.buffer);
  const PlanBuffer& buffer = planned.plan.buffers[b];
  const std::int64_t rows = frame.rows[static_cast<std::size_t>(buffer.level)];
  const base::DType type = buffer.is_f32 ? base::DType::f32 : storage;
  char* const data =
      start == nullptr ? nullptr : start + placement.offset[b] + slice.channel * base::bytes(type);
  return {data, type, {}, {rows, slice.channels}, {buffer.channels, 1}};
}

void Tape::Impl::build(const FrameInput& frame_input) {
  const auto begin = Clock::now();
  input = frame_input;
  is_forward_done = false;
  ENSURE(input.voxels.coordinates != nullptr, "tape: the input has no coordinates");
  input.voxels.check("tape");
  ENSURE(input.voxels.channels() == model.in_channels(), "tape: the input has ",
         input.voxels.channels(), " channels, the model takes ", model.in_channels());
  cpu::build_frame(planned.plan, input.voxels.coordinates, input.points(), frame);
  inverse.assign(planned.plan.maps.size(), nullptr);
  place_buffers(planned.plan, frame.rows, static_cast<int>(base::bytes(storage)), placement);
  start = reinterpret_cast<char*>(
      arena.reserve(placement.bytes / static_cast<std::int64_t>(sizeof(float))));
  maps_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::string Tape::Impl::forward(const FrameInput& frame_input, bool checks) {
  build(frame_input);
  const Plan& plan = planned.plan;
  const base::Tensor& features = input.voxels.features;
  gemm_core::elementwise(features.view(), {}, view(plan.input));
  dense.assign(plan.outputs.size(), {});
  dense_gradients.assign(plan.outputs.size(), {});
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    try {
      run_step(s);
    } catch (const base::Error& error) {
      base::fail("node '", step.node, "': ", error.what());
    }
    if (checks && step.output.buffer >= 0 && !all_finite(constant(view(step.output))))
      return step.node;
  }
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    if (plan.outputs[i].is_dense) {
      dense_gradients[i] = base::Tensor::zeros(dense[i].shape(), base::DType::f32);
    } else {
      cpu::zero_rows(view(planned.output_gradients[i]));
    }
  }
  is_forward_done = true;
  return {};
}

void Tape::Impl::run_step(std::size_t index) {
  const PlanStep& step = planned.plan.steps[index];
  const base::ConstTensorView from = constant(view(step.inputs[0]));
  const auto& coordinates = frame.levels[static_cast<std::size_t>(step.input_level)];
  if (step.kind == Kind::to_dense) {
    auto grid = cpu::to_dense(*coordinates, from);
    dense[static_cast<std::size_t>(step.dense_output)] = std::move(grid);
    return;
  }
  const base::TensorView to = view(step.output);
  switch (step.kind) {
    case Kind::convolution:
      convolve(index, from, to);
      break;
    case Kind::batch_norm:
      normalise(index, from, to);
      break;
    case Kind::elementwise:
      gemm_core::elementwise(from, epilogue(index), to);
      break;
    case Kind::max_pool:
    case Kind::avg_pool:
    case Kind::sum_pool:
      cpu::pool({step.kind, map_of(step).get(), step.implicit_zero}, from, to);
      break;
    case Kind::global_max:
    case Kind::global_avg:
      cpu::global_pool(step.kind, *coordinates, from, to);
      break;
    case Kind::merge: {
      std::vector<base::ConstTensorView> parts;
      for (const auto& slice : step.inputs) parts.push_back(constant(view(slice)));
      cpu::merge(frame.merges[static_cast<std::size_t>(step.output_level)], parts, to);
      break;
    }
    case Kind::devoxelize:
      cpu::devoxelize(devoxelize_arguments(step), from, to);
      break;
    case Kind::to_dense:
      break;
  }
}

cpu::DevoxelizeArguments Tape::Impl::devoxelize_arguments(const PlanStep& step) const {
  return {.coordinates = frame.levels[static_cast<std::size_t>(step.input_level)].get(),
          .voxels = frame.levels[0].get(),
          .frame = &input,
          .transform = transform_of(planned.plan, step.input_level),
          .is_input_level = step.input_level == 0,
          .trilinear = step.trilinear};
}

// The step's epilogue with the parameters and operands of this frame.
const gemm_core::Epilogue& Tape::Impl::epilogue(std::size_t index) {
  const PlanStep& step = planned.plan.steps[index];
  StepState& state = steps[index];
  gemm_core::Epilogue& result = state.epilogue;
  result.nodes.clear();
  if (step.kind == Kind::batch_norm) {
    // Centred first: values far from 0 lose nothing, and a single row gives exactly the bias.
    result.scale_shift(nullptr, state.centre.data());
    result.scale_shift(state.scale.data(), state.shift.data());
  }
  for (const auto& node : step.epilogue) {
    switch (node.kind) {
      case gemm_core::EpilogueNode::Kind::scale_shift:
        result.scale_shift(nullptr, parameters.values.data() + state.bias);
        break;
      case gemm_core::EpilogueNode::Kind::add:
        result.add(constant(view(node.aux)));
        break;
      case gemm_core::EpilogueNode::Kind::activate:
        result.activate(node.activation, node.slope);
        break;
    }
  }
  return result;
}

void Tape::Impl::convolve(std::size_t index, const base::ConstTensorView& from,
                          const base::TensorView& to) {
  const PlanStep& step = planned.plan.steps[index];
  StepState& state = steps[index];
  if (to.shape[0] == 0) return;
  gemm_core::pack_conv_weights({.weight = parameters.values.data() + state.weight,
                                .cout = step.output.channels,
                                .taps = step.taps,
                                .cin = step.inputs[0].channels,
                                .groups = step.groups,
                                .compute = options.dtype},
                               state.weights);
  gemm_core::gather_conv({.input = from,
                          .neighbours = step.map < 0 ? nullptr : map_of(step)->table.data(),
                          .rows = to.shape[0],
                          .weights = &state.weights,
                          .epilogue = epilogue(index),
                          .output = to});
}

void Tape::Impl::normalise(std::size_t index, const base::ConstTensorView& from,
                           const base::TensorView& to) {
  StepState& state = steps[index];
  const auto channels = static_cast<std::size_t>(from.shape[1]);
  state.rows = from.shape[0];
  if (options.freezes_statistics) {
    const float* running = parameters.statistics.data();
    state.mean.assign(running + state.running_mean, running + state.running_mean + channels);
    state.variance.assign(running + state.running_variance,
                          running + state.running_variance + channels);
  } else {
    cpu::moments(from, state.mean, state.variance);
  }
  state.centre.resize(channels);
  state.scale.resize(channels);
  state.shift.resize(channels);
  const float *weight = parameters.values.data() + state.weight,
              *bias = parameters.values.data() + state.bias;
  for (std::size_t c = 0; c < channels; ++c) {
    const double scale = weight[c] / std::sqrt(state.variance[c] + state.eps);
    state.scale[c] = static_cast<float>(scale);
    state.centre[c] = -static_cast<float>(state.mean[c]);
    state.shift[c] = static_cast<float>(bias[c] - scale * (state.mean[c] + state.centre[c]));
  }
  gemm_core::elementwise(from, epilogue(index), to);
}

void Tape::Impl::update_statistics() {
  const double share = options.batch_norm_momentum;
  // Nothing moves where one of them would leave the range of float.
  for (const bool is_trial : {true, false}) {
    for (const StepState& state : steps) {
      if (state.running_mean < 0 || state.rows == 0 || options.freezes_statistics) continue;
      const auto n = static_cast<double>(state.rows);
      const auto move = [&](std::int64_t offset, std::size_t c, double next) {
        float& value = parameters.statistics[static_cast<std::size_t>(offset) + c];
        const auto moved = static_cast<float>((1 - share) * value + share * next);
        ENSURE(std::isfinite(moved), "running statistics: ", next, " in channel ", c,
               " of a batch of ", state.rows, " rows is beyond float at node '",
               parameters.running_at(offset).node_name, "'");
        if (!is_trial) value = moved;
      };
      for (std::size_t c = 0; c < state.mean.size(); ++c) {
        move(state.running_mean, c, state.mean[c]);
        if (state.rows > 1) move(state.running_variance, c, state.variance[c] * n / (n - 1));
      }
    }
  }
}

// --- the interface
// --------------------------------------------------------------------------------

Tape::Tape(const Model& model, const TapeOptions& options)
    : impl_(std::make_unique<Impl>(model, options)) {}
Tape::~Tape() = default;
Tape::Tape(Tape&&) noexcept = default;

const Plan& Tape::plan() const { return impl_->planned.plan; }
Parameters& Tape::parameters() { return impl_->parameters; }
const Parameters& Tape::parameters() const { return impl_->parameters; }
void Tape::forward(const FrameInput& input) { impl_->forward(input, false); }
void Tape::backward() { impl_->backward(); }
void Tape::update_statistics() { impl_->update_statistics(); }
double Tape::maps_ms() const { return impl_->maps_ms; }
std::int64_t Tape::arena_bytes() const { return impl_->placement.bytes; }

base::ConstTensorView Tape::output(std::size_t index) const {
  return impl_->constant(impl_->view(plan().outputs.at(index).value));
}
const base::Tensor& Tape::dense_output(std::size_t index) const { return impl_->dense.at(index); }
CoordinatesPtr Tape::output_coordinates(std::size_t index) const {
  return impl_->frame.levels[static_cast<std::size_t>(plan().outputs.at(index).level)];
}
base::TensorView Tape::output_gradient(std::size_t index) {
  return impl_->view(impl_->planned.output_gradients.at(index));
}
base::Tensor& Tape::dense_output_gradient(std::size_t index) {
  return impl_->dense_gradients.at(index);
}
base::ConstTensorView Tape::input_gradient() const {
  ENSURE(impl_->options.input_gradient, "tape: made without input_gradient");
  return impl_->constant(impl_->view(impl_->planned.input_gradient));
}

std::string Tape::first_node_not_finite(const FrameInput& input) {
  return impl_->forward(input, true);
}

std::string Tape::first_gradient_not_finite() const {
  const auto& entries = parameters().trained();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const float* g = parameters().gradients.data() + entry->offset;
    for (std::int64_t i = 0; i < entry->size; ++i) {
      if (!std::isfinite(g[i])) return entry->node_name;
    }
  }
  return {};
}

}  // namespace sparseconv::training

#include <algorithm>

#include "gemm_core/device/elementwise.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "gemm_core/device/gather_conv_gradient.hpp"
#include "sparseconv/cpu/tape_impl.hpp"

namespace sparseconv::training {
namespace {

using Kind = PlanStep::Kind;

cpu::Write mode_of(const GradientWrite& write) {
  return write.mode == GradientWrite::Mode::add ? cpu::Write::add : cpu::Write::store;
}

// Its own inverse when taps are taken in opposite order.
bool is_symmetric(const KernelMap& map) {
  return map.kind == KernelMap::Kind::convolution && map.input == map.output &&
         map.geometry == ConvGeometry::submanifold(map.geometry.kernel, map.geometry.dilation);
}

}  // namespace

void Tape::Impl::backward() {
  ENSURE(is_forward_done, "tape: backward() goes once after forward()");
  is_forward_done = false;
  for (std::size_t s = planned.plan.steps.size(); s-- > 0;) {
    if (!planned.backward[s].runs) {
      clear_parameters(planned.plan.steps[s].parameters);
      continue;
    }
    try {
      for (const int buffer : planned.backward[s].recomputed) recompute(buffer);
      step_back(s);
    } catch (const base::Error& error) {
      base::fail("gradient of node '", planned.plan.steps[s].node, "': ", error.what());
    }
  }
  for (const PlanSlice& part : planned.input_cleared) cpu::zero_rows(view(part));
}

// Of a node that no output with a gradient needs.
void Tape::Impl::clear_parameters(int node) {
  for (const Parameters::Entry& entry : parameters.trained()) {
    if (entry.node == node)
      std::fill_n(parameters.gradients.data() + entry.offset, entry.size, 0.0f);
  }
}

// The steps that write it are elementwise, and what they are made of is still there.
void Tape::Impl::recompute(int buffer) {
  for (std::size_t s = 0; s < planned.plan.steps.size(); ++s) {
    const PlanStep& step = planned.plan.steps[s];
    if (step.output.buffer != buffer) continue;
    gemm_core::elementwise(constant(view(step.inputs[0])), epilogue(s), kept(step.output));
  }
}

bool Tape::Impl::prepare(const GradientWrite& write) {
  if (write.mode == GradientWrite::Mode::none) return false;
  for (const PlanSlice& part : write.cleared) cpu::zero_rows(view(part));
  return true;
}

void Tape::Impl::step_back(std::size_t index) {
  const PlanStep& step = planned.plan.steps[index];
  const BackwardStep& back = planned.backward[index];
  if (step.kind == Kind::to_dense) {
    if (!prepare(back.inputs[0])) return;
    cpu::to_dense_gradient(*frame.levels[static_cast<std::size_t>(step.input_level)],
                           dense_gradients[static_cast<std::size_t>(step.dense_output)],
                           view(back.inputs[0].to), mode_of(back.inputs[0]));
    return;
  }
  const base::TensorView gradient = view(back.gradient);
  if (!step.epilogue.empty() &&
      step.epilogue.back().kind == gemm_core::EpilogueNode::Kind::activate) {
    const PlanEpilogueNode& node = step.epilogue.back();
    const bool is_told_by_input =
        node.activation == gemm_core::Activation::leaky_relu && node.slope < 0;
    cpu::activation_gradient(node.activation, node.slope,
                             constant(kept(is_told_by_input ? step.inputs[0] : step.output)),
                             gradient);
  }
  for (const GradientWrite& write : back.aux) {
    if (prepare(write)) cpu::copy_rows(constant(gradient), view(write.to), mode_of(write));
  }
  switch (step.kind) {
    case Kind::convolution:
      convolve_back(index, gradient);
      break;
    case Kind::batch_norm:
      normalise_back(index, gradient);
      break;
    case Kind::merge:
      merge_back(index, constant(gradient));
      break;
    default:
      if (prepare(back.inputs[0])) move_back(index, constant(gradient));
  }
}

// Steps without parameters and with one input.
void Tape::Impl::move_back(std::size_t index, const base::ConstTensorView& gradient) {
  const PlanStep& step = planned.plan.steps[index];
  const GradientWrite& write = planned.backward[index].inputs[0];
  const base::TensorView to = view(write.to);
  switch (step.kind) {
    case Kind::elementwise:
      cpu::copy_rows(gradient, to, mode_of(write));
      break;
    case Kind::max_pool:
    case Kind::avg_pool:
    case Kind::sum_pool:
      cpu::pool_gradient({.kind = step.kind,
                          .map = map_of(step).get(),
                          .inverse = &inverse_of(step.map),
                          .implicit_zero = step.implicit_zero,
                          .input = constant(kept(step.inputs[0]))},
                         gradient, to, mode_of(write));
      break;
    case Kind::global_max:
    case Kind::global_avg:
      cpu::global_pool_gradient(step.kind,
                                *frame.levels[static_cast<std::size_t>(step.input_level)],
                                constant(kept(step.inputs[0])), gradient, to, mode_of(write));
      break;
    case Kind::devoxelize:
      cpu::devoxelize_gradient(devoxelize_arguments(step), gradient, to, mode_of(write));
      break;
    default:
      break;
  }
}

void Tape::Impl::merge_back(std::size_t index, const base::ConstTensorView& gradient) {
  const PlanStep& step = planned.plan.steps[index];
  std::vector<base::TensorView> to;
  std::vector<cpu::Write> modes;
  for (const GradientWrite& write : planned.backward[index].inputs) {
    to.push_back(prepare(write) ? view(write.to) : base::TensorView{});
    modes.push_back(mode_of(write));
  }
  const cpu::MergeMap& map = frame.merges[static_cast<std::size_t>(step.output_level)];
  cpu::merge_gradient(map, gradient, to, modes);
}

void Tape::Impl::normalise_back(std::size_t index, const base::TensorView& gradient) {
  const PlanStep& step = planned.plan.steps[index];
  const StepState& state = steps[index];
  const GradientWrite& write = planned.backward[index].inputs[0];
  const bool has_input = prepare(write);
  const base::TensorView to = has_input ? view(write.to) : base::TensorView{};
  cpu::batch_norm_gradient({.input = constant(kept(step.inputs[0])),
                            .weight = parameters.values.data() + state.weight,
                            .mean = state.mean,
                            .variance = state.variance,
                            .eps = state.eps,
                            .is_frozen = options.freezes_statistics,
                            .weight_gradient = parameters.gradients.data() + state.weight,
                            .bias_gradient = parameters.gradients.data() + state.bias},
                           constant(gradient), has_input ? &to : nullptr, mode_of(write));
}

void Tape::Impl::convolve_back(std::size_t index, const base::TensorView& gradient) {
  const PlanStep& step = planned.plan.steps[index];
  const StepState& state = steps[index];
  if (state.bias >= 0) cpu::sum_rows(constant(gradient), parameters.gradients.data() + state.bias);
  gemm_core::gather_conv_weight_gradient(
      {.input = constant(kept(step.inputs[0])),
       .gradient = constant(gradient),
       .neighbours = step.map < 0 ? nullptr : map_of(step)->table.data(),
       .rows = gradient.shape[0],
       .taps = step.taps,
       .groups = step.groups,
       .weight_gradient = parameters.gradients.data() + state.weight,
       .workspace = &workspace});
  if (prepare(planned.backward[index].inputs[0])) input_gradient_of(index, constant(gradient));
}

// The same kernel over the inverse map, with weights whose channels have changed places.
void Tape::Impl::input_gradient_of(std::size_t index, const base::ConstTensorView& gradient) {
  const PlanStep& step = planned.plan.steps[index];
  const GradientWrite& write = planned.backward[index].inputs[0];
  StepState& state = steps[index];
  const base::TensorView to = view(write.to);
  if (to.shape[0] == 0) return;
  const bool has_map = step.map >= 0;
  const bool is_mirrored = has_map && is_symmetric(*map_of(step));
  gemm_core::pack_conv_weights({.weight = parameters.values.data() + state.weight,
                                .cout = step.inputs[0].channels,
                                .taps = step.taps,
                                .cin = step.output.channels,
                                .groups = step.groups,
                                .is_transposed = true,
                                .has_reversed_taps = is_mirrored},
                               state.transposed);
  gemm_core::Epilogue epilogue;
  if (write.mode == GradientWrite::Mode::add) epilogue.add(constant(to));
  const KernelMap* map = !has_map      ? nullptr
                         : is_mirrored ? map_of(step).get()
                                       : &inverse_of(step.map);
  gemm_core::gather_conv({.input = gradient,
                          .neighbours = map ? map->table.data() : nullptr,
                          .rows = to.shape[0],
                          .weights = &state.transposed,
                          .epilogue = epilogue,
                          .output = to});
}

// Derived, never searched: a plan's own map where it has it.
const KernelMap& Tape::Impl::inverse_of(int map) {
  const auto& maps = planned.plan.maps;
  const auto at = static_cast<std::size_t>(map);
  if (maps[at].forward >= 0) return *frame.maps[static_cast<std::size_t>(maps[at].forward)];
  KernelMapPtr& made = inverse[at];
  for (std::size_t other = 0; !made && other < maps.size(); ++other) {
    if (maps[other].forward == map) made = frame.maps[other];
  }
  if (!made) made = invert(frame.maps[at]);
  return *made;
}

}  // namespace sparseconv::training

#include "sparseconv/cuda/narrow_plan.hpp"

#include <algorithm>

#include "gemm_core/atom/activation.hpp"
#include "gemm_core/collective/gather_table.hpp"
#include "gemm_core/device/cuda/gather/gather_conv.hpp"

namespace sparseconv::cuda {
namespace {

using Kind = PlanStep::Kind;
using NodeKind = gemm_core::EpilogueNode::Kind;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

bool has_whole_chunks(const PlanSlice& slice) {
  return slice.channel % 16 == 0 && slice.channels % 16 == 0;
}

// f(s * x) = s * f(x) for s > 0.
bool is_homogeneous(const PlanEpilogueNode& node) {
  using gemm_core::Activation;
  return node.kind != NodeKind::activate || node.activation == Activation::identity ||
         node.activation == Activation::relu || node.activation == Activation::leaky_relu;
}

bool is_homogeneous(const PlanStep& step) {
  return std::all_of(step.epilogue.begin(), step.epilogue.end(),
                     [](const PlanEpilogueNode& node) { return is_homogeneous(node); });
}

bool may_write_narrow(const PlanStep& step) {
  return step.kind == Kind::convolution && is_homogeneous(step) && has_whole_chunks(step.output);
}

bool may_read_narrow(const PlanStep& step) {
  return step.kind == Kind::convolution && step.groups == 1 &&
         step.taps <= gemm_core::kMaxMaskedTaps && is_homogeneous(step) &&
         std::all_of(step.inputs.begin(), step.inputs.end(), has_whole_chunks) &&
         step.output.channel % 16 == 0;
}

std::span<const float> scales_of(const PlanSlice& slice, const NarrowScales& scales) {
  return std::span(scales[at(slice.buffer)])
      .subspan(static_cast<std::size_t>(slice.channel), static_cast<std::size_t>(slice.channels));
}

float largest_scale(const PlanSlice& slice, const NarrowScales& scales) {
  const auto of_channel = scales_of(slice, scales);
  return *std::max_element(of_channel.begin(), of_channel.end());
}

// Weights whose rows end in the channels of `input`, each times its scale over `unit`.
base::Tensor scaled_columns(const base::Tensor& weight, const PlanSlice& input,
                            const NarrowScales& scales, float unit) {
  const auto of_channel = scales_of(input, scales);
  if (std::all_of(of_channel.begin(), of_channel.end(), [&](float s) { return s == unit; }))
    return weight;
  auto scaled = base::Tensor::empty(weight.shape(), base::DType::f32);
  for (std::int64_t i = 0; i < weight.numel(); ++i)
    scaled.data<float>()[i] =
        weight.data<float>()[i] * (of_channel[static_cast<std::size_t>(i % input.channels)] / unit);
  return scaled;
}

}  // namespace

void choose_narrow_buffers(DeviceSteps& plan) {
  bool has_changed = false;
  const auto is_narrow = [&](const PlanSlice& slice) { return plan.is_narrow[at(slice.buffer)]; };
  const auto widen = [&](const PlanSlice& slice) {
    if (slice.buffer < 0 || !is_narrow(slice)) return;
    plan.is_narrow[at(slice.buffer)] = false;
    has_changed = true;
  };
  plan.is_narrow.assign(plan.buffers.size(), true);
  widen(plan.input);
  for (const PlanOutput& output : plan.outputs) {
    if (!output.is_dense) widen(output.value);
  }
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    if (plan.extras[s].is_absorbed) continue;
    if (!may_write_narrow(step)) widen(step.output);
    for (const PlanSlice& input : step.inputs) {
      if (!may_read_narrow(step)) widen(input);
    }
    for (const PlanEpilogueNode& node : step.epilogue) {
      if (step.kind != Kind::convolution || !has_whole_chunks(node.aux)) widen(node.aux);
    }
  }
  // Both matrices of a step have one type, and two of halves write and add halves.
  do {
    has_changed = false;
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      const PlanStep& step = plan.steps[s];
      if (plan.extras[s].is_absorbed ||
          std::all_of(step.inputs.begin(), step.inputs.end(), is_narrow))
        continue;
      for (const PlanSlice& input : step.inputs) widen(input);
      if (!plan.extras[s].own_weight.defined()) continue;
      widen(step.output);
      for (const PlanEpilogueNode& node : step.epilogue) widen(node.aux);
    }
  } while (has_changed);
}

NarrowScales narrow_scales(const DeviceSteps& plan, std::span<const float> largest,
                           base::DType narrow) {
  struct Part {
    std::int64_t begin, end;
    float most;
  };
  std::vector<std::vector<Part>> parts(plan.buffers.size());
  const auto add = [&](const PlanSlice& slice, float most) {
    if (slice.buffer >= 0)
      parts[at(slice.buffer)].push_back({slice.channel, slice.channel + slice.channels, most});
  };
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.extras[s].is_absorbed) continue;
    add(plan.steps[s].output, largest[s]);
    for (const PlanEpilogueNode& node : plan.steps[s].epilogue) add(node.aux, 0);
  }
  NarrowScales scales;
  const float room = narrow == base::DType::i8 ? 1.f : 2.f;
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    auto& of_channel = scales.emplace_back(static_cast<std::size_t>(plan.buffers[b].channels), 1.f);
    if (!plan.is_narrow[b]) continue;
    std::sort(parts[b].begin(), parts[b].end(),
              [](const Part& x, const Part& y) { return x.begin < y.begin; });
    for (std::size_t i = 0; i < parts[b].size();) {
      Part joined = parts[b][i];
      for (++i; i < parts[b].size() && parts[b][i].begin < joined.end; ++i) {
        joined.end = std::max(joined.end, parts[b][i].end);
        joined.most = std::max(joined.most, parts[b][i].most);
      }
      std::fill(of_channel.begin() + joined.begin, of_channel.begin() + joined.end,
                gemm_core::cuda::narrow_scale(narrow, room * joined.most));
    }
  }
  return scales;
}

void scale_weights(DeviceSteps& plan, std::size_t index, const NarrowScales& scales) {
  PlanStep& step = plan.steps[index];
  if (step.kind != Kind::convolution || plan.extras[index].is_absorbed) return;
  const float unit = largest_scale(step.inputs[0], scales);
  step.weight = scaled_columns(step.weight, step.inputs[0], scales, unit);
  base::Tensor& own = plan.extras[index].own_weight;
  if (own.defined()) own = scaled_columns(own, step.inputs[1], scales, unit);
}

void fold_scales(DeviceSteps& plan, std::size_t index, const NarrowScales& scales,
                 std::span<const float> weights) {
  PlanStep& step = plan.steps[index];
  if (step.kind != Kind::convolution || plan.extras[index].is_absorbed) return;
  // Of what a step writes or adds as one.
  const auto scale_of = [&](const PlanSlice& slice) {
    return scales[at(slice.buffer)][static_cast<std::size_t>(slice.channel)];
  };
  // Sums times `scale` are values; values times `shrink` are what is stored.
  const float scale = largest_scale(step.inputs[0], scales), shrink = 1 / scale_of(step.output);
  const auto is_one = [](float v) { return v == 1; };
  const bool is_plain = scale * shrink == 1 && std::all_of(weights.begin(), weights.end(), is_one);
  const bool starts_with_scale =
      !step.epilogue.empty() && step.epilogue[0].kind == NodeKind::scale_shift;
  if (!is_plain && !starts_with_scale) {
    PlanEpilogueNode node;
    node.kind = NodeKind::scale_shift;
    step.epilogue.insert(step.epilogue.begin(), node);
  }
  for (std::size_t i = 0; i < step.epilogue.size(); ++i) {
    PlanEpilogueNode& node = step.epilogue[i];
    if (node.kind == NodeKind::add)
      plan.extras[index].factors.push_back(scale_of(node.aux) * shrink);
    if (node.kind != NodeKind::scale_shift) continue;
    for (float& shift : node.shift) shift *= shrink;
    if (i > 0 || is_plain) continue;
    node.scale.resize(static_cast<std::size_t>(step.output.channels), 1.f);
    for (std::size_t c = 0; c < node.scale.size(); ++c) {
      const float of_weights = c < weights.size() ? weights[c] : 1.f;
      node.scale[c] *= of_weights * (scale * shrink);
    }
  }
}

}  // namespace sparseconv::cuda

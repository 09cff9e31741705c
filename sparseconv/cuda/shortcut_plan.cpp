#include "sparseconv/cuda/shortcut_plan.hpp"

#include <algorithm>
#include <cmath>

#include "gemm_core/atom/activation.hpp"
#include "gemm_core/collective/gather_table.hpp"
#include "gemm_core/device/cuda/gather/gather_conv.hpp"

namespace sparseconv::cuda {
namespace {

using Kind = PlanStep::Kind;
using NodeKind = gemm_core::EpilogueNode::Kind;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Kernels of fewer output channels take no second matrix.
constexpr std::int64_t kFewChannels = 32;

bool has_whole_chunks(const PlanSlice& slice) {
  return slice.channel % 8 == 0 && slice.channels % 8 == 0;
}

// v * scale + shift of each channel.
struct Affine {
  std::vector<float> scale, shift;
};

// Of the nodes before `end`, which are scale_shift all.
Affine affine_of(const PlanStep& step, std::size_t end) {
  const std::size_t channels = at(step.output.channels);
  Affine a{std::vector<float>(channels, 1.f), std::vector<float>(channels, 0.f)};
  for (std::size_t i = 0; i < end; ++i) {
    const PlanEpilogueNode& node = step.epilogue[i];
    for (std::size_t c = 0; c < channels; ++c) {
      const float scale = node.scale.empty() ? 1.f : node.scale[c];
      a.scale[c] *= scale;
      a.shift[c] = a.shift[c] * scale + (node.shift.empty() ? 0.f : node.shift[c]);
    }
  }
  return a;
}

std::size_t leading_affine_nodes(const PlanStep& step) {
  std::size_t count = 0;
  while (count < step.epilogue.size() && step.epilogue[count].kind == NodeKind::scale_shift)
    ++count;
  return count;
}

// Rows of `weight`, one an output channel, times `factor` each.
base::Tensor scaled_rows(const base::Tensor& weight, const std::vector<float>& factor) {
  auto scaled = base::Tensor::empty(weight.shape(), base::DType::f32);
  const std::int64_t width = weight.numel() / weight.size(0);
  for (std::int64_t i = 0; i < weight.numel(); ++i)
    scaled.data<float>()[i] = weight.data<float>()[i] * factor[at(i / width)];
  return scaled;
}

float largest_of_row(const base::Tensor& weight, std::size_t row) {
  const std::int64_t width = weight.numel() / weight.size(0);
  const float* values = weight.data<float>() + static_cast<std::int64_t>(row) * width;
  float largest = 0;
  for (std::int64_t i = 0; i < width; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

// Steps that write a buffer, and reads of it (outputs count).
struct Uses {
  std::vector<int> writer;  // -1: none, -2: several
  std::vector<int> reads;
  explicit Uses(const Plan& plan) : writer(plan.buffers.size(), -1), reads(plan.buffers.size(), 0) {
    const auto read = [&](const PlanSlice& slice) {
      if (slice.buffer >= 0) ++reads[at(slice.buffer)];
    };
    for (std::size_t s = 0; s < plan.steps.size(); ++s) {
      const PlanStep& step = plan.steps[s];
      for (const PlanSlice& input : step.inputs) read(input);
      for (const PlanEpilogueNode& node : step.epilogue) read(node.aux);
      if (step.output.buffer < 0) continue;
      int& of_buffer = writer[at(step.output.buffer)];
      of_buffer = of_buffer == -1 ? static_cast<int>(s) : -2;
    }
    for (const PlanOutput& output : plan.outputs) read(output.value);
  }
};

class Merger {
 public:
  explicit Merger(DeviceSteps& plan) : plan_(plan), uses_(plan) {}

  void run() {
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      const int main = main_of(s);
      if (main >= 0) merge(at(main), s);
    }
  }

 private:
  bool is_plain(std::size_t index) const {
    const PlanStep& step = plan_.steps[index];
    const StepExtras& extras = plan_.extras[index];
    return step.kind == Kind::convolution && step.groups == 1 && !extras.is_absorbed &&
           !extras.own_weight.defined() && step.inputs[0].buffer != plan_.input.buffer &&
           has_whole_chunks(step.inputs[0]) && has_whole_chunks(step.output);
  }

  // The step whose output the pointwise step `index` adds, if the two can merge; else -1.
  int main_of(std::size_t index) const {
    using gemm_core::Activation;
    const PlanStep& step = plan_.steps[index];
    if (!is_plain(index) || step.map >= 0 || step.output.channels <= kFewChannels) return -1;
    const std::size_t first = leading_affine_nodes(step);
    if (first == step.epilogue.size() || step.epilogue[first].kind != NodeKind::add) return -1;
    for (const PlanEpilogueNode& node : step.epilogue) {
      const bool is_linear =
          node.kind != NodeKind::activate || node.activation == Activation::identity ||
          node.activation == Activation::relu || node.activation == Activation::leaky_relu;
      if (!is_linear || (node.kind == NodeKind::add && !has_whole_chunks(node.aux))) return -1;
    }
    const PlanSlice& sum = step.epilogue[first].aux;
    const int writer = uses_.writer[at(sum.buffer)];
    if (writer < 0 || uses_.reads[at(sum.buffer)] != 1) return -1;
    const PlanStep& main = plan_.steps[at(writer)];
    const bool fits = is_plain(at(writer)) && main.map >= 0 &&
                      main.taps < gemm_core::kMaxMaskedTaps && main.output.channel == sum.channel &&
                      main.output.channels == sum.channels && is_submanifold(main.map) &&
                      leading_affine_nodes(main) == main.epilogue.size();
    return fits ? writer : -1;
  }

  // Every row then is its own neighbour.
  bool is_submanifold(int map) const {
    const PlanMap& m = plan_.maps[at(map)];
    if (m.kind != KernelMap::Kind::convolution || m.input != m.output) return false;
    for (std::size_t a = 0; a < 3; ++a) {
      const ConvGeometry& g = m.geometry;
      if (g.stride[a] != 1 || g.kernel[a] % 2 == 0 ||
          g.padding[a] != g.kernel[a] / 2 * g.dilation[a])
        return false;
    }
    return true;
  }

  void merge(std::size_t main_index, std::size_t index) {
    const PlanStep& main = plan_.steps[main_index];
    PlanStep& step = plan_.steps[index];
    const std::size_t first = leading_affine_nodes(step);
    Affine a = affine_of(main, main.epilogue.size()), b = affine_of(step, first);
    PlanEpilogueNode node;
    node.kind = NodeKind::scale_shift;
    for (std::size_t c = 0; c < a.scale.size(); ++c) {
      const float largest = std::max(largest_of_row(main.weight, c) * std::abs(a.scale[c]),
                                     largest_of_row(step.weight, c) * std::abs(b.scale[c]));
      const float unit = gemm_core::cuda::e4m3_scale(448 * largest);
      node.scale.push_back(unit);
      node.shift.push_back(a.shift[c] + b.shift[c]);
      a.scale[c] /= unit;
      b.scale[c] /= unit;
    }
    const auto after_sum = step.epilogue.begin() + static_cast<std::ptrdiff_t>(first) + 1;
    plan_.buffers[at(step.epilogue[first].aux.buffer)].channels = 0;
    step.epilogue.erase(step.epilogue.begin(), after_sum);
    step.epilogue.insert(step.epilogue.begin(), std::move(node));
    plan_.extras[index].own_weight = scaled_rows(step.weight, b.scale);
    step.weight = scaled_rows(main.weight, a.scale);
    step.inputs = {main.inputs[0], step.inputs[0]};
    step.map = main.map;
    step.taps = main.taps;
    plan_.extras[main_index].is_absorbed = true;
    PlanBuffer& kept = plan_.buffers[at(step.inputs[0].buffer)];
    kept.last_step = std::max(kept.last_step, static_cast<int>(index));
  }

  DeviceSteps& plan_;
  const Uses uses_;
};

}  // namespace

void merge_shortcuts(DeviceSteps& plan) { Merger(plan).run(); }

}  // namespace sparseconv::cuda

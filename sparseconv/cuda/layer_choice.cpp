// What FrameRunner decides by the plan alone: which kernel runs each layer, and which sets and maps
// those kernels need.
#include <algorithm>

#include "gemm_core/atom/activation.hpp"
#include "sparseconv/cuda/frame_runner.hpp"
#include "sparseconv/cuda/room.hpp"

namespace sparseconv::cuda {
namespace {

using gemm_core::cuda::LayerChoice;
using Kind = PlanStep::Kind;

bool is_pool(Kind kind) {
  return kind == Kind::max_pool || kind == Kind::avg_pool || kind == Kind::sum_pool;
}

}  // namespace

bool FrameRunner::suits_tiles(const PlanStep& step) const {
  const auto is_aligned = [&](const PlanSlice& slice) {
    const std::int64_t bytes = base::bytes(device_plan_.type_of(slice));
    return slice.channel * bytes % 16 == 0 &&
           plan_.buffers[at(slice.buffer)].channels * bytes % 16 == 0;
  };
  if (step.groups != 1 || step.taps > gemm_core::kMaxMaskedTaps) return false;
  if (!base::cuda::device_info(device_plan_.device).has_wgmma()) return false;
  if (!device_plan_.reads_padded_input(step) && !is_aligned(step.inputs[0])) return false;
  if (step.inputs.size() > 1 && !is_aligned(step.inputs[1])) return false;
  if (!is_aligned(step.output)) return false;
  return std::all_of(step.epilogue.begin(), step.epilogue.end(), [&](const PlanEpilogueNode& node) {
    using gemm_core::Activation;
    if (node.kind == gemm_core::EpilogueNode::Kind::add) return is_aligned(node.aux);
    return node.kind != gemm_core::EpilogueNode::Kind::activate ||
           node.activation == Activation::identity || node.activation == Activation::relu ||
           node.activation == Activation::leaky_relu;
  });
}

// Orders and kernels follow the plan and the size of the batch alone: a frame's bits depend on
// nothing that ran before it.
// One order a map: that of the layer with the most work. Instances follow the shapes of each layer.
std::vector<LayerChoice> FrameRunner::choose_layers() const {
  std::vector<LayerChoice> choices(plan_.steps.size());
  std::vector<std::int64_t> most_work(plan_.maps.size(), 0);
  std::vector<bool> planes(plan_.maps.size(), false);
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    const StepExtras& extras = device_plan_.plan.extras[s];
    if (extras.is_absorbed) continue;
    const bool suits = step.kind == Kind::convolution && suits_tiles(step);
    ENSURE(suits || !(multiplies_narrow(device_plan_.plan, step) || extras.own_weight.defined()),
           "node '", step.node, "': the plan needs matrix cores that no kernel offers here");
    if (!suits) continue;
    const std::int64_t cin = device_plan_.weights[s].cin, cout = device_plan_.weights[s].cout;
    choices[s] = gemm_core::cuda::choose_instance(
        {.compute = device_plan_.compute_of(step),
         .cin = cin,
         .cout = cout,
         .rows = nominal_rows(plan_, step.output_level, kNominalRows * shape_.batch_size),
         .taps = step.taps});
    if (step.map < 0 || choices[s].instance == nullptr) continue;
    const bool has_planes = plan_.maps[at(step.map)].geometry.kernel == std::array{3, 3, 3};
    if (cin * cout > most_work[at(step.map)]) {
      most_work[at(step.map)] = cin * cout;
      planes[at(step.map)] = choices[s].planes && has_planes;
    }
  }
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    choices[s].planes = plan_.steps[s].map >= 0 && planes[at(plan_.steps[s].map)];
  }
  return choices;
}

FrameSpec FrameRunner::make_spec(const std::vector<LayerChoice>& choices) {
  FrameSpec spec;
  spec.sets = set_specs(plan_, device_plan_.set_of_level, device_plan_.levels_of_sets);
  for (const PlanMap& map : plan_.maps) {
    spec.maps.push_back({.kind = map.kind,
                         .geometry = map.geometry,
                         .input = device_plan_.set_of_level[at(map.input)],
                         .output = device_plan_.set_of_level[at(map.output)],
                         .forward = map.forward,
                         .order = RowOrder::none,
                         .needs_canonical = false});
  }
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.map < 0 || choices[s].instance == nullptr) continue;
    spec.maps[at(step.map)].order = choices[s].planes ? RowOrder::planes : RowOrder::single;
  }
  for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
    const PlanStep& step = plan_.steps[s];
    if (step.map < 0 || choices[s].instance != nullptr || device_plan_.plan.extras[s].is_absorbed)
      continue;
    MapSpec& map = spec.maps[at(step.map)];
    // The SIMT kernel skips absent taps by tiles too, so it likes one order, where the taps fit.
    const bool takes_order = step.kind == Kind::convolution && map.order != RowOrder::planes &&
                             step.taps <= gemm_core::kMaxMaskedTaps;
    if (takes_order)
      map.order = RowOrder::single;
    else if (step.kind == Kind::convolution || is_pool(step.kind))
      map.needs_canonical = true;
  }
  return spec;
}

}  // namespace sparseconv::cuda

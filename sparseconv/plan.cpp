#include "sparseconv/plan.hpp"

#include <algorithm>
#include <map>

#include "sparseconv/fusion.hpp"

namespace sparseconv {
namespace {

using detail::StepDraft;

// Gives the values of fused steps their places in buffers.
class Planner : detail::GraphAccess {
 public:
  Planner(const Model& model, PlanPurpose purpose)
      : GraphAccess(model, detail::fuse(model, purpose)) {}

  Plan run() {
    plan_.levels = graph_.info.levels;
    plan_.maps = graph_.maps;
    plan_.needs_points = graph_.needs_points;
    plan_.needs_positions = graph_.needs_positions;
    for (const auto& check : graph_.info.checks) {
      if (is_live(detail::index_by_name(model_).at(check.node))) plan_.checks.push_back(check);
    }
    place_concatenations();
    emit_steps();
    emit_outputs();
    find_lifetimes();
    find_used_levels();
    return std::move(plan_);
  }

 private:
  struct Place {
    int parent = kNoValue;  // the concatenation that this value is a part of
    std::int64_t channel = 0;
  };
  static constexpr int kNoValue = -2;

  std::int64_t channels_of(int value) const {
    return value == kModelInput ? model_.in_channels()
                                : graph_.info.channels[static_cast<std::size_t>(value)];
  }

  // Outer concatenations come later in the order and go first, so that an inner one is a part of an
  // outer one.
  void place_concatenations() {
    for (int node = count() - 1; node >= 0; --node) {
      if (!is_live(node) || node_at(node).op != Op::concat) continue;
      std::int64_t channel = 0;
      for (const int part : inputs_of(node)) {
        if (places_.count(part) == 0) {
          places_[part] = {node, channel};
        } else {
          copies_.push_back({node, part, channel});
        }
        channel += channels_of(part);
      }
    }
  }

  PlanSlice slice_of(int value) {
    PlanSlice slice{-1, 0, channels_of(value)};
    int root = value;
    for (auto place = places_.find(root); place != places_.end(); place = places_.find(root)) {
      slice.channel += place->second.channel;
      root = place->second.parent;
    }
    const auto [entry, is_new] = buffers_.emplace(root, static_cast<int>(plan_.buffers.size()));
    if (is_new) plan_.buffers.push_back({level_of(root), channels_of(root), -1, -1});
    slice.buffer = entry->second;
    return slice;
  }

  void emit_steps() {
    for (const auto& copy : copies_) {
      StepDraft draft;
      draft.inputs = {copy.part};
      draft.step.node = node_at(copy.node).name;
      draft.step.input_level = draft.step.output_level = level_of(copy.part);
      draft.step.output = slice_of(copy.node);
      draft.step.output.channel += copy.channel;
      draft.step.output.channels = channels_of(copy.part);
      draft.position = copy.node;
      draft.result = kNoValue;
      graph_.drafts.push_back(std::move(draft));
    }
    std::stable_sort(
        graph_.drafts.begin(), graph_.drafts.end(),
        [](const StepDraft& a, const StepDraft& b) { return a.position < b.position; });
    plan_.input = slice_of(kModelInput);
    for (StepDraft& draft : graph_.drafts) {
      PlanStep& step = draft.step;
      for (const int input : draft.inputs) step.inputs.push_back(slice_of(input));
      if (draft.result != kNoValue && step.kind != PlanStep::Kind::to_dense) {
        step.output = slice_of(draft.result);
      }
      std::size_t next_aux = 0;
      for (auto& node : step.epilogue) {
        if (node.kind == gemm_core::EpilogueNode::Kind::add)
          node.aux = slice_of(draft.aux[next_aux++]);
      }
      plan_.steps.push_back(std::move(step));
    }
  }

  void emit_outputs() {
    const auto index = detail::index_by_name(model_);
    for (const auto& name : model_.outputs) {
      const int node = index.at(name);
      PlanOutput output{name, level_of(node), channels_of(node), false, {}};
      output.is_dense = node_at(node).op == Op::to_dense;
      if (output.is_dense) {
        output.level = level_of(inputs_of(node)[0]);
        for (auto& step : plan_.steps) {
          if (step.kind == PlanStep::Kind::to_dense && step.node == name) {
            step.dense_output = static_cast<int>(plan_.outputs.size());
          }
        }
      } else {
        output.value = slice_of(node);
      }
      plan_.outputs.push_back(std::move(output));
    }
  }

  void find_lifetimes() {
    const auto touch = [&](const PlanSlice& slice, int step) {
      if (slice.buffer < 0) return;
      PlanBuffer& buffer = plan_.buffers[static_cast<std::size_t>(slice.buffer)];
      if (buffer.first_step < 0) buffer.first_step = step;
      buffer.last_step = std::max(buffer.last_step, step);
    };
    touch(plan_.input, 0);
    for (std::size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      for (const auto& input : step.inputs) touch(input, static_cast<int>(s));
      for (const auto& node : step.epilogue) touch(node.aux, static_cast<int>(s));
      touch(step.output, static_cast<int>(s));
    }
    // Outputs are read after the last step.
    const int last = std::max(0, static_cast<int>(plan_.steps.size()) - 1);
    for (const auto& output : plan_.outputs) touch(output.value, last);
  }

  void find_used_levels() {
    plan_.is_level_used.assign(plan_.levels.size(), false);
    const auto use = [&](int level) {
      plan_.is_level_used[static_cast<std::size_t>(level)] = true;
    };
    use(0);
    for (const auto& buffer : plan_.buffers) use(buffer.level);
    for (const auto& map : plan_.maps) {
      use(map.input);
      use(map.output);
    }
    for (const auto& check : plan_.checks) {
      use(check.first);
      use(check.second);
    }
    for (const auto& output : plan_.outputs) use(output.level);
    for (std::size_t i = plan_.levels.size(); i-- > 1;) {
      if (!plan_.is_level_used[i]) continue;
      if (plan_.levels[i].source >= 0) use(plan_.levels[i].source);
      for (const auto& part : plan_.levels[i].parts) use(part.level);
    }
  }

  struct Copy {
    int node, part;
    std::int64_t channel;
  };

  Plan plan_;
  std::map<int, Place> places_;
  std::vector<Copy> copies_;
  std::map<int, int> buffers_;  // root value -> buffer
};

}  // namespace

Plan make_plan(const Model& model, PlanPurpose purpose) { return Planner(model, purpose).run(); }

LevelTransform transform_of(const Plan& plan, int level) {
  const Level& at = plan.levels[static_cast<std::size_t>(level)];
  if (at.kind == Level::Kind::input) return {};
  LevelTransform t;
  if (at.kind == Level::Kind::global) {
    t.scale = {0, 0, 0};
    return t;
  }
  t = transform_of(plan, at.source);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const ConvGeometry& g = at.geometry;
    // Centre of the window of cell c on the fine side: c * stride + middle.
    const double middle = 0.5 * g.dilation[axis] * (g.kernel[axis] - 1) - g.padding[axis];
    const double stride = g.stride[axis];
    if (at.kind == Level::Kind::strided) {
      t.scale[axis] /= stride;
      t.shift[axis] = (t.shift[axis] - middle) / stride;
    } else {
      t.scale[axis] *= stride;
      t.shift[axis] = t.shift[axis] * stride + middle;
    }
  }
  return t;
}

}  // namespace sparseconv

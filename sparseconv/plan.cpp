#include "sparseconv/plan.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace sparseconv {
namespace {

using gemm_core::Activation;
using Epilogue = gemm_core::EpilogueNode;

// Values are named by node index; the model's input is kModelInput.
class Planner {
 public:
  explicit Planner(const Model& model) : model_(model), info_(analyse_graph(model)) {}

  Plan run() {
    plan_.levels = info_.levels;
    find_live_nodes();
    for (const auto& check : info_.checks) {
      if (is_live_[static_cast<std::size_t>(detail::index_by_name(model_).at(check.node))]) {
        plan_.checks.push_back(check);
      }
    }
    for (int node = 0; node < count(); ++node) {
      if (is_live(node)) add_node(node);
    }
    place_concatenations();
    emit_steps();
    emit_outputs();
    find_lifetimes();
    find_used_levels();
    return std::move(plan_);
  }

 private:
  struct Draft {  // a step before slices are known; values instead
    PlanStep step;
    std::vector<int> inputs, aux;  // aux: of its add nodes, in order
    int result = 0;                // the value it produces: the last node fused
    int position = 0;
  };
  struct Place {
    int parent = kNoParent;  // the concatenation that this value is a part of
    std::int64_t channel = 0;
  };
  static constexpr int kNoParent = -2;

  int count() const { return static_cast<int>(model_.nodes.size()); }
  const Node& node_at(int node) const { return model_.nodes[static_cast<std::size_t>(node)]; }
  const std::vector<int>& inputs_of(int node) const {
    return info_.inputs[static_cast<std::size_t>(node)];
  }
  bool is_live(int node) const { return is_live_[static_cast<std::size_t>(node)]; }
  int level_of(int value) const {
    return value == kModelInput ? 0 : info_.level[static_cast<std::size_t>(value)];
  }
  std::int64_t channels_of(int value) const {
    return value == kModelInput ? model_.in_channels()
                                : info_.channels[static_cast<std::size_t>(value)];
  }

  void find_live_nodes() {
    is_live_.assign(model_.nodes.size(), false);
    const auto index = detail::index_by_name(model_);
    for (const auto& output : model_.outputs) {
      is_live_[static_cast<std::size_t>(index.at(output))] = true;
      ++uses_[index.at(output)];
    }
    for (int node = count() - 1; node >= 0; --node) {
      if (!is_live(node)) continue;
      for (const int input : inputs_of(node)) {
        ++uses_[input];
        if (input != kModelInput) is_live_[static_cast<std::size_t>(input)] = true;
      }
    }
  }

  // --- steps and fusion -----------------------------------------------------------------------

  void add_node(int node) {
    const Node& n = node_at(node);
    switch (n.op) {
      case Op::conv:
      case Op::conv_transpose:
      case Op::inverse_conv:
      case Op::linear: start_convolution(node); break;
      case Op::batch_norm:
      case Op::relu:
      case Op::leaky_relu:
      case Op::sigmoid: append(continued_or_new(node, inputs_of(node)[0]), node); break;
      case Op::add: add_sum(node); break;
      case Op::concat: break;  // its inputs are written in place
      case Op::max_pool: start_pool(node, PlanStep::Kind::max_pool); break;
      case Op::avg_pool: start_pool(node, PlanStep::Kind::avg_pool); break;
      case Op::sum_pool: start_pool(node, PlanStep::Kind::sum_pool); break;
      case Op::global_max_pool: start(node, PlanStep::Kind::global_max); break;
      case Op::global_avg_pool: start(node, PlanStep::Kind::global_avg); break;
      case Op::merge: start(node, PlanStep::Kind::merge); break;
      case Op::to_dense: start(node, PlanStep::Kind::to_dense); break;
      case Op::devoxelize: {
        PlanStep& step = start(node, PlanStep::Kind::devoxelize).step;
        step.trilinear = node_at(node).trilinear;
        plan_.needs_points = true;
        plan_.needs_positions |= step.trilinear || step.input_level != 0;
        break;
      }
    }
  }

  Draft& start(int node, PlanStep::Kind kind) {
    Draft draft;
    draft.step.kind = kind;
    draft.inputs = inputs_of(node);
    draft.step.input_level = level_of(draft.inputs[0]);
    draft.step.output_level = kind == PlanStep::Kind::to_dense ? draft.step.input_level : level_of(node);
    drafts_.push_back(std::move(draft));
    finish_at(drafts_.back(), node);
    return drafts_.back();
  }

  void finish_at(Draft& draft, int node) {
    draft.result = draft.position = node;
    draft.step.node = node_at(node).name;
    draft_of_[node] = static_cast<int>(&draft - drafts_.data());
  }

  void start_pool(int node, PlanStep::Kind kind) {
    const Node& n = node_at(node);
    PlanStep& step = start(node, kind).step;
    step.implicit_zero = n.implicit_zero;
    step.taps = n.geometry.taps();
    step.map = map_index({KernelMap::Kind::convolution, n.geometry, step.input_level,
                          step.output_level, -1});
  }

  void start_convolution(int node) {
    const Node& n = node_at(node);
    PlanStep& step = start(node, PlanStep::Kind::convolution).step;
    step.weight = n.weights.at("weight");
    step.groups = n.groups;
    if (n.op != Op::linear) {
      step.taps = n.geometry.taps();
      step.map = map_of(node, step);
    }
    if (!n.bias) return;
    const base::Tensor& bias = n.weights.at("bias");
    PlanEpilogueNode shift;
    shift.kind = Epilogue::Kind::scale_shift;
    shift.shift.assign(bias.data<float>(), bias.data<float>() + bias.numel());
    step.epilogue.push_back(std::move(shift));
  }

  int map_of(int node, const PlanStep& step) {
    const Node& n = node_at(node);
    if (n.op == Op::conv_transpose) {
      return map_index({KernelMap::Kind::transposed, n.geometry, step.input_level,
                        step.output_level, -1});
    }
    if (n.op == Op::inverse_conv) {
      const int forward = map_index({KernelMap::Kind::convolution, n.geometry, step.output_level,
                                     step.input_level, -1});
      return map_index({KernelMap::Kind::inverse, n.geometry, step.input_level, step.output_level,
                        forward});
    }
    if (n.submanifold && n.geometry.taps() == 1) return -1;
    return map_index({KernelMap::Kind::convolution, n.geometry, step.input_level,
                      step.output_level, -1});
  }

  int map_index(const PlanMap& wanted) {
    const auto found = std::find(plan_.maps.begin(), plan_.maps.end(), wanted);
    if (found != plan_.maps.end()) return static_cast<int>(found - plan_.maps.begin());
    plan_.maps.push_back(wanted);
    return static_cast<int>(plan_.maps.size()) - 1;
  }

  // The draft that can take another node behind `value`: nobody else reads the value, and its step has an epilogue.
  int open_draft(int value) const {
    const auto found = draft_of_.find(value);
    if (found == draft_of_.end() || uses_.at(value) != 1) return -1;
    const auto kind = drafts_[static_cast<std::size_t>(found->second)].step.kind;
    const bool has_epilogue =
        kind == PlanStep::Kind::convolution || kind == PlanStep::Kind::elementwise;
    return has_epilogue ? found->second : -1;
  }

  Draft& continued_or_new(int node, int value) {
    const int open = open_draft(value);
    if (open >= 0) return drafts_[static_cast<std::size_t>(open)];
    Draft& draft = start(node, PlanStep::Kind::elementwise);
    draft.inputs = {value};
    return draft;
  }

  void append(Draft& draft, int node) {
    const Node& n = node_at(node);
    PlanEpilogueNode next;
    next.kind = Epilogue::Kind::activate;
    switch (n.op) {
      case Op::batch_norm: append_batch_norm(draft.step.epilogue, n); break;
      case Op::relu: next.activation = Activation::relu; break;
      case Op::sigmoid: next.activation = Activation::sigmoid; break;
      default:
        next.activation = Activation::leaky_relu;
        next.slope = static_cast<float>(n.negative_slope);
    }
    if (n.op != Op::batch_norm) draft.step.epilogue.push_back(std::move(next));
    finish_at(draft, node);
  }

  // y = scale * x + shift. A bias or batch norm just before is folded in, so that one node is left.
  static void append_batch_norm(std::vector<PlanEpilogueNode>& epilogue, const Node& n) {
    const auto values = [&](const char* parameter) {
      return n.weights.at(parameter).data<float>();
    };
    const float *weight = values("weight"), *bias = values("bias"), *mean = values("running_mean"),
                *variance = values("running_var");
    const auto channels = static_cast<std::size_t>(n.weights.at("weight").numel());
    const bool folds = !epilogue.empty() && epilogue.back().kind == Epilogue::Kind::scale_shift;
    PlanEpilogueNode folded;
    folded.kind = Epilogue::Kind::scale_shift;
    folded.scale.resize(channels);
    folded.shift.resize(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      const double scale = weight[c] / std::sqrt(static_cast<double>(variance[c]) + n.eps);
      const bool was_scaled = folds && !epilogue.back().scale.empty();
      const double before_scale = was_scaled ? epilogue.back().scale[c] : 1.0;
      const double before_shift = folds ? epilogue.back().shift[c] : 0.0;
      folded.scale[c] = static_cast<float>(scale * before_scale);
      folded.shift[c] = static_cast<float>(scale * (before_shift - mean[c]) + bias[c]);
    }
    if (folds) epilogue.pop_back();
    epilogue.push_back(std::move(folded));
  }

  // A sum joins the step of one of its inputs, a convolution where there is one, the latest where there are several: the
  // others have been stored by then.
  void add_sum(int node) {
    const auto& inputs = inputs_of(node);
    std::size_t base = 0;
    int best = -1;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int open = open_draft(inputs[i]);
      if (open < 0) continue;
      const auto rank = [&](int d) {
        const Draft& draft = drafts_[static_cast<std::size_t>(d)];
        return std::pair(draft.step.kind == PlanStep::Kind::convolution, draft.position);
      };
      if (best < 0 || rank(open) > rank(best)) {
        best = open;
        base = i;
      }
    }
    Draft& draft = continued_or_new(node, inputs[base]);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (i == base) continue;
      draft.aux.push_back(inputs[i]);
      PlanEpilogueNode sum;
      sum.kind = Epilogue::Kind::add;
      draft.step.epilogue.push_back(std::move(sum));
    }
    finish_at(draft, node);
  }

  // --- buffers --------------------------------------------------------------------------------

  // Outer concatenations come later in the order and go first, so that an inner one is a part of an outer one.
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
      Draft draft;
      draft.inputs = {copy.part};
      draft.step.node = node_at(copy.node).name;
      draft.step.input_level = draft.step.output_level = level_of(copy.part);
      draft.step.output = slice_of(copy.node);
      draft.step.output.channel += copy.channel;
      draft.step.output.channels = channels_of(copy.part);
      draft.position = copy.node;
      draft.result = kNoParent;
      drafts_.push_back(std::move(draft));
    }
    std::stable_sort(drafts_.begin(), drafts_.end(),
                     [](const Draft& a, const Draft& b) { return a.position < b.position; });
    plan_.input = slice_of(kModelInput);
    for (Draft& draft : drafts_) {
      PlanStep& step = draft.step;
      for (const int input : draft.inputs) step.inputs.push_back(slice_of(input));
      if (draft.result != kNoParent && step.kind != PlanStep::Kind::to_dense) {
        step.output = slice_of(draft.result);
      }
      std::size_t next_aux = 0;
      for (auto& node : step.epilogue) {
        if (node.kind == Epilogue::Kind::add) node.aux = slice_of(draft.aux[next_aux++]);
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
    const auto use = [&](int level) { plan_.is_level_used[static_cast<std::size_t>(level)] = true; };
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

  const Model& model_;
  const GraphInfo info_;
  Plan plan_;
  std::vector<bool> is_live_;
  std::map<int, int> uses_;      // readers of a value, outputs included
  std::vector<Draft> drafts_;
  std::map<int, int> draft_of_;  // value -> draft that ends with it
  std::map<int, Place> places_;
  std::vector<Copy> copies_;
  std::map<int, int> buffers_;   // root value -> buffer
};

}  // namespace

Plan make_plan(const Model& model) { return Planner(model).run(); }

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

#include "sparseconv/fusion.hpp"

#include <algorithm>
#include <cmath>

namespace sparseconv::detail {
namespace {

using gemm_core::Activation;
using Epilogue = gemm_core::EpilogueNode;

class Fusion : GraphAccess {
 public:
  Fusion(const Model& model, PlanPurpose purpose)
      : GraphAccess(model, {.info = analyse_graph(model)}),
        trains_(purpose == PlanPurpose::training) {}

  FusedGraph run() {
    find_live_nodes();
    for (int node = 0; node < count(); ++node) {
      if (is_live(node)) add_node(node);
    }
    return std::move(graph_);
  }

 private:
  void find_live_nodes() {
    graph_.is_live.assign(model_.nodes.size(), false);
    const auto index = index_by_name(model_);
    for (const auto& output : model_.outputs) {
      graph_.is_live[static_cast<std::size_t>(index.at(output))] = true;
      ++uses_[index.at(output)];
    }
    for (int node = count() - 1; node >= 0; --node) {
      if (!is_live(node)) continue;
      for (const int input : inputs_of(node)) {
        ++uses_[input];
        if (input != kModelInput) graph_.is_live[static_cast<std::size_t>(input)] = true;
      }
    }
  }

  void add_node(int node) {
    const Node& n = node_at(node);
    switch (n.op) {
      case Op::conv:
      case Op::conv_transpose:
      case Op::inverse_conv:
      case Op::linear:
        start_convolution(node);
        break;
      case Op::batch_norm:
        if (trains_) {
          start(node, PlanStep::Kind::batch_norm).step.parameters = node;
          break;
        }
        [[fallthrough]];
      case Op::relu:
      case Op::leaky_relu:
      case Op::sigmoid:
        append(can_follow(node_at(node)) ? continued_or_new(node, inputs_of(node)[0])
                                         : start(node, PlanStep::Kind::elementwise),
               node);
        break;
      case Op::add:
        add_sum(node);
        break;
      case Op::concat:
        break;  // its inputs are written in place
      case Op::max_pool:
        start_pool(node, PlanStep::Kind::max_pool);
        break;
      case Op::avg_pool:
        start_pool(node, PlanStep::Kind::avg_pool);
        break;
      case Op::sum_pool:
        start_pool(node, PlanStep::Kind::sum_pool);
        break;
      case Op::global_max_pool:
        start(node, PlanStep::Kind::global_max);
        break;
      case Op::global_avg_pool:
        start(node, PlanStep::Kind::global_avg);
        break;
      case Op::merge:
        start(node, PlanStep::Kind::merge);
        break;
      case Op::to_dense:
        start(node, PlanStep::Kind::to_dense);
        break;
      case Op::devoxelize: {
        PlanStep& step = start(node, PlanStep::Kind::devoxelize).step;
        step.trilinear = node_at(node).trilinear;
        graph_.needs_points = true;
        graph_.needs_positions |= step.trilinear || step.input_level != 0;
        break;
      }
    }
  }

  StepDraft& start(int node, PlanStep::Kind kind) {
    StepDraft draft;
    draft.step.kind = kind;
    draft.inputs = inputs_of(node);
    draft.step.input_level = level_of(draft.inputs[0]);
    draft.step.output_level =
        kind == PlanStep::Kind::to_dense ? draft.step.input_level : level_of(node);
    graph_.drafts.push_back(std::move(draft));
    finish_at(graph_.drafts.back(), node);
    return graph_.drafts.back();
  }

  void finish_at(StepDraft& draft, int node) {
    draft.result = draft.position = node;
    draft.step.node = node_at(node).name;
    draft_of_[node] = static_cast<int>(&draft - graph_.drafts.data());
  }

  void start_pool(int node, PlanStep::Kind kind) {
    const Node& n = node_at(node);
    PlanStep& step = start(node, kind).step;
    step.implicit_zero = n.implicit_zero;
    step.taps = n.geometry.taps();
    step.map = map_index(
        {KernelMap::Kind::convolution, n.geometry, step.input_level, step.output_level, -1});
  }

  void start_convolution(int node) {
    const Node& n = node_at(node);
    PlanStep& step = start(node, PlanStep::Kind::convolution).step;
    step.weight = n.weights.at("weight");
    step.groups = n.groups;
    step.parameters = node;
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
      return map_index(
          {KernelMap::Kind::transposed, n.geometry, step.input_level, step.output_level, -1});
    }
    if (n.op == Op::inverse_conv) {
      const int forward = map_index(
          {KernelMap::Kind::convolution, n.geometry, step.output_level, step.input_level, -1});
      return map_index(
          {KernelMap::Kind::inverse, n.geometry, step.input_level, step.output_level, forward});
    }
    if (n.submanifold && n.geometry.taps() == 1) return -1;
    return map_index(
        {KernelMap::Kind::convolution, n.geometry, step.input_level, step.output_level, -1});
  }

  int map_index(const PlanMap& wanted) {
    const auto found = std::find(graph_.maps.begin(), graph_.maps.end(), wanted);
    if (found != graph_.maps.end()) return static_cast<int>(found - graph_.maps.begin());
    graph_.maps.push_back(wanted);
    return static_cast<int>(graph_.maps.size()) - 1;
  }

  // The draft that can take another node behind `value`: nobody else reads the value, and its step
  // has an epilogue.
  int open_draft(int value) const {
    const auto found = draft_of_.find(value);
    if (found == draft_of_.end() || uses_.at(value) != 1) return -1;
    const PlanStep& step = graph_.drafts[static_cast<std::size_t>(found->second)].step;
    const bool has_epilogue = step.kind == PlanStep::Kind::convolution ||
                              step.kind == PlanStep::Kind::elementwise ||
                              step.kind == PlanStep::Kind::batch_norm;
    const bool is_closed =
        trains_ && !step.epilogue.empty() && step.epilogue.back().kind == Epilogue::Kind::activate;
    return has_epilogue && !is_closed ? found->second : -1;
  }

  // Whether an activation may follow others in a step. The derivative of a leaky_relu that falls
  // cannot be told from its value: in training it is a step of its own, which keeps its input.
  bool can_follow(const Node& n) const {
    return !trains_ || n.op != Op::leaky_relu || n.negative_slope >= 0;
  }

  StepDraft& continued_or_new(int node, int value) {
    const int open = open_draft(value);
    if (open >= 0) return graph_.drafts[static_cast<std::size_t>(open)];
    StepDraft& draft = start(node, PlanStep::Kind::elementwise);
    draft.inputs = {value};
    return draft;
  }

  void append(StepDraft& draft, int node) {
    const Node& n = node_at(node);
    PlanEpilogueNode next;
    next.kind = Epilogue::Kind::activate;
    switch (n.op) {
      case Op::batch_norm:
        append_batch_norm(draft.step.epilogue, n);
        break;
      case Op::relu:
        next.activation = Activation::relu;
        break;
      case Op::sigmoid:
        next.activation = Activation::sigmoid;
        break;
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

  // A sum joins the step of one of its inputs, a convolution where there is one, the latest where
  // there are several: the others have been stored by then.
  void add_sum(int node) {
    const auto& inputs = inputs_of(node);
    std::size_t base = 0;
    int best = -1;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int open = open_draft(inputs[i]);
      if (open < 0) continue;
      const auto rank = [&](int d) {
        const StepDraft& draft = graph_.drafts[static_cast<std::size_t>(d)];
        return std::pair(draft.step.kind != PlanStep::Kind::elementwise, draft.position);
      };
      if (best < 0 || rank(open) > rank(best)) {
        best = open;
        base = i;
      }
    }
    StepDraft& draft = continued_or_new(node, inputs[base]);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (i == base) continue;
      draft.aux.push_back(inputs[i]);
      PlanEpilogueNode sum;
      sum.kind = Epilogue::Kind::add;
      draft.step.epilogue.push_back(std::move(sum));
    }
    finish_at(draft, node);
  }

  const bool trains_;
  std::map<int, int> uses_;      // readers of a value, outputs included
  std::map<int, int> draft_of_;  // value -> draft that ends with it
};

}  // namespace

FusedGraph fuse(const Model& model, PlanPurpose purpose) { return Fusion(model, purpose).run(); }

}  // namespace sparseconv::detail

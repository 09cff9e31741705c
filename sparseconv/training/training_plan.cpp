#include "sparseconv/training/training_plan.hpp"

#include <algorithm>

namespace sparseconv::training {
namespace {

using Kind = PlanStep::Kind;

// A flag a channel of every buffer.
class ChannelFlags {
 public:
  explicit ChannelFlags(const std::vector<PlanBuffer>& buffers) {
    for (const PlanBuffer& buffer : buffers) {
      flags_.emplace_back(static_cast<std::size_t>(buffer.channels), false);
    }
  }
  bool any(const PlanSlice& slice) const {
    const auto [first, last] = range(slice);
    return std::find(first, last, true) != last;
  }
  bool all(const PlanSlice& slice) const {
    const auto [first, last] = range(slice);
    return std::find(first, last, false) == last;
  }
  void set(const PlanSlice& slice) {
    const auto [first, last] = range(slice);
    std::fill(first, last, true);
  }
  // Runs of channels of the slice that are not set.
  std::vector<PlanSlice> unset_parts(const PlanSlice& slice) const {
    std::vector<PlanSlice> parts;
    const auto [first, last] = range(slice);
    for (auto at = std::find(first, last, false); at != last;) {
      const auto end = std::find(at, last, true);
      parts.push_back({slice.buffer, slice.channel + (at - first), end - at});
      at = std::find(end, last, false);
    }
    return parts;
  }

 private:
  using Flags = std::vector<bool>;
  std::pair<Flags::iterator, Flags::iterator> range(const PlanSlice& slice) const {
    auto& of_buffer = flags_[static_cast<std::size_t>(slice.buffer)];
    return {of_buffer.begin() + slice.channel, of_buffer.begin() + slice.channel + slice.channels};
  }
  mutable std::vector<Flags> flags_;
};

class BackwardPlanner {
 public:
  BackwardPlanner(const Model& model, const TrainingPlanOptions& options)
      : options_(options), needs_(std::vector<PlanBuffer>{}), written_(needs_) {
    planned_.plan = make_plan(model, PlanPurpose::training);
    planned_.value_buffers = static_cast<int>(plan().buffers.size());
    needs_ = written_ = ChannelFlags(plan().buffers);
  }

  TrainingPlan run() {
    find_needs();
    const auto count = plan().buffers.size();
    for (std::size_t b = 0; b < count; ++b) {
      PlanBuffer gradient = plan().buffers[b];
      gradient.first_step = gradient.last_step = -1;
      gradient.is_f32 = true;
      plan().buffers.push_back(gradient);
    }
    planned_.second_buffer.assign(count, -1);
    if (options_.recomputes) choose_recomputed();
    seed_outputs();
    planned_.backward.resize(plan().steps.size());
    for (int step = steps() - 1; step >= 0; --step) plan_backward(step);
    finish_input();
    drop_unused_gradients();
    return std::move(planned_);
  }

 private:
  Plan& plan() { return planned_.plan; }
  int steps() { return static_cast<int>(plan().steps.size()); }
  int loss_time() { return steps(); }
  int backward_time(int step) { return 2 * steps() - step; }

  void touch(const PlanSlice& slice, int time) {
    PlanBuffer& buffer = plan().buffers[static_cast<std::size_t>(slice.buffer)];
    buffer.first_step = buffer.first_step < 0 ? time : std::min(buffer.first_step, time);
    buffer.last_step = std::max(buffer.last_step, time);
  }

  // Which values depend on a parameter, or on the input where its gradient is asked for.
  void find_needs() {
    if (options_.input_gradient) needs_.set(plan().input);
    for (const PlanStep& step : plan().steps) {
      if (step.output.buffer < 0) continue;
      bool needs = step.parameters >= 0;
      for (const PlanSlice& input : step.inputs) needs = needs || needs_.any(input);
      for (const auto& node : step.epilogue)
        needs = needs || (node.aux.buffer >= 0 && needs_.any(node.aux));
      if (needs) needs_.set(step.output);
    }
  }

  void seed_outputs() {
    for (const PlanOutput& output : plan().outputs) {
      PlanSlice gradient;
      if (!output.is_dense) {
        gradient = planned_.gradient_of(output.value);
        touch(output.value, loss_time());
        touch(gradient, loss_time());
        written_.set(output.value);
      }
      planned_.output_gradients.push_back(gradient);
    }
  }

  GradientWrite write(const PlanSlice& value, int time) {
    GradientWrite write;
    if (!needs_.any(value)) return write;
    write.to = planned_.gradient_of(value);
    write.mode = written_.any(value) ? GradientWrite::Mode::add : GradientWrite::Mode::store;
    if (write.mode == GradientWrite::Mode::add) {
      for (const PlanSlice& part : written_.unset_parts(value))
        write.cleared.push_back(planned_.gradient_of(part));
    }
    written_.set(value);
    touch(write.to, time);
    return write;
  }

  void plan_backward(int index) {
    const PlanStep& step = plan().steps[static_cast<std::size_t>(index)];
    BackwardStep& backward = planned_.backward[static_cast<std::size_t>(index)];
    const int time = backward_time(index);
    const bool is_dense = step.kind == Kind::to_dense;
    backward.runs = is_dense ? needs_.any(step.inputs[0])
                             : needs_.any(step.output) && written_.any(step.output);
    if (!backward.runs) {
      backward.inputs.resize(step.inputs.size());
      return;
    }
    if (!is_dense) {
      backward.gradient = planned_.gradient_of(step.output);
      touch(backward.gradient, time);
      // Another step's part of a concatenation may be all that was written.
      written_.set(step.output);
    }
    for (const auto& node : step.epilogue) {
      if (node.aux.buffer >= 0) backward.aux.push_back(write(node.aux, time));
    }
    for (const PlanSlice& input : step.inputs) backward.inputs.push_back(write(input, time));
    keep_values(step, index);
    if (step.kind == Kind::convolution && options_.lingers > 0) {
      touch(backward.gradient, time + options_.lingers);
      touch(planned_.kept(step.inputs[0]), time + options_.lingers);
    }
  }

  // Buffers that elementwise steps alone write, from values that are kept. Greedy in the order of
  // steps: along a chain of residual blocks every other sum.
  void choose_recomputed() {
    std::vector<bool> is_kept(static_cast<std::size_t>(planned_.value_buffers), false);
    auto& second = planned_.second_buffer;
    const auto at = [](const PlanSlice& slice) { return static_cast<std::size_t>(slice.buffer); };
    is_kept[at(plan().input)] = true;
    for (const PlanOutput& output : plan().outputs) {
      if (!output.is_dense) is_kept[at(output.value)] = true;
    }
    for (const PlanStep& step : plan().steps) {
      if (step.output.buffer >= 0 && !is_elementwise(step)) is_kept[at(step.output)] = true;
    }
    for (const PlanStep& step : plan().steps) {
      if (step.output.buffer < 0 || is_kept[at(step.output)]) continue;
      bool is_made_of_kept = second[at(step.inputs[0])] < 0;
      for (const auto& node : step.epilogue)
        is_made_of_kept = is_made_of_kept && (node.aux.buffer < 0 || second[at(node.aux)] < 0);
      int& chosen = second[at(step.output)];
      if (!is_made_of_kept) {
        is_kept[at(step.output)] = true;
        chosen = -1;
      } else if (chosen < 0) {
        chosen = static_cast<int>(plan().buffers.size());
        PlanBuffer again = plan().buffers[at(step.output)];
        again.first_step = again.last_step = -1;
        plan().buffers.push_back(again);
      }
    }
  }
  static bool is_elementwise(const PlanStep& step) {
    return step.kind == Kind::batch_norm || step.kind == Kind::elementwise;
  }

  // A value that the backward of a step reads is alive then; one that is recomputed is made again
  // when it is first read.
  void keep(const PlanSlice& value, int index) {
    const int time = backward_time(index);
    const PlanSlice kept = planned_.kept(value);
    const bool is_made_now = kept.buffer != value.buffer &&
                             plan().buffers[static_cast<std::size_t>(kept.buffer)].first_step < 0;
    touch(kept, time);
    if (!is_made_now) return;
    planned_.backward[static_cast<std::size_t>(index)].recomputed.push_back(value.buffer);
    for (const PlanStep& step : plan().steps) {
      if (step.output.buffer != value.buffer) continue;
      touch(step.inputs[0], time);
      for (const auto& node : step.epilogue) {
        if (node.aux.buffer >= 0) touch(node.aux, time);
      }
    }
  }

  // Values that the backward of a step reads.
  void keep_values(const PlanStep& step, int index) {
    const PlanEpilogueNode* last = step.epilogue.empty() ? nullptr : &step.epilogue.back();
    const bool has_activation = last && last->kind == gemm_core::EpilogueNode::Kind::activate;
    const bool is_told_by_input =
        has_activation && last->activation == gemm_core::Activation::leaky_relu && last->slope < 0;
    const bool reads_input = step.kind == Kind::convolution || step.kind == Kind::batch_norm ||
                             step.kind == Kind::max_pool || step.kind == Kind::global_max;
    if (has_activation && !is_told_by_input) keep(step.output, index);
    if (reads_input || is_told_by_input) keep(step.inputs[0], index);
  }

  void finish_input() {
    if (!options_.input_gradient) return;
    planned_.input_gradient = planned_.gradient_of(plan().input);
    touch(planned_.input_gradient, backward_time(-1));
    for (const PlanSlice& part : written_.unset_parts(plan().input))
      planned_.input_cleared.push_back(planned_.gradient_of(part));
  }

  // A buffer without channels takes no room.
  void drop_unused_gradients() {
    for (std::size_t b = static_cast<std::size_t>(planned_.value_buffers);
         b < plan().buffers.size(); ++b) {
      PlanBuffer& buffer = plan().buffers[b];
      if (buffer.first_step >= 0) continue;
      buffer.channels = 0;
      buffer.first_step = buffer.last_step = 0;
    }
  }

  TrainingPlanOptions options_;
  TrainingPlan planned_;
  ChannelFlags needs_, written_;
};

}  // namespace

TrainingPlan make_training_plan(const Model& model, const TrainingPlanOptions& options) {
  return BackwardPlanner(model, options).run();
}

}  // namespace sparseconv::training

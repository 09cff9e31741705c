// The backward pass of a plan, worked out once and independent of the backend: which gradients each
// step writes, and how long every value and gradient is alive. The plan is the one of
// PlanPurpose::training; gradients are buffers of it, behind those of the values and shaped like
// them, so that `place_buffers` places both in one arena.
#pragma once
#include "sparseconv/plan.hpp"

namespace sparseconv::training {

// A step's gradient with respect to one of its operands.
struct GradientWrite {
  enum class Mode : std::uint8_t {
    none,   // nothing upstream is trained
    store,  // the first to write
    add,
  } mode = Mode::none;
  PlanSlice to;
  std::vector<PlanSlice> cleared;  // parts of `to` that nobody has written: zeroed first
};

struct BackwardStep {
  bool runs = false;                       // some operand or parameter of the step needs a gradient
  PlanSlice gradient;                      // of its output; becomes that before the activation
  std::vector<GradientWrite> inputs, aux;  // aux: of its add nodes, in order
  std::vector<int> recomputed;             // buffers whose values are made again before it runs
};

struct TrainingPlan {
  Plan plan;
  // Time: step s runs at s, the loss at steps.size(), the backward of s at 2 * steps.size() - s.
  // Buffers carry these times as their first and last step.
  int value_buffers = 0;
  std::vector<BackwardStep> backward;       // of a step
  std::vector<PlanSlice> output_gradients;  // of a sparse output: zeroed by the tape, then seeded
  std::vector<PlanSlice> input_cleared;     // parts of the input's gradient that no step writes
  PlanSlice input_gradient;                 // where asked for
  PlanSlice gradient_of(PlanSlice value) const {
    value.buffer += value_buffers;
    return value;
  }
  // Where the backward pass finds a value: its own buffer, or the one it is made again in.
  std::vector<int> second_buffer;  // of a value buffer; -1: its own
  PlanSlice kept(PlanSlice value) const {
    const int second = second_buffer[static_cast<std::size_t>(value.buffer)];
    if (second >= 0) value.buffer = second;
    return value;
  }
};

struct TrainingPlanOptions {
  bool input_gradient = false;  // of the features that go in
  // Outputs of batch norms, sums and activations are not kept for the backward pass but made again
  // in it, where what they were made of is kept: less memory, a little more time, the same bits.
  bool recomputes = false;
  // Steps for which what the gradient of a convolution's weights reads stays after the
  // convolution's own step, so that it may run beside those that follow.
  int lingers = 0;
};

// Precondition: validate(model).
TrainingPlan make_training_plan(const Model& model, const TrainingPlanOptions& options = {});

}  // namespace sparseconv::training

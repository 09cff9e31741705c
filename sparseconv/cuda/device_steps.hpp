// A plan as CUDA runs it: what its passes (shortcut_plan.hpp, narrow_plan.hpp) know beyond a Plan.
#pragma once
#include <vector>

#include "sparseconv/plan.hpp"

namespace sparseconv::cuda {

struct StepExtras {
  // Merged steps: [cout, cin of inputs[1]] f32; each row of inputs[1] is one more tap of its own
  // output row.
  base::Tensor own_weight;
  bool is_absorbed = false;    // a later step does this one's work
  std::vector<float> factors;  // of the epilogue's additions, in order; empty: 1 all
};

struct DeviceSteps : Plan {
  explicit DeviceSteps(const Plan& plan)
      : Plan(plan), extras(plan.steps.size()), is_narrow(plan.buffers.size(), false) {}

  std::vector<StepExtras> extras;  // of each step
  std::vector<bool> is_narrow;     // of each buffer: 8-bit, whatever the storage type
};

}  // namespace sparseconv::cuda

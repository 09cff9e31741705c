// The first half of planning: which nodes of a graph become which fused steps, and the maps that
// they need.
#pragma once
#include "sparseconv/plan.hpp"

namespace sparseconv::detail {

// A step before it is known where values stand: values are named by the node that gives them, or
// kModelInput.
struct StepDraft {
  PlanStep step;
  std::vector<int> inputs, aux;  // aux: of its add nodes, in order
  int result = 0;                // the value it produces: the last node fused
  int position = 0;              // steps run in this order
};

struct FusedGraph {
  GraphInfo info;
  std::vector<bool> is_live;  // of a node: some output needs it
  std::vector<StepDraft> drafts;
  std::vector<PlanMap> maps;
  bool needs_points = false, needs_positions = false;
};

// Concatenations become no steps: their inputs are written in place.
FusedGraph fuse(const Model& model, PlanPurpose purpose);

}  // namespace sparseconv::detail

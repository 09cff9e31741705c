// The first half of planning: which nodes of a graph become which fused steps, and the maps that
// they need.
#pragma once
#include <utility>
#include <vector>

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

// What both halves of planning ask of a graph's nodes and values.
class GraphAccess {
 protected:
  GraphAccess(const Model& model, FusedGraph graph) : model_(model), graph_(std::move(graph)) {}

  int count() const { return static_cast<int>(model_.nodes.size()); }
  const Node& node_at(int node) const { return model_.nodes[static_cast<std::size_t>(node)]; }
  const std::vector<int>& inputs_of(int node) const {
    return graph_.info.inputs[static_cast<std::size_t>(node)];
  }
  bool is_live(int node) const { return graph_.is_live[static_cast<std::size_t>(node)]; }
  int level_of(int value) const {
    return value == kModelInput ? 0 : graph_.info.level[static_cast<std::size_t>(value)];
  }

  const Model& model_;
  FusedGraph graph_;
};

// Concatenations become no steps: their inputs are written in place.
FusedGraph fuse(const Model& model, PlanPurpose purpose);

}  // namespace sparseconv::detail

// Epilogue graphs built at run time from the same nodes.
//
//   RuntimeGraph graph;
//   const int acc = graph.add(Accumulator{});
//   const int bias = graph.add(RowLoad{bias_values});
//   const int sum = graph.add(Compute{ElementwiseOp::plus}, {acc, bias});
//   graph.add(Compute{ElementwiseOp::relu}, {sum});      // the last node's value is the result
//   VisitorEpilogue epilogue(graph);
#pragma once
#include <variant>
#include <vector>

#include "gemm_core/epilogue/epilogue.hpp"
#include "gemm_core/epilogue/visitor_nodes.hpp"

namespace gemm_core::visitor {

class RuntimeGraph {
 public:
  using Node = std::variant<Accumulator, MatrixLoad, RowLoad, ColumnLoad, Scalar, Compute,
                            AddScaledSource, Quantise, MatrixStore, MaskStore, MaskLoad, Reduce>;
  // Index of the new node. Error where the inputs are not earlier nodes or not as many as the node
  // reads.
  int add(Node node, std::vector<int> inputs = {});

  Fragment visit(Piece& piece);
  template <class Action>
  void for_each(const Action& action) {
    for (auto& vertex : vertices_) std::visit(action, vertex.node);
  }
  int size() const { return static_cast<int>(vertices_.size()); }
  // action(node, the indices of what it reads), in order.
  template <class Action>
  void for_each_vertex(const Action& action) const {
    for (const auto& vertex : vertices_)
      std::visit([&](const auto& node) { action(node, vertex.inputs); }, vertex.node);
  }

 private:
  struct Vertex {
    Node node;
    std::vector<int> inputs;
  };
  std::vector<Vertex> vertices_;
};

// The program of gather_conv and gemm as a graph: the same values to the bit.
RuntimeGraph graph_of(const Epilogue& epilogue);

}  // namespace gemm_core::visitor

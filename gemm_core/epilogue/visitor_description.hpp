// Trees, split trees and graphs composed at compile time as the run-time graph that other backends
// take: one description of an epilogue for all of them.
//
//   auto root = linear_combination_row_bias_activation(...);   // visitor_aliases.hpp
//   VisitorEpilogue on_cpu(root);
//   RuntimeGraph on_cuda = describe(root);                     //
//   device/cuda/visitor/visitor_gemm.hpp
//
// Nodes that hold functions of the caller's own (ComputeWith) have no run-time form.
#pragma once
#include "gemm_core/epilogue/visitor_graph.hpp"
#include "gemm_core/epilogue/visitor_tree.hpp"

namespace gemm_core::visitor {

namespace detail {

// Adds what it describes to `graph` and gives the index of its value; `accumulator` is the index
// of the value that stands for the accumulator.
struct Describer {
  RuntimeGraph& graph;

  template <class Node>
  int add(const Node& node, int accumulator, std::vector<int> inputs) {
    static_assert(std::is_constructible_v<RuntimeGraph::Node, const Node&>,
                  "describe: this node has no run-time form");
    if constexpr (std::is_same_v<Node, Accumulator>)
      return accumulator;
    else
      return graph.add(node, std::move(inputs));
  }
  template <class Node, class... Children>
  int operator()(const Tree<Node, Children...>& tree, int accumulator) {
    std::vector<int> inputs;
    std::apply([&](const auto&... child) { (inputs.push_back((*this)(child, accumulator)), ...); },
               tree.children);
    return add(tree.node, accumulator, std::move(inputs));
  }
  template <class Input, class Output, class... Others>
  int operator()(const Split<Input, Output, Others...>& split, int accumulator) {
    const int common = (*this)(split.input, accumulator);
    std::apply([&](const auto&... other) { ((*this)(other, common), ...); }, split.others);
    return (*this)(split.output, common);
  }
  template <class... Vertices>
  int operator()(const Graph<Vertices...>& vertices, int accumulator) {
    std::vector<int> values;
    const auto each = [&]<class Node, int... kInputs>(const Vertex<Node, kInputs...>& vertex) {
      values.push_back(
          add(vertex.node, accumulator, {values[static_cast<std::size_t>(kInputs)]...}));
    };
    std::apply([&](const auto&... vertex) { (each(vertex), ...); }, vertices.vertices);
    return values.back();
  }
};

}  // namespace detail

template <class Root>
RuntimeGraph describe(const Root& root) {
  RuntimeGraph graph;
  const int accumulator = graph.add(Accumulator{});
  const int result = detail::Describer{graph}(detail::composed(root), accumulator);
  // The result is the last node.
  if (result + 1 != graph.size()) graph.add(Compute{.op = ElementwiseOp::identity}, {result});
  return graph;
}

}  // namespace gemm_core::visitor

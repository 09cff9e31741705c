#include "gemm_core/epilogue/visitor_graph.hpp"

#include <array>

#include "gemm_core/base/error.hpp"

namespace gemm_core::visitor {
namespace {

constexpr int kMostInputs = 3;

struct CountInputs {
  int operator()(const Compute& c) const { return arity(c.op); }
  int operator()(const AddScaledSource&) const { return 1; }
  int operator()(const Quantise&) const { return 1; }
  int operator()(const MatrixStore&) const { return 1; }
  int operator()(const MaskStore&) const { return 1; }
  int operator()(const Reduce&) const { return 1; }
  template <class Load>
  int operator()(const Load&) const {
    return 0;
  }
};

int inputs_of(const RuntimeGraph::Node& node) { return std::visit(CountInputs(), node); }

ElementwiseOp op_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return ElementwiseOp::relu;
    case Activation::leaky_relu:
      return ElementwiseOp::leaky_relu;
    case Activation::sigmoid:
      return ElementwiseOp::sigmoid;
    case Activation::silu:
      return ElementwiseOp::silu;
    case Activation::tanh:
      return ElementwiseOp::tanh;
    case Activation::gelu:
      return ElementwiseOp::gelu;
    default:
      return ElementwiseOp::identity;
  }
}

int add_scale_shift(RuntimeGraph& graph, const EpilogueNode& node, int value) {
  const auto compute = [](ElementwiseOp op) { return Compute{.op = op}; };
  if (node.scale && node.shift) {
    const int scale = graph.add(RowLoad{node.scale}), shift = graph.add(RowLoad{node.shift});
    return graph.add(compute(ElementwiseOp::multiply_add), {value, scale, shift});
  }
  if (node.scale)
    return graph.add(compute(ElementwiseOp::multiplies), {value, graph.add(RowLoad{node.scale})});
  if (node.shift)
    return graph.add(compute(ElementwiseOp::plus), {value, graph.add(RowLoad{node.shift})});
  return value;
}

}  // namespace

int RuntimeGraph::add(Node node, std::vector<int> inputs) {
  const int index = static_cast<int>(vertices_.size());
  ENSURE(static_cast<int>(inputs.size()) == inputs_of(node), "epilogue graph: node ", index,
         " reads ", inputs_of(node), " inputs, got ", inputs.size());
  for (const int input : inputs) {
    ENSURE(input >= 0 && input < index, "epilogue graph: node ", index, " reads node ", input,
           ", expected 0..", index - 1);
  }
  vertices_.push_back({std::move(node), std::move(inputs)});
  return index;
}

Fragment RuntimeGraph::visit(Piece& piece) {
  thread_local std::vector<Fragment> values;
  values.resize(vertices_.size());
  Fragment last = piece.accumulator;
  for (std::size_t i = 0; i < vertices_.size(); ++i) {
    std::array<Fragment, kMostInputs> inputs{};
    const auto& indices = vertices_[i].inputs;
    for (std::size_t j = 0; j < indices.size(); ++j)
      inputs[j] = values[static_cast<std::size_t>(indices[j])];
    last = std::visit(
        [&](auto& node) { return node.visit(piece, Inputs(inputs.data(), indices.size())); },
        vertices_[i].node);
    values[i] = last;
  }
  return last;
}

RuntimeGraph graph_of(const Epilogue& epilogue) {
  RuntimeGraph graph;
  int value = graph.add(Accumulator{});
  for (const EpilogueNode& node : epilogue.nodes) {
    switch (node.kind) {
      case EpilogueNode::Kind::scale_shift:
        value = add_scale_shift(graph, node, value);
        break;
      case EpilogueNode::Kind::add: {
        MatrixLoad load{
            .matrix = {node.aux.data, node.aux.dtype, node.aux.stride[0], node.aux.stride[1]}};
        const int aux = graph.add(std::move(load));
        value = graph.add(Compute{.op = ElementwiseOp::plus}, {value, aux});
        break;
      }
      case EpilogueNode::Kind::activate:
        value = graph.add(Compute{.op = op_of(node.activation), .parameters = {node.slope, 0}},
                          {value});
        break;
    }
  }
  return graph;
}

}  // namespace gemm_core::visitor

#include "sparseconv/graph_builder.hpp"

namespace sparseconv {

GraphBuilder::GraphBuilder(std::int64_t in_channels, double eps) : eps_(eps) {
  channels_["input"] = in_channels;
}

std::string GraphBuilder::add(Node node, std::int64_t channels) {
  channels_[node.name] = channels;
  nodes_.push_back(std::move(node));
  return nodes_.back().name;
}

std::string GraphBuilder::conv(const std::string& name, const std::string& input,
                               const ConvSpec& spec) {
  Node node;
  node.name = name;
  node.op = Op::conv;
  node.inputs = {input};
  node.submanifold = spec.stride[0] == 0;
  node.geometry = node.submanifold
                      ? ConvGeometry::submanifold(spec.kernel)
                      : ConvGeometry{spec.kernel, spec.stride, spec.padding, {1, 1, 1}};
  node.out_channels = spec.out_channels;
  node.bias = spec.bias;
  geometries_[name] = node.geometry;
  return add(std::move(node), spec.out_channels);
}

std::string GraphBuilder::inverse_conv(const std::string& name, const std::string& input,
                                       const std::string& pair, std::int64_t out_channels) {
  Node node;
  node.name = name;
  node.op = Op::inverse_conv;
  node.inputs = {input};
  node.pair = pair;
  node.geometry = geometries_.at(pair);
  node.out_channels = out_channels;
  return add(std::move(node), out_channels);
}

std::string GraphBuilder::linear(const std::string& name, const std::string& input,
                                 std::int64_t out_channels) {
  Node node;
  node.name = name;
  node.op = Op::linear;
  node.inputs = {input};
  node.out_channels = out_channels;
  node.bias = true;
  return add(std::move(node), out_channels);
}

std::string GraphBuilder::batch_norm(const std::string& name, const std::string& input,
                                     double eps) {
  Node node;
  node.name = name;
  node.op = Op::batch_norm;
  node.inputs = {input};
  node.eps = eps < 0 ? eps_ : eps;
  return add(std::move(node), channels(input));
}

std::string GraphBuilder::simple(const std::string& name, Op op,
                                 const std::vector<std::string>& inputs) {
  Node node;
  node.name = name;
  node.op = op;
  node.inputs = inputs;
  std::int64_t total = 0;
  for (const auto& input : inputs) total += channels(input);
  return add(std::move(node), op == Op::concat ? total : channels(inputs[0]));
}

std::string GraphBuilder::merge(const std::string& name, const std::vector<std::string>& inputs,
                                const std::vector<std::array<int, 3>>& scales) {
  simple(name, Op::merge, inputs);
  nodes_.back().scales = scales;
  return name;
}

std::string GraphBuilder::bn_relu(const std::string& name, double eps) {
  return simple(name + ".relu", Op::relu, {batch_norm(name + ".bn", name + ".conv", eps)});
}

std::string GraphBuilder::conv_bn_relu(const std::string& name, const std::string& input,
                                       const ConvSpec& spec, double eps) {
  conv(name + ".conv", input, spec);
  return bn_relu(name, eps);
}

std::string GraphBuilder::inverse_bn_relu(const std::string& name, const std::string& input,
                                          const std::string& pair, std::int64_t out_channels) {
  inverse_conv(name + ".conv", input, pair, out_channels);
  return bn_relu(name, -1);
}

std::string GraphBuilder::residual_block(const std::string& name, const std::string& input,
                                         const BlockSpec& spec) {
  const ConvSpec conv_spec{
      .kernel = spec.kernel, .out_channels = spec.out_channels, .bias = spec.bias};
  const auto hidden = conv_bn_relu(name + ".0", input, conv_spec);
  const auto out = batch_norm(name + ".1.bn", conv(name + ".1.conv", hidden, conv_spec));
  std::string shortcut = input;
  if (channels(input) != spec.out_channels) {
    shortcut =
        conv(name + ".short", input, {.kernel = {1, 1, 1}, .out_channels = spec.out_channels});
    shortcut = batch_norm(name + ".shortbn", shortcut);
  }
  return simple(name + ".relu", Op::relu, {simple(name + ".add", Op::add, {out, shortcut})});
}

}  // namespace sparseconv

// Order of the nodes, shapes of parameters, and the check of a whole model.
#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "sparseconv/graph.hpp"

namespace sparseconv {

namespace detail {

std::map<std::string, int> index_by_name(const Model& model) {
  std::map<std::string, int> index;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const bool is_new = index.emplace(model.nodes[i].name, static_cast<int>(i)).second;
    ENSURE(is_new, "node '", model.nodes[i].name, "': there are two nodes of this name");
  }
  return index;
}

int index_of_input(const std::map<std::string, int>& index, const Node& node,
                   const std::string& input) {
  if (input == "input") return kModelInput;
  const auto found = index.find(input);
  ENSURE(found != index.end(), "node '", node.name, "': its input '", input,
         "' is no node of the graph");
  return found->second;
}

int index_of_pair(const std::map<std::string, int>& index, const Node& node) {
  const auto found = index.find(node.pair);
  ENSURE(found != index.end(), "node '", node.name, "': its pair '", node.pair,
         "' is no node of the graph");
  return found->second;
}

}  // namespace detail

namespace {

void complete_inverse_geometries(Model& model, const GraphInfo& info) {
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    if (info.pair[i] >= 0) {
      model.nodes[i].geometry = model.nodes[static_cast<std::size_t>(info.pair[i])].geometry;
    }
  }
}

void check_weights(Node& node, std::int64_t in_channels) {
  const auto shapes = parameter_shapes(node, in_channels);
  for (const auto& [parameter, shape] : shapes) {
    const auto found = node.weights.find(parameter);
    ENSURE(found != node.weights.end(), "node '", node.name, "': ", parameter, " ",
           to_string(shape), " is missing");
    base::Tensor& tensor = found->second;
    const bool is_unit_kernel = node.op == Op::linear && parameter == "weight" &&
                                tensor.shape() == base::Dims{shape[0], 1, 1, 1, shape[1]};
    ENSURE(tensor.shape() == shape || is_unit_kernel, "node '", node.name, "': ", parameter,
           " has shape ", to_string(tensor.shape()), ", expected ", to_string(shape));
    ENSURE(tensor.dtype() == base::DType::f32 && tensor.device().is_cpu(), "node '", node.name,
           "': ", parameter, " must be float32 on the CPU, is ", base::name(tensor.dtype()));
    if (is_unit_kernel) tensor = tensor.reshaped(shape);
    const float* values = tensor.data<float>();
    const bool is_variance = parameter == "running_var";
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      ENSURE(std::isfinite(values[i]), "node '", node.name, "': ", parameter,
             " holds a value that is not finite at index ", i);
      ENSURE(!is_variance || static_cast<double>(values[i]) + node.eps > 0, "node '", node.name,
             "': running_var[", i, "] = ", values[i], " is not a variance");
    }
  }
  for (const auto& [parameter, tensor] : node.weights) {
    ENSURE(shapes.count(parameter) > 0, "node '", node.name, "': ", name(node.op), " has no ",
           parameter, node.bias || parameter != "bias" ? "" : " (its key 'bias' is false)");
  }
}

}  // namespace

void sort_nodes(Model& model) {
  const auto index = detail::index_by_name(model);
  const std::size_t count = model.nodes.size();
  std::vector<std::vector<int>> users(count);
  std::vector<int> waiting(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = model.nodes[i];
    const auto depends_on = [&](int producer) {
      if (producer == kModelInput) return;
      users[static_cast<std::size_t>(producer)].push_back(static_cast<int>(i));
      ++waiting[i];
    };
    for (const auto& input : node.inputs) depends_on(detail::index_of_input(index, node, input));
    if (node.op == Op::inverse_conv) depends_on(detail::index_of_pair(index, node));
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    if (waiting[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<Node> sorted;
  std::vector<bool> is_placed(count, false);
  while (!ready.empty()) {
    const auto next = static_cast<std::size_t>(ready.top());
    ready.pop();
    is_placed[next] = true;
    sorted.push_back(model.nodes[next]);
    for (const int user : users[next]) {
      if (--waiting[static_cast<std::size_t>(user)] == 0) ready.push(user);
    }
  }
  if (sorted.size() == count) {
    model.nodes = std::move(sorted);
    return;
  }
  const auto first = std::find(is_placed.begin(), is_placed.end(), false) - is_placed.begin();
  base::fail("node '", model.nodes[static_cast<std::size_t>(first)].name,
             "': is part of a cycle, or takes its input from one (", count - sorted.size(),
             " nodes cannot be ordered)");
}

std::map<std::string, base::Dims> parameter_shapes(const Node& node, std::int64_t in_channels) {
  const auto& k = node.geometry.kernel;
  std::map<std::string, base::Dims> shapes;
  switch (node.op) {
    case Op::conv:
    case Op::conv_transpose:
    case Op::inverse_conv:
      shapes["weight"] = {node.out_channels, k[0], k[1], k[2], in_channels / node.groups};
      break;
    case Op::linear:
      shapes["weight"] = {node.out_channels, in_channels};
      break;
    case Op::batch_norm:
      for (const char* parameter : {"weight", "bias", "running_mean", "running_var"}) {
        shapes[parameter] = {in_channels};
      }
      return shapes;
    default:
      return shapes;
  }
  if (node.bias) shapes["bias"] = {node.out_channels};
  return shapes;
}

std::map<std::string, std::int64_t> validate(Model& model) {
  sort_nodes(model);
  const GraphInfo info = analyse_graph(model);
  complete_inverse_geometries(model, info);
  std::map<std::string, std::int64_t> channels;
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    const int input = info.inputs[i][0];
    check_weights(model.nodes[i], input == kModelInput
                                      ? model.in_channels()
                                      : info.channels[static_cast<std::size_t>(input)]);
    channels[model.nodes[i].name] = info.channels[i];
  }
  return channels;
}

}  // namespace sparseconv

// The graph of a model as JSON: reading and writing. What the ops mean together is checked by
// graph.cpp.
#include <algorithm>
#include <limits>

#include "sparseconv/json_reader.hpp"
#include "sparseconv/model.hpp"

namespace sparseconv {
namespace {

using detail::JsonReader;
using detail::shown;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kMaxKernel = 255, kMaxStep = 1 << 16;
constexpr std::int64_t kMaxChannels = 1 << 20;

void read_geometry(JsonReader& in, Node& node) {
  const bool is_pool = node.op != Op::conv && node.op != Op::conv_transpose;
  node.geometry.kernel = in.triple("kernel", 1, kMaxKernel);
  if (in.has("dilation")) node.geometry.dilation = in.triple("dilation", 1, kMaxStep);
  if (is_pool) node.geometry.stride = node.geometry.kernel;
  if (in.has("stride")) node.geometry.stride = in.triple("stride", 1, kMaxStep);
  if (in.has("padding")) node.geometry.padding = in.triple("padding", 0, kMaxStep);
  if (!node.submanifold) return;
  if (node.geometry.stride != std::array<int, 3>{1, 1, 1}) {
    in.fail("stride", "a submanifold convolution has stride 1, got " + shown(in.value("stride")));
  }
  for (const int extent : node.geometry.kernel) {
    if (extent % 2 == 0) {
      in.fail("kernel",
              "a submanifold convolution needs an odd kernel, got " + shown(in.value("kernel")));
    }
  }
  node.geometry = ConvGeometry::submanifold(node.geometry.kernel, node.geometry.dilation);
}

void read_scales(JsonReader& in, Node& node) {
  node.scales.assign(node.inputs.size(), {1, 1, 1});
  if (!in.has("scales")) return;
  const json& list = in.value("scales");
  if (!list.is_array() || list.size() != node.inputs.size()) {
    in.fail("scales", base::concat("expected ", node.inputs.size(),
                                   " lists of 3 integers (one an input), got ", shown(list)));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json one{{"scales", list[i]}};
    node.scales[i] = JsonReader(one, "node '" + node.name + "'").triple("scales", 0, kMaxStep);
  }
}

void read_op_keys(JsonReader& in, Node& node) {
  switch (node.op) {
    case Op::conv:
    case Op::conv_transpose:
      if (node.op == Op::conv) node.submanifold = in.boolean("submanifold", false);
      read_geometry(in, node);
      node.out_channels = in.integer("out_channels", 1, kMaxChannels);
      node.groups = in.has("groups") ? in.integer("groups", 1, kMaxChannels) : 1;
      node.bias = in.boolean("bias", false);
      break;
    case Op::inverse_conv:
      node.pair = in.text("pair");
      node.out_channels = in.integer("out_channels", 1, kMaxChannels);
      node.bias = in.boolean("bias", false);
      // Zero says that the kernel was left out; analyse_graph compares it with the pair's.
      node.geometry.kernel = {0, 0, 0};
      if (in.has("kernel")) node.geometry.kernel = in.triple("kernel", 1, kMaxKernel);
      break;
    case Op::linear:
      node.out_channels = in.integer("out_channels", 1, kMaxChannels);
      node.bias = in.boolean("bias", false);
      break;
    case Op::batch_norm:
      node.eps = in.number("eps", 1e-5);
      if (node.eps < 0) in.fail("eps", "must not be negative, got " + shown(in.value("eps")));
      break;
    case Op::leaky_relu:
      node.negative_slope = in.number("negative_slope", 0.01);
      break;
    case Op::max_pool:
      node.implicit_zero = in.boolean("implicit_zero", false);
      [[fallthrough]];
    case Op::avg_pool:
    case Op::sum_pool:
      read_geometry(in, node);
      break;
    case Op::devoxelize:
      if (in.has("mode")) {
        const std::string mode = in.text("mode");
        if (mode != "nearest" && mode != "trilinear") {
          in.fail("mode", "expected nearest or trilinear, got " + shown(in.value("mode")));
        }
        node.trilinear = mode == "trilinear";
      }
      break;
    case Op::merge:
      read_scales(in, node);
      break;
    default:
      break;
  }
}

Node read_node(const json& object, std::size_t index) {
  JsonReader unnamed(object, base::concat("node ", index));
  Node node;
  node.name = unnamed.text("name");
  JsonReader in(object, "node '" + node.name + "'");
  in.has("name");
  if (node.name.empty() || node.name == "input" || node.name == "." || node.name == ".." ||
      node.name.find('/') != std::string::npos || node.name.find('\0') != std::string::npos) {
    in.fail("name", "must not be empty, 'input', '.', '..' or contain '/' or a zero byte");
  }
  try {
    node.op = parse_op(in.text("op"));
  } catch (const base::Error& error) {
    in.fail("", error.what());
  }
  node.inputs = in.texts("inputs");
  read_op_keys(in, node);
  in.require_no_other_keys();
  return node;
}

template <std::size_t N>
std::array<double, N> array_of(const std::vector<double>& values) {
  std::array<double, N> result{};
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

ModelInput read_input(const json& object) {
  JsonReader in(object, "model input");
  ModelInput input;
  input.features = in.texts("features");
  input.voxel_size = array_of<3>(in.numbers("voxel_size", 3));
  if (in.has("range")) input.range = array_of<6>(in.numbers("range", 6));
  if (in.has("spatial_shape")) {
    const auto shape = in.triple("spatial_shape", 1, kAxisMax + 1);
    input.spatial_shape = SpatialShape{shape[0], shape[1], shape[2]};
  }
  if (in.has("reduce")) {
    try {
      input.reduce = parse_reduce(in.text("reduce"));
    } catch (const base::Error& error) {
      in.fail("reduce", error.what());
    }
  }
  if (in.has("defaults")) {
    const json& defaults = in.value("defaults");
    JsonReader values(defaults, "model input: key 'defaults'");
    for (const auto& [feature, unused] : defaults.items()) {
      values.value(feature);
      input.defaults[feature] = values.number(feature, 0);
    }
  }
  in.require_no_other_keys();
  return input;
}

std::vector<std::int64_t> read_class_ids(JsonReader& in, std::size_t classes) {
  std::vector<std::int64_t> ids;
  if (!in.has("class_ids")) {
    for (std::size_t i = 0; i < classes; ++i) ids.push_back(static_cast<std::int64_t>(i));
    return ids;
  }
  const json& list = in.value("class_ids");
  if (!list.is_array()) in.fail("class_ids", "expected a list of integers, got " + shown(list));
  for (const json& entry : list) {
    const json one{{"class_ids", entry}};
    ids.push_back(JsonReader(one, "model")
                      .integer("class_ids", std::numeric_limits<std::int32_t>::min(),
                               std::numeric_limits<std::int32_t>::max()));
  }
  return ids;
}

ordered_json json_of(const Node& node) {
  ordered_json out{{"name", node.name}, {"op", name(node.op)}, {"inputs", node.inputs}};
  const auto geometry = [&] {
    out["kernel"] = node.geometry.kernel;
    if (!node.submanifold) {
      out["stride"] = node.geometry.stride;
      out["padding"] = node.geometry.padding;
    }
    if (node.geometry.dilation != std::array<int, 3>{1, 1, 1}) {
      out["dilation"] = node.geometry.dilation;
    }
  };
  switch (node.op) {
    case Op::conv:
    case Op::conv_transpose:
      if (node.submanifold) out["submanifold"] = true;
      geometry();
      if (node.groups != 1) out["groups"] = node.groups;
      break;
    case Op::inverse_conv:
      out["pair"] = node.pair;
      if (node.geometry.kernel[0] != 0) out["kernel"] = node.geometry.kernel;
      break;
    case Op::batch_norm:
      out["eps"] = node.eps;
      break;
    case Op::leaky_relu:
      out["negative_slope"] = node.negative_slope;
      break;
    case Op::max_pool:
    case Op::avg_pool:
    case Op::sum_pool:
      geometry();
      if (node.implicit_zero) out["implicit_zero"] = true;
      break;
    case Op::devoxelize:
      out["mode"] = node.trilinear ? "trilinear" : "nearest";
      break;
    case Op::merge:
      out["scales"] = node.scales;
      break;
    default:
      break;
  }
  if (node.out_channels > 0) {
    out["out_channels"] = node.out_channels;
    out["bias"] = node.bias;
  }
  return out;
}

std::string_view name_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::mean:
      return "mean";
    case Reduce::sum:
      return "sum";
    case Reduce::max:
      return "max";
    case Reduce::first:
      return "first";
  }
  return "mean";
}

}  // namespace

Model parse_model_graph(const std::string& json_text) {
  json document;
  try {
    document = json::parse(json_text);
  } catch (const json::parse_error& error) {
    base::fail("model graph: not valid JSON at byte ", error.byte);
  } catch (const json::out_of_range&) {
    base::fail("model graph: not valid JSON: a number is too large");
  }
  JsonReader in(document, "model");
  Model model;
  if (in.has("name")) model.name = in.text("name");
  model.input = read_input(in.value("input"));
  const json& nodes = in.value("nodes");
  if (!nodes.is_array()) in.fail("nodes", "expected a list of nodes, got " + shown(nodes));
  for (std::size_t i = 0; i < nodes.size(); ++i) model.nodes.push_back(read_node(nodes[i], i));
  model.outputs = in.texts("outputs");
  if (in.has("classes")) model.classes = in.texts("classes");
  model.class_ids = read_class_ids(in, model.classes.size());
  return model;
}

std::string model_graph_json(const Model& model) {
  ordered_json out{{"name", model.name}};
  ordered_json input{{"features", model.input.features}, {"voxel_size", model.input.voxel_size}};
  input["range"] = nullptr;
  if (model.input.range) input["range"] = *model.input.range;
  input["spatial_shape"] = nullptr;
  if (model.input.spatial_shape) input["spatial_shape"] = *model.input.spatial_shape;
  input["reduce"] = name_of(model.input.reduce);
  if (!model.input.defaults.empty()) input["defaults"] = model.input.defaults;
  out["input"] = input;
  out["nodes"] = ordered_json::array();
  for (const Node& node : model.nodes) out["nodes"].push_back(json_of(node));
  out["outputs"] = model.outputs;
  if (!model.classes.empty()) {
    out["classes"] = model.classes;
    out["class_ids"] = model.class_ids;
  }
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace sparseconv

#include "apps/info/describe.hpp"
#include "sparseconv/model.hpp"

namespace apps {
namespace {

using sparseconv::Node, sparseconv::Op;

std::int64_t parameters_of(const Node& node) {
  std::int64_t count = 0;
  for (const auto& [name, weight] : node.weights) {
    if (!name.starts_with("running_")) count += weight.numel();
  }
  return count;
}

// Multiply-adds of one output row with every tap present: an upper bound, since sparse rows lack
// most neighbours.
std::int64_t macs_per_row(const Node& node) {
  const auto weight = node.weights.find("weight");
  const bool multiplies = node.op == Op::conv || node.op == Op::inverse_conv ||
                          node.op == Op::conv_transpose || node.op == Op::linear;
  return multiplies && weight != node.weights.end() ? weight->second.numel() : 0;
}

}  // namespace

Json describe_model(const std::filesystem::path& path) {
  sparseconv::Model model = sparseconv::load_model(path);
  const auto channels = sparseconv::validate(model);
  Json nodes = Json::array();
  std::int64_t macs = 0, convolutions = 0;
  for (const Node& node : model.nodes) {
    Json entry{{"name", node.name},
               {"op", std::string(sparseconv::name(node.op))},
               {"inputs", node.inputs},
               {"channels", channels.at(node.name)},
               {"parameters", parameters_of(node)}};
    if (const std::int64_t row = macs_per_row(node); row > 0) {
      entry["macs_per_row"] = row;
      macs += row;
      ++convolutions;
    }
    if (node.op == Op::conv || node.op == Op::conv_transpose || node.op == Op::inverse_conv) {
      entry["kernel"] = node.geometry.kernel;
      entry["stride"] = node.geometry.stride;
      entry["submanifold"] = node.submanifold;
    }
    nodes.push_back(std::move(entry));
  }
  const auto& input = model.input;
  return {{"path", text_of(path)},
          {"format", "model"},
          {"name", model.name},
          {"input",
           {{"features", input.features},
            {"voxel_size", input.voxel_size},
            {"range", input.range ? Json(*input.range) : Json(nullptr)},
            {"spatial_shape", input.spatial_shape ? Json(*input.spatial_shape) : Json(nullptr)}}},
          {"outputs", model.outputs},
          {"classes", model.classes},
          {"class_ids", model.class_ids},
          {"parameters", model.parameters()},
          {"convolutions", convolutions},
          {"macs_per_row", macs},
          {"nodes", std::move(nodes)}};
}

}  // namespace apps

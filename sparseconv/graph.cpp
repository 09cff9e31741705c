#include "sparseconv/graph.hpp"

#include <algorithm>
#include <map>

namespace sparseconv {
namespace {

using detail::index_by_name;
using detail::index_of_input;
using detail::index_of_pair;

class Analysis {
 public:
  explicit Analysis(const Model& model) : model_(model), index_(index_by_name(model)) {
    info_.levels.push_back({});
  }

  GraphInfo run() {
    check_input();
    for (const Node& node : model_.nodes) add_node(node);
    check_outputs();
    return std::move(info_);
  }

 private:
  template <class... Parts>
  static void require(bool condition, const Node& node, const Parts&... parts) {
    if (!condition) base::fail("node '", node.name, "': ", parts...);
  }

  void check_input() const {
    const ModelInput& input = model_.input;
    ENSURE(!input.features.empty(), "model input: key 'features': there must be at least one");
    for (std::size_t i = 0; i < input.features.size(); ++i) {
      const auto end = input.features.begin() + static_cast<std::ptrdiff_t>(i);
      ENSURE(std::find(input.features.begin(), end, input.features[i]) == end,
             "model input: key 'features': '", input.features[i], "' occurs twice");
    }
    for (std::size_t axis = 0; axis < 3; ++axis) {
      ENSURE(input.voxel_size[axis] > 0, "model input: key 'voxel_size': ", input.voxel_size[axis],
             " on axis ", "xyz"[axis], " is not positive");
      if (!input.range) continue;
      ENSURE((*input.range)[axis] < (*input.range)[axis + 3],
             "model input: key 'range': ", (*input.range)[axis], " is not below ",
             (*input.range)[axis + 3], " on axis ", "xyz"[axis]);
    }
  }

  void check_outputs() const {
    ENSURE(!model_.outputs.empty(), "model: key 'outputs': there must be at least one");
    std::map<std::string, int> seen;
    for (const auto& output : model_.outputs) {
      ENSURE(index_.count(output) > 0, "model: output '", output, "' is no node of the graph");
      ENSURE(seen[output]++ == 0, "model: output '", output, "' is listed twice");
    }
    ENSURE(model_.class_ids.size() == model_.classes.size(), "model: ", model_.class_ids.size(),
           " class_ids for ", model_.classes.size(), " classes");
  }

  std::int64_t channels_of(int value) const {
    if (value == kModelInput) return model_.in_channels();
    return info_.channels[static_cast<std::size_t>(value)];
  }
  int level_of(int value) const {
    return value == kModelInput ? 0 : info_.level[static_cast<std::size_t>(value)];
  }

  // The level with these properties, new or known.
  int level(const Level& wanted) {
    for (std::size_t i = 1; i < info_.levels.size(); ++i) {
      const Level& known = info_.levels[i];
      if (known.kind == wanted.kind && known.source == wanted.source &&
          known.geometry == wanted.geometry && known.parts == wanted.parts) {
        return static_cast<int>(i);
      }
    }
    info_.levels.push_back(wanted);
    return static_cast<int>(info_.levels.size()) - 1;
  }

  void add_node(const Node& node) {
    std::vector<int> inputs;
    for (const auto& input : node.inputs) inputs.push_back(index_of_input(index_, node, input));
    const bool takes_several = node.op == Op::add || node.op == Op::concat || node.op == Op::merge;
    const std::size_t fewest = node.op == Op::add ? 2 : 1;
    require(takes_several ? inputs.size() >= fewest : inputs.size() == 1, node, name(node.op),
            " takes ", takes_several ? "at least " : "", fewest, " input(s), got ", inputs.size());
    for (const int input : inputs) {
      require(level_of(input) != kDense, node, "its input '",
              model_.nodes[static_cast<std::size_t>(std::max(input, 0))].name,
              "' is dense; to_dense can only be an output");
    }
    info_.inputs.push_back(inputs);
    info_.pair.push_back(node.op == Op::inverse_conv ? index_of_pair(index_, node) : -1);
    info_.channels.push_back(channels_of(inputs[0]));
    info_.level.push_back(level_of(inputs[0]));
    switch (node.op) {
      case Op::conv:
      case Op::conv_transpose:
        add_convolution(node);
        break;
      case Op::inverse_conv:
        add_inverse(node);
        break;
      case Op::max_pool:
      case Op::avg_pool:
      case Op::sum_pool:
        check_geometry(node);
        info_.level.back() =
            level({Level::Kind::strided, info_.level.back(), node.geometry, {}, node.name});
        break;
      case Op::linear:
        info_.channels.back() = checked_out_channels(node);
        break;
      case Op::add:
      case Op::concat:
        add_joint(node);
        break;
      case Op::merge:
        add_merge(node);
        break;
      case Op::global_max_pool:
      case Op::global_avg_pool:
        require_coordinates(node);
        info_.level.back() = level({Level::Kind::global, info_.level.back(), {}, {}, node.name});
        break;
      case Op::to_dense:
        require_coordinates(node);
        info_.level.back() = kDense;
        break;
      case Op::devoxelize:
        add_devoxelize(node);
        break;
      case Op::batch_norm:
      case Op::relu:
      case Op::leaky_relu:
      case Op::sigmoid:
        break;
    }
  }

  void require_coordinates(const Node& node) const {
    const int source = info_.level.back();
    require(info_.levels[static_cast<std::size_t>(source)].kind != Level::Kind::points, node,
            name(node.op), " needs voxels, its input '", node.inputs[0], "' has one row a point");
  }

  void check_geometry(const Node& node) const {
    require_coordinates(node);
    node.geometry.check(("node '" + node.name + "'").c_str());
  }

  std::int64_t checked_out_channels(const Node& node) const {
    require(node.out_channels >= 1, node, "out_channels must be at least 1, got ",
            node.out_channels);
    return node.out_channels;
  }

  void add_convolution(const Node& node) {
    check_geometry(node);
    const std::int64_t in = info_.channels.back(), out = checked_out_channels(node);
    require(node.groups >= 1 && in % node.groups == 0 && out % node.groups == 0, node,
            "groups = ", node.groups, " must divide its ", in, " input and ", out,
            " output channels");
    info_.channels.back() = out;
    if (node.submanifold) {
      require(
          node.geometry == ConvGeometry::submanifold(node.geometry.kernel, node.geometry.dilation),
          node, "a submanifold convolution has an odd kernel and stride 1, got ",
          to_string(node.geometry));
      return;
    }
    const auto kind = node.op == Op::conv ? Level::Kind::strided : Level::Kind::generative;
    info_.level.back() = level({kind, info_.level.back(), node.geometry, {}, node.name});
  }

  void add_inverse(const Node& node) {
    const auto pair_index = static_cast<std::size_t>(info_.pair.back());
    const Node& pair = model_.nodes[pair_index];
    require(pair.op == Op::conv && !pair.submanifold, node, "its pair '", pair.name, "' is ",
            pair.submanifold ? "a submanifold convolution" : std::string(name(pair.op)),
            ", not a strided convolution");
    require(node.geometry.kernel[0] == 0 || node.geometry.kernel == pair.geometry.kernel, node,
            "kernel ", shape_of(node), " differs from the kernel ", shape_of(pair),
            " of its pair '", pair.name, "'");
    require(info_.level.back() == info_.level[pair_index], node, "its input '", node.inputs[0],
            "' does not stand on the coordinates that its pair '", pair.name, "' produced");
    info_.channels.back() = checked_out_channels(node);
    info_.level.back() = level_of(info_.inputs[pair_index][0]);
  }

  static std::string shape_of(const Node& node) {
    const auto& k = node.geometry.kernel;
    return base::concat("[", k[0], ", ", k[1], ", ", k[2], "]");
  }

  void add_joint(const Node& node) {
    const auto& inputs = info_.inputs.back();
    std::int64_t total = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::int64_t channels = channels_of(inputs[i]);
      total += channels;
      require(node.op == Op::concat || channels == channels_of(inputs[0]), node, "adds '",
              node.inputs[0], "' with ", channels_of(inputs[0]), " channels and '", node.inputs[i],
              "' with ", channels);
      const int first = level_of(inputs[0]), other = level_of(inputs[i]);
      if (first == other) continue;
      const auto is_points = [&](int l) {
        return info_.levels[static_cast<std::size_t>(l)].kind == Level::Kind::points;
      };
      require(is_points(first) == is_points(other), node, "joins '", node.inputs[0], "' and '",
              node.inputs[i], "': one has a row a point, the other a row a voxel");
      info_.checks.push_back({node.name, first, other});
    }
    if (node.op == Op::concat) info_.channels.back() = total;
  }

  void add_merge(const Node& node) {
    const auto& inputs = info_.inputs.back();
    require(node.scales.size() == inputs.size(), node, node.scales.size(), " scales for ",
            inputs.size(), " inputs");
    Level merged{Level::Kind::merged, -1, {}, {}, node.name};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      require(channels_of(inputs[i]) == channels_of(inputs[0]), node, "merges '", node.inputs[0],
              "' with ", channels_of(inputs[0]), " channels and '", node.inputs[i], "' with ",
              channels_of(inputs[i]));
      require(
          info_.levels[static_cast<std::size_t>(level_of(inputs[i]))].kind != Level::Kind::points,
          node, "its input '", node.inputs[i], "' has one row a point");
      merged.parts.push_back({level_of(inputs[i]), node.scales[i]});
    }
    info_.level.back() = level(merged);
  }

  void add_devoxelize(const Node& node) {
    for (int l = info_.level.back(); l != 0;) {
      const Level& at = info_.levels[static_cast<std::size_t>(l)];
      require(at.kind != Level::Kind::points && at.kind != Level::Kind::merged, node, "its input '",
              node.inputs[0], "' has ",
              at.kind == Level::Kind::points ? "a row a point" : "merged rows",
              "; devoxelize needs voxels whose place among the points is known");
      l = at.kind == Level::Kind::global ? 0 : at.source;
    }
    info_.level.back() = level({Level::Kind::points, 0, {}, {}, node.name});
  }

  const Model& model_;
  std::map<std::string, int> index_;
  GraphInfo info_;
};

}  // namespace

GraphInfo analyse_graph(const Model& model) { return Analysis(model).run(); }

}  // namespace sparseconv

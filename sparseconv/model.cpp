#include "sparseconv/model.hpp"

#include <array>

namespace sparseconv {
namespace {

struct OpName {
  Op op;
  std::string_view text;
};
constexpr std::array kOpNames{
    OpName{Op::conv, "conv"},
    OpName{Op::inverse_conv, "inverse_conv"},
    OpName{Op::conv_transpose, "conv_transpose"},
    OpName{Op::linear, "linear"},
    OpName{Op::batch_norm, "batch_norm"},
    OpName{Op::relu, "relu"},
    OpName{Op::leaky_relu, "leaky_relu"},
    OpName{Op::sigmoid, "sigmoid"},
    OpName{Op::add, "add"},
    OpName{Op::concat, "concat"},
    OpName{Op::max_pool, "max_pool"},
    OpName{Op::avg_pool, "avg_pool"},
    OpName{Op::sum_pool, "sum_pool"},
    OpName{Op::global_max_pool, "global_max_pool"},
    OpName{Op::global_avg_pool, "global_avg_pool"},
    OpName{Op::to_dense, "to_dense"},
    OpName{Op::devoxelize, "devoxelize"},
    OpName{Op::merge, "merge"},
};

}  // namespace

std::string_view name(Op op) {
  for (const auto& entry : kOpNames) {
    if (entry.op == op) return entry.text;
  }
  return "unknown";
}

Op parse_op(std::string_view text) {
  for (const auto& entry : kOpNames) {
    if (entry.text == text) return entry.op;
  }
  std::string known;
  for (const auto& entry : kOpNames) known += (known.empty() ? "" : ", ") + std::string(entry.text);
  base::fail("unknown op '", text, "' (known: ", known, ")");
}

const Node& Model::node(const std::string& node_name) const {
  for (const Node& candidate : nodes) {
    if (candidate.name == node_name) return candidate;
  }
  base::fail("model '", name, "': there is no node '", node_name, "'");
}

std::int64_t Model::parameters() const {
  std::int64_t count = 0;
  for (const Node& entry : nodes) {
    for (const auto& [parameter, tensor] : entry.weights) count += tensor.numel();
  }
  return count;
}

VoxelizeOptions voxelize_options(const ModelInput& input) {
  VoxelizeOptions options;
  options.voxel_size = input.voxel_size;
  options.range = input.range;
  options.spatial_shape = input.spatial_shape;
  options.reduce = input.reduce;
  options.features = input.features;
  options.defaults = input.defaults;
  return options;
}

}  // namespace sparseconv

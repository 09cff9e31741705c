// A network as data: the graph of a model file (docs/model_file.md) and its weights. Loading checks
// everything that can be checked without an input: ops, inputs, shapes of weights, classes. Errors
// name the node and the numbers.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gemm_core/base/tensor.hpp"
#include "sparseconv/conv_geometry.hpp"
#include "sparseconv/voxelize.hpp"

namespace sparseconv {

enum class Op : std::uint8_t {
  conv,
  inverse_conv,
  conv_transpose,
  linear,
  batch_norm,
  relu,
  leaky_relu,
  sigmoid,
  add,
  concat,
  max_pool,
  avg_pool,
  sum_pool,
  global_max_pool,
  global_avg_pool,
  to_dense,
  devoxelize,
  merge,
};
std::string_view name(Op op);
Op parse_op(std::string_view text);

struct Node {
  std::string name;
  Op op = Op::conv;
  std::vector<std::string> inputs;  // names of nodes, or "input"
  // conv, conv_transpose, pools
  ConvGeometry geometry;  // with submanifold: padding already set
  bool submanifold = false;
  std::int64_t out_channels = 0, groups = 1;
  bool bias = false;
  std::string pair;  // inverse_conv
  double eps = 1e-5, negative_slope = 0.01;
  bool trilinear = false;                  // devoxelize
  bool implicit_zero = false;              // max_pool: also compares with 0, as spconv does
  std::vector<std::array<int, 3>> scales;  // merge: one an input; coordinates are multiplied by it
  std::map<std::string, base::Tensor>
      weights;  // "weight", "bias", "running_mean", "running_var": f32, CPU
};

struct ModelInput {
  std::vector<std::string> features;
  std::array<double, 3> voxel_size{0.1, 0.1, 0.1};
  std::optional<std::array<double, 6>> range;
  std::optional<SpatialShape> spatial_shape;
  Reduce reduce = Reduce::mean;
  std::map<std::string, double> defaults;
};

// How points become the voxels that a model takes.
VoxelizeOptions voxelize_options(const ModelInput& input);

struct Model {
  std::string name;
  ModelInput input;
  std::vector<Node> nodes;  // in topological order after validation
  std::vector<std::string> outputs;
  std::vector<std::string> classes;
  std::vector<std::int64_t> class_ids;  // as many as classes

  std::int64_t in_channels() const { return static_cast<std::int64_t>(input.features.size()); }
  const Node& node(const std::string& node_name) const;
  std::int64_t parameters() const;
};

// Channels of every node's output and checks of every weight; sorts nodes topologically. Throws
// naming the node.
std::map<std::string, std::int64_t> validate(Model& model);

// The parameters that a node with `in_channels` inputs stores, and the shape of each: what weight
// files must hold.
std::map<std::string, base::Dims> parameter_shapes(const Node& node, std::int64_t in_channels);

Model parse_model_graph(const std::string& json_text);  // graph only, no weights yet
std::string model_graph_json(const Model& model);
Model load_model(const std::filesystem::path& path);  // validated
void save_model(const std::filesystem::path& path, const Model& model,
                base::DType weights = base::DType::f32);

// Built-in architectures (docs/NETWORKS in docs/architectures.md): minkunet14/18/34/42, spunet,
// second, voxelresnet8x, centerpoint, voxelnext.
struct ArchitectureOptions {
  std::int64_t in_channels = 4;
  std::vector<std::string> classes;  // {} = 20 classes class0..
  double width = 1.0;
  std::uint64_t seed = 0;
  double voxel_size = 0.1;
};
std::vector<std::string> architecture_names();
Model build_architecture(const std::string& name,
                         const ArchitectureOptions& options);  // seeded weights

}  // namespace sparseconv

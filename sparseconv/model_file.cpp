// Model files: the graph as JSON and the weights as HDF5 datasets (docs/model_file.md).
#include "sparseconv/model_file.hpp"

#include "sparseconv/graph.hpp"

namespace sparseconv {
namespace {

constexpr std::int64_t kModelVersion = 1;

void check_header(const io::Hdf5Reader& file) {
  ENSURE(file.has_attribute("/", "sparseconv_model"),
         "not a model file: it has no attribute sparseconv_model");
  const auto version = file.attribute_numbers("/", "sparseconv_model");
  ENSURE(version.size() == 1 && version[0] == static_cast<double>(kModelVersion),
         "attribute sparseconv_model is ", version.empty() ? 0.0 : version[0],
         ", this version reads ", kModelVersion);
  ENSURE(file.has("/graph"), "the model file has no dataset /graph");
}

// Every dataset under /weights belongs to a node of the graph: a weight that no node takes is a
// mistake in one of them.
void read_weights(const io::Hdf5Reader& file, Model& model) {
  std::map<std::string, Node*> nodes;
  for (Node& node : model.nodes) nodes[node.name] = &node;
  const std::string prefix = "/weights/";
  for (const auto& dataset : file.datasets()) {
    if (dataset.path.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string rest = dataset.path.substr(prefix.size());
    const auto slash = rest.find('/');
    ENSURE(slash != std::string::npos && rest.find('/', slash + 1) == std::string::npos, "dataset ",
           dataset.path, ": weights stand at /weights/<node>/<parameter>");
    const std::string node_name = rest.substr(0, slash), parameter = rest.substr(slash + 1);
    if (parameter == "num_batches_tracked") continue;  // of training frameworks; no parameter
    const auto node = nodes.find(node_name);
    ENSURE(node != nodes.end(), "dataset ", dataset.path, ": the graph has no node '", node_name,
           "'");
    const bool is_float =
        dataset.numeric && (dataset.type == base::DType::f32 || dataset.type == base::DType::f16);
    ENSURE(is_float, "node '", node_name, "': ", parameter, " is stored as ", dataset.type_name,
           ", expected float32 or float16");
    ENSURE(dataset.shape.size() <= static_cast<std::size_t>(base::Dims::kMaxRank), "node '",
           node_name, "': ", parameter, " has ", dataset.shape.size(), " axes");
    node->second->weights[parameter] = file.read_tensor(dataset.path).to(base::DType::f32);
  }
}

}  // namespace

Model load_model(const std::filesystem::path& path) {
  const io::Hdf5Reader file(path);
  check_header(file);
  Model model = parse_model_graph(file.read_text("/graph"));
  sort_nodes(model);
  analyse_graph(model);  // before the weights, which may be large
  read_weights(file, model);
  validate(model);
  return model;
}

void write_model(io::Hdf5Writer& file, const Model& model, base::DType weights) {
  ENSURE(weights == base::DType::f32 || weights == base::DType::f16,
         "save_model: weights are stored as float32 or float16, not ", base::name(weights));
  Model checked = model;
  validate(checked);
  file.set_attribute("/", "sparseconv_model", kModelVersion);
  file.write_text("/graph", model_graph_json(checked));
  file.create_group("/weights");
  for (const Node& node : checked.nodes) {
    for (const auto& [parameter, tensor] : node.weights) {
      file.write_tensor("/weights/" + node.name + "/" + parameter, tensor.to(weights));
    }
  }
}

void save_model(const std::filesystem::path& path, const Model& model, base::DType weights) {
  io::Hdf5Writer file(path);
  write_model(file, model, weights);
  file.commit(io::Hdf5Writer::Commit::synced);
}

}  // namespace sparseconv

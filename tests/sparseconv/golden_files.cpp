#include "tests/sparseconv/golden_files.hpp"

#include <algorithm>

#include "sparseconv/engine.hpp"
#include "tests/support/rows_of.hpp"

namespace golden {
namespace {

using namespace sparseconv;

std::vector<Coord> read_coords(const io::Hdf5Reader& file, const std::string& path) {
  const auto values = file.read<std::int32_t>(path);
  std::vector<Coord> coords;
  for (std::size_t i = 0; i + 3 < values.size(); i += 4) {
    coords.push_back({values[i], values[i + 1], values[i + 2], values[i + 3]});
  }
  return coords;
}

SparseTensor read_input(const io::Hdf5Reader& file, const std::string& datasets,
                        const std::string& attributes) {
  Coordinates::Options options;
  options.batch_size =
      static_cast<std::int32_t>(file.attribute_numbers(attributes, "batch_size").at(0));
  if (file.has_attribute(attributes, "spatial_shape")) {
    const auto shape = file.attribute_numbers(attributes, "spatial_shape");
    options.spatial_shape =
        SpatialShape{static_cast<std::int64_t>(shape.at(0)), static_cast<std::int64_t>(shape.at(1)),
                     static_cast<std::int64_t>(shape.at(2))};
  }
  return {Coordinates::create(read_coords(file, datasets + "/coordinates"), options),
          file.read_tensor(datasets + "/features").to(base::DType::f32)};
}

Case read_layer_case(const io::Hdf5Reader& file, const std::string& group) {
  Case layer;
  layer.name = group;
  layer.input = read_input(file, group + "/input", group);
  std::string features;
  for (std::int64_t c = 0; c < layer.input.channels(); ++c) {
    features += (c == 0 ? "\"c" : ", \"c") + std::to_string(c) + "\"";
  }
  layer.model = parse_model_graph("{\"input\": {\"features\": [" + features +
                                  "], \"voxel_size\": [1, 1, 1]}, \"outputs\": [\"layer\"], "
                                  "\"nodes\": " +
                                  file.attribute_text(group, "nodes") + "}");
  for (Node& node : layer.model.nodes) {
    const std::string weights = group + "/weights/" + node.name;
    if (!file.has(weights)) continue;
    for (const auto& parameter : file.children(weights)) {
      node.weights[parameter] = file.read_tensor(weights + "/" + parameter).to(base::DType::f32);
    }
  }
  layer.outputs.push_back({"layer",
                           {read_coords(file, group + "/output/coordinates"),
                            file.read<float>(group + "/output/features")},
                           {},
                           {}});
  return layer;
}

}  // namespace

bool is_layer_file(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) && path.extension() == ".h5";
}

bool is_network_folder(const std::filesystem::path& path) {
  return std::filesystem::exists(path / "model.h5") && std::filesystem::exists(path / "input.h5") &&
         std::filesystem::exists(path / "expected.h5");
}

std::vector<Case> read_layer_cases(const std::filesystem::path& path) {
  const io::Hdf5Reader file(path);
  std::vector<Case> cases;
  for (const auto& group : file.children("/")) cases.push_back(read_layer_case(file, "/" + group));
  return cases;
}

Case read_network(const std::filesystem::path& folder) {
  Case network;
  network.model = load_model(folder / "model.h5");
  network.input = read_input(io::Hdf5Reader(folder / "input.h5"), "", "/");
  const io::Hdf5Reader file(folder / "expected.h5");
  for (const auto& node : file.children("/outputs")) {
    const std::string group = "/outputs/" + node;
    Expected expected{node, {}, {}, {}};
    if (file.has(group + "/dense")) {
      expected.dense = file.read<float>(group + "/dense");
      expected.dense_shape = file.dataset(group + "/dense").shape;
    } else {
      expected.rows = {read_coords(file, group + "/coordinates"),
                       file.read<float>(group + "/features")};
    }
    network.outputs.push_back(std::move(expected));
  }
  return network;
}

testing::AssertionResult matches(const Output& got, const Expected& expected, double relative) {
  if (expected.dense_shape.empty())
    return rows_near(test_support::rows_of(got.sparse), expected.rows, relative);
  base::Dims shape;
  for (const auto extent : expected.dense_shape) shape.push_back(extent);
  if (!(got.dense.shape() == shape)) {
    return testing::AssertionFailure() << "dense output " << base::to_string(got.dense.shape())
                                       << ", expected " << base::to_string(shape);
  }
  return test_support::all_near(got.dense.data<float>(), expected.dense.data(),
                                expected.dense.size(), relative);
}

double largest_activation(const Case& network) {
  Model all = network.model;
  all.outputs.clear();
  for (const Node& node : all.nodes) all.outputs.push_back(node.name);
  const Result result = Engine(std::move(all), {.threads = 2}).run(network.input);
  double largest = 0;
  for (const Output& output : result.outputs) {
    const base::Tensor& values = output.dense.defined() ? output.dense : output.sparse.features;
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      largest = std::max(largest, std::abs(double{values.data<float>()[i]}));
    }
  }
  return largest;
}

}  // namespace golden

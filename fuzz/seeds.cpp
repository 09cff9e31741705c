// Writes small files to start the fuzz targets from: every writable format into DIR/<format>/,
// voxels into DIR/voxels/, a model and its graph into DIR/model/.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "io/io.h"
#include "sparseconv/initialise.hpp"
#include "sparseconv/model.hpp"
#include "sparseconv/voxel_file.hpp"

namespace {

namespace fs = std::filesystem;

io::Cloud seed_cloud() {
  io::Cloud cloud;
  const float x[] = {1.5f, 3, -6.5f, 0}, y[] = {-2.25f, 4, 7.75f, 0}, z[] = {0.5f, -5, 8, 0},
              intensity[] = {0.1f, 0.2f, 0.3f, 0};
  const std::uint8_t colour[] = {1, 200, 30, 4};
  const std::uint16_t label[] = {1, 7, 9, 0};
  cloud.add<float>("x", x);
  cloud.add<float>("y", y);
  cloud.add<float>("z", z);
  cloud.add<float>("intensity", intensity);
  for (const char* name : {"r", "g", "b"}) cloud.add<std::uint8_t>(name, colour);
  cloud.add<std::uint16_t>("label", label);
  return cloud;
}

fs::path seed_folder(const fs::path& root, const std::string& name) {
  fs::create_directories(root / name);
  return root / name;
}

void write_clouds(const fs::path& root) {
  const io::Cloud cloud = seed_cloud();
  for (const io::FormatInfo& format : io::formats()) {
    if (!format.writable) continue;
    const fs::path folder = seed_folder(root, format.name);
    int number = 0;
    for (const io::WriteOptions& options : {io::WriteOptions{}, io::WriteOptions{.ascii = true},
                                            io::WriteOptions{.compressed = true}}) {
      io::write(folder / ("seed" + std::to_string(number++) + format.extensions.front()), cloud,
                options);
    }
  }
  std::ofstream(seed_folder(root, "ptx") / "seed0.ptx")
      << "2\n1\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n1 0 0 0\n0 1 0 0\n0 0 1 0\n2 3 4 1\n1 2 3 0.5 9 8 7\n4 "
         "5 6 0.25 1 2 3\n";
}

void write_voxels(const fs::path& root) {
  sparseconv::VoxelFile voxels;
  voxels.tensor.coordinates = sparseconv::Coordinates::create(
      {{0, 0, 0, 0}, {0, 1, 2, 3}, {1, 4, 4, 4}}, {.batch_size = 2, .spatial_shape = {{8, 8, 8}}});
  voxels.tensor.features = base::Tensor::empty({3, 2}, base::DType::f32);
  for (std::int64_t i = 0; i < 6; ++i)
    voxels.tensor.features.data<float>()[i] = static_cast<float>(i);
  voxels.voxel_size = {0.1, 0.1, 0.1};
  voxels.feature_names = {"x", "intensity"};
  voxels.point_to_voxel = {0, 1, -1, 2};
  voxels.labels = {1, 2, 3};
  sparseconv::write_voxel_file(seed_folder(root, "voxels") / "seed0.h5", voxels);
}

void write_models(const fs::path& root) {
  sparseconv::Model model = sparseconv::parse_model_graph(R"({
    "name": "seed",
    "input": {"features": ["x", "one"], "voxel_size": [0.1, 0.1, 0.1], "range": null,
              "spatial_shape": [64, 64, 8], "reduce": "mean", "defaults": {"one": 1}},
    "nodes": [
      {"name": "a", "op": "conv", "inputs": ["input"], "submanifold": true, "kernel": [3, 3, 3], "out_channels": 2},
      {"name": "n", "op": "batch_norm", "inputs": ["a"], "eps": 1e-5},
      {"name": "r", "op": "leaky_relu", "inputs": ["n"], "negative_slope": 0.1},
      {"name": "d", "op": "conv", "inputs": ["r"], "kernel": [2, 2, 2], "stride": [2, 2, 2], "padding": [0, 0, 0],
       "out_channels": 3, "bias": true},
      {"name": "p", "op": "max_pool", "inputs": ["d"], "kernel": [2, 2, 2]},
      {"name": "u", "op": "inverse_conv", "inputs": ["d"], "pair": "d", "kernel": [2, 2, 2],
       "out_channels": 2},
      {"name": "c", "op": "concat", "inputs": ["u", "r"]},
      {"name": "h", "op": "linear", "inputs": ["c"], "out_channels": 2, "bias": true},
      {"name": "g", "op": "to_dense", "inputs": ["p"]}],
    "outputs": ["h", "g"], "classes": ["near", "far"], "class_ids": [3, 9]})");
  sparseconv::initialise_weights(model, 1);
  const fs::path folder = seed_folder(root, "model");
  std::ofstream(folder / "graph.json") << sparseconv::model_graph_json(model);
  sparseconv::save_model(folder / "seed0.h5", model);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds DIR\n");
    return 2;
  }
  for (const auto& write : {write_clouds, write_voxels, write_models}) {
    try {
      write(argv[1]);
    } catch (const base::Error& error) {  // a build without HDF5
      std::fprintf(stderr, "%s\n", error.what());
    }
  }
  return 0;
}

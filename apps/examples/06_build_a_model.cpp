// A network of one's own: write the graph, give it weights, save it, run it.
#include <sparseconv/sparseconv.h>
#include <algorithm>
#include <io/simulator.hpp>
#include <iostream>
#include <random>

namespace {

// Random weights of the right shape; a trained network would bring its own.
base::Tensor random_weight(const base::Dims& shape) {
  static std::mt19937 random(1);
  std::normal_distribution<float> spread(0, 0.1f);
  auto tensor = base::Tensor::empty(shape, base::DType::f32);
  std::generate_n(tensor.data<float>(), tensor.numel(), [&] { return spread(random); });
  return tensor;
}

}  // namespace

int main() {
  sparseconv::Model model = sparseconv::parse_model_graph(R"({
    "name": "two_levels",
    "input": {"features": ["z", "intensity"], "voxel_size": [0.2, 0.2, 0.2]},
    "nodes": [
      {"name": "stem", "op": "conv", "inputs": ["input"], "submanifold": true, "kernel": [3,3,3], "out_channels": 8},
      {"name": "stem.relu", "op": "relu", "inputs": ["stem"]},
      {"name": "down", "op": "conv", "inputs": ["stem.relu"], "kernel": [2,2,2], "stride": [2,2,2], "out_channels": 16},
      {"name": "up", "op": "inverse_conv", "inputs": ["down"], "pair": "down", "out_channels": 8},
      {"name": "cat", "op": "concat", "inputs": ["up", "stem.relu"]},
      {"name": "head", "op": "linear", "inputs": ["cat"], "out_channels": 3}],
    "outputs": ["head"], "classes": ["ground", "building", "rest"]})");
  model.nodes[0].weights["weight"] = random_weight({8, 3, 3, 3, 2});  // [out, kx, ky, kz, in]
  model.nodes[2].weights["weight"] = random_weight({16, 2, 2, 2, 8});
  model.nodes[3].weights["weight"] = random_weight({8, 2, 2, 2, 16});
  model.nodes[5].weights["weight"] = random_weight({3, 16});
  sparseconv::validate(model);
  sparseconv::save_model("06_two_levels.h5", model);

  const io::Cloud cloud = io::Simulator({.sensor = "vlp16"}).frame(0);
  const sparseconv::Engine engine(sparseconv::load_model("06_two_levels.h5"));
  const auto labels = engine.run(cloud).labels();
  std::cout << model.parameters() << " parameters, " << labels.size() << " labels\n";
  return labels.size() == static_cast<std::size_t>(cloud.size()) ? 0 : 1;
}

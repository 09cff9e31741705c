// Models whose results can be worked out by hand.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "sparseconv/model.hpp"

namespace command_line {

// Class "far" (id 9) where intensity > 0.5, else "near" (id 3): two scores, +-(intensity - 0.5),
// from one linear node.
inline void write_threshold_model(const std::filesystem::path& path,
                                  const std::string& classes = R"(["near", "far"])") {
  sparseconv::Model model = sparseconv::parse_model_graph(
      R"({
    "name": "threshold",
    "input": {"features": ["intensity"], "voxel_size": [0.1, 0.1, 0.1]},
    "nodes": [{"name": "head", "op": "linear", "inputs": ["input"], "out_channels": 2, "bias": true}],
    "outputs": ["head"])" +
      (classes.empty() ? std::string() : ", \"class_ids\": [3, 9], \"classes\": " + classes) + "}");
  const auto tensor = [](std::vector<float> values, const base::Dims& shape) {
    auto filled = base::Tensor::empty(shape, base::DType::f32);
    std::copy(values.begin(), values.end(), filled.data<float>());
    return filled;
  };
  model.nodes[0].weights = {{"weight", tensor({-1, 1}, {2, 1})},
                            {"bias", tensor({0.5f, -0.5f}, {2})}};
  sparseconv::validate(model);
  sparseconv::save_model(path, model);
}

}  // namespace command_line

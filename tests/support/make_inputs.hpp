// Small random inputs and models, the same on every machine.
#pragma once
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "sparseconv/graph.hpp"
#include "sparseconv/model.hpp"
#include "sparseconv/sparse_tensor.hpp"

namespace test_support {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545f4914f6cdd1dull;
  }
  int below(int n) { return static_cast<int>((next() >> 33) % static_cast<std::uint64_t>(n)); }
  // Multiples of 1/64 in [-1, 1): exact in every dtype that tests use, so that only sums are
  // rounded.
  float value() { return static_cast<float>(below(128) - 64) / 64.0f; }

 private:
  std::uint64_t state_;
};

struct CloudSpec {
  sparseconv::SpatialShape shape{12, 10, 8};
  int per_thousand = 200;  // cells that are occupied
  std::int32_t batches = 2;
  std::int64_t channels = 4;
  bool bounded = true;
  bool shuffled = false;    // rows in no particular order
  std::int32_t offset = 0;  // added to every axis
  std::uint64_t seed = 1;
};

inline std::vector<sparseconv::Coord> random_coords(const CloudSpec& spec) {
  Random random(spec.seed);
  std::vector<sparseconv::Coord> coords;
  for (std::int32_t b = 0; b < spec.batches; ++b) {
    for (int x = 0; x < spec.shape[0]; ++x) {
      for (int y = 0; y < spec.shape[1]; ++y) {
        for (int z = 0; z < spec.shape[2]; ++z) {
          if (random.below(1000) >= spec.per_thousand) continue;
          coords.push_back({b, x + spec.offset, y + spec.offset, z + spec.offset});
        }
      }
    }
  }
  for (std::size_t i = coords.size(); spec.shuffled && i > 1; --i) {
    std::swap(coords[i - 1], coords[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
  }
  return coords;
}

inline base::Tensor random_features(std::int64_t rows, std::int64_t channels, std::uint64_t seed) {
  Random random(seed);
  auto features = base::Tensor::empty({rows, channels}, base::DType::f32);
  for (std::int64_t i = 0; i < features.numel(); ++i) features.data<float>()[i] = random.value();
  return features;
}

inline sparseconv::SparseTensor tensor_of(std::vector<sparseconv::Coord> coords,
                                          std::int64_t channels,
                                          const sparseconv::Coordinates::Options& options,
                                          std::uint64_t seed = 1) {
  const auto rows = static_cast<std::int64_t>(coords.size());
  return {sparseconv::Coordinates::create(std::move(coords), options),
          random_features(rows, channels, seed)};
}

inline sparseconv::SparseTensor random_tensor(const CloudSpec& spec) {
  sparseconv::Coordinates::Options options{.batch_size = spec.batches};
  if (spec.bounded) options.spatial_shape = spec.shape;
  return tensor_of(random_coords(spec), spec.channels, options, spec.seed);
}

// A model of the nodes given as JSON, over `channels` input features.
inline sparseconv::Model model_of(const std::string& nodes, std::int64_t channels,
                                  const std::string& outputs = "\"out\"") {
  std::string features;
  for (std::int64_t c = 0; c < channels; ++c)
    features += base::concat(c ? "," : "", "\"c", c, "\"");
  return sparseconv::parse_model_graph(base::concat(R"({"input": {"features": [)", features,
                                                    R"(], "voxel_size": [1, 1, 1]}, "nodes": [)",
                                                    nodes, R"(], "outputs": [)", outputs, "]}"));
}

// Weights of order 1 / sqrt(fan-in), multiples of 2^-12; variances in [1, 2).
inline void fill_weights(sparseconv::Model& model, std::uint64_t seed) {
  using namespace sparseconv;
  sort_nodes(model);
  const GraphInfo info = analyse_graph(model);
  Random random(seed);
  for (std::size_t i = 0; i < model.nodes.size(); ++i) {
    Node& node = model.nodes[i];
    if (info.pair[i] >= 0) {
      node.geometry = model.nodes[static_cast<std::size_t>(info.pair[i])].geometry;
    }
    const int input = info.inputs[i][0];
    const std::int64_t channels =
        input < 0 ? model.in_channels() : info.channels[static_cast<std::size_t>(input)];
    const double fan_in = static_cast<double>(channels) * node.geometry.taps();
    for (const auto& [name, shape] : parameter_shapes(node, channels)) {
      auto tensor = base::Tensor::empty(shape, base::DType::f32);
      const double scale =
          name == "weight" && node.op != Op::batch_norm ? 1 / std::sqrt(fan_in) : 0.5;
      for (std::int64_t k = 0; k < tensor.numel(); ++k) {
        const double value = std::floor(random.value() * scale * 4096) / 4096;
        const bool is_positive =
            name == "running_var" || (name == "weight" && node.op == Op::batch_norm);
        tensor.data<float>()[k] = static_cast<float>(is_positive ? 1.5 + value : value);
      }
      node.weights[name] = tensor;
    }
  }
}

inline sparseconv::Model random_model(const std::string& nodes, std::int64_t channels,
                                      const std::string& outputs = "\"out\"",
                                      std::uint64_t seed = 7) {
  auto model = model_of(nodes, channels, outputs);
  fill_weights(model, seed);
  return model;
}

}  // namespace test_support

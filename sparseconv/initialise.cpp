#include "sparseconv/initialise.hpp"

#include <algorithm>
#include <cmath>

#include "sparseconv/graph.hpp"

namespace sparseconv {
namespace {

// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t state) : state_(state) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  // In [-1, 1), a multiple of 2^-23.
  double symmetric() { return static_cast<double>(next() >> 40) / 8388608.0 - 1.0; }

 private:
  std::uint64_t state_;
};

// FNV-1a.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

base::Tensor uniform(const base::Dims& shape, double bound, std::uint64_t stream) {
  auto tensor = base::Tensor::empty(shape, base::DType::f32);
  Random random(stream);
  float* values = tensor.numel() > 0 ? tensor.data<float>() : nullptr;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    values[i] = static_cast<float>(random.symmetric() * bound);
  }
  return tensor;
}

base::Tensor constant(const base::Dims& shape, double value) {
  auto tensor = base::Tensor::empty(shape, base::DType::f32);
  if (tensor.numel() > 0) {
    std::fill_n(tensor.data<float>(), tensor.numel(), static_cast<float>(value));
  }
  return tensor;
}

// Mean square of an input feature on an outdoor scan: metres from the sensor, the rest of order 1.
double mean_square(const std::string& feature) {
  if (feature == "x" || feature == "y") return 256;
  if (feature == "z") return 4;
  if (feature == "dx" || feature == "dy" || feature == "dz") return 1.0 / 1024;
  return 0.25;
}

// How many taps of a kernel meet a voxel, on surfaces: a quarter of the neighbours; upwards, half
// of those that can.
double taps_present(const Node& node) {
  const double taps = node.geometry.taps();
  if (node.op == Op::linear) return 1;
  if (node.op == Op::conv) return 1 + (taps - 1) / 4;
  const auto& s = node.geometry.stride;
  return std::max(1.0, taps / (2.0 * s[0] * s[1] * s[2]));
}

class Initialiser {
 public:
  Initialiser(Model& model, std::uint64_t seed)
      : model_(model), info_(analyse_graph(model)), seed_(seed) {}

  void run() {
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) {
      moments_.push_back(initialise(model_.nodes[i], info_.inputs[i]));
    }
  }

 private:
  std::int64_t channels_of(int value) const {
    return value == kModelInput ? model_.in_channels()
                                : info_.channels[static_cast<std::size_t>(value)];
  }
  double moment_of(int value) const {
    if (value != kModelInput) return moments_[static_cast<std::size_t>(value)];
    double sum = 0;
    for (const auto& feature : model_.input.features) sum += mean_square(feature);
    return sum / static_cast<double>(model_.in_channels());
  }
  std::uint64_t stream(const Node& node, const char* parameter) const {
    return Random(seed_ ^ hash_of(node.name + "/" + parameter)).next();
  }

  // Sets the weights of a node; returns the mean square that its output is expected to have.
  double initialise(Node& node, const std::vector<int>& inputs) {
    const double moment = moment_of(inputs[0]);
    switch (node.op) {
      case Op::conv:
      case Op::conv_transpose:
      case Op::inverse_conv:
      case Op::linear:
        return initialise_product(node, channels_of(inputs[0]), moment);
      case Op::batch_norm: {
        const base::Dims shape{channels_of(inputs[0])};
        node.weights["weight"] = constant(shape, 1);
        node.weights["bias"] = constant(shape, 0);
        node.weights["running_mean"] = constant(shape, 0);
        node.weights["running_var"] = constant(shape, moment);
        return 1;
      }
      case Op::relu:
      case Op::leaky_relu:
        return moment / 2;
      case Op::sigmoid:
        return 0.25;
      case Op::add: {
        double sum = 0;
        for (const int input : inputs) sum += moment_of(input);
        return sum;
      }
      case Op::concat: {
        double sum = 0, channels = 0;
        for (const int input : inputs) {
          const auto count = static_cast<double>(channels_of(input));
          sum += moment_of(input) * count;
          channels += count;
        }
        return sum / channels;
      }
      default:
        return moment;
    }
  }

  double initialise_product(Node& node, std::int64_t in_channels, double moment) const {
    for (const auto& [parameter, shape] : parameter_shapes(node, in_channels)) {
      const double fan_in = static_cast<double>(in_channels / node.groups) * node.geometry.taps();
      const double bound =
          parameter == "weight" ? std::sqrt(6.0 / fan_in) : 1.0 / std::sqrt(fan_in);
      node.weights[parameter] = uniform(shape, bound, stream(node, parameter.c_str()));
    }
    return 2 * moment * taps_present(node) / node.geometry.taps();
  }

  Model& model_;
  const GraphInfo info_;
  std::uint64_t seed_;
  std::vector<double> moments_;
};

}  // namespace

void initialise_weights(Model& model, std::uint64_t seed) {
  sort_nodes(model);
  Initialiser(model, seed).run();
}

}  // namespace sparseconv

// Sizes beyond 2^31 elements: a full grid, whose sampled rows are worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sparseconv/engine.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using namespace sparseconv;

constexpr std::int64_t kX = 264, kY = 256, kZ = 256;  // 17.3 M cells

float input_value(std::int64_t x, std::int64_t y, std::int64_t z) {
  return static_cast<float>((x + 2 * y + 3 * z) % 7 - 3) / 4;
}

SparseTensor full_grid() {
  base::Buffer<Key> keys;
  keys.reserve(static_cast<std::size_t>(kX * kY * kZ));
  for (int x = 0; x < kX; ++x) {
    for (int y = 0; y < kY; ++y) {
      for (int z = 0; z < kZ; ++z) keys.push_back(pack({0, x, y, z}));
    }
  }
  std::sort(keys.begin(), keys.end());
  SparseTensor grid;
  grid.features =
      base::Tensor::empty({static_cast<std::int64_t>(keys.size()), 1}, base::DType::f32);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Coord c = unpack(keys[i]);
    grid.features.data<float>()[i] = input_value(c.x, c.y, c.z);
  }
  grid.coordinates = Coordinates::from_sorted_keys(
      std::move(keys), {.batch_size = 1, .spatial_shape = std::nullopt});
  return grid;
}

base::Tensor weight(const base::Dims& shape, unsigned seed) {
  auto w = base::Tensor::empty(shape, base::DType::f32);
  std::mt19937 random(seed);
  for (std::int64_t i = 0; i < w.numel(); ++i)
    w.data<float>()[i] = static_cast<float>(static_cast<int>(random() % 17) - 8) / 64;
  return w;
}

Node node(const std::string& name, Op op, const std::string& input, std::int64_t channels,
          base::Tensor w) {
  Node n;
  n.name = name;
  n.op = op;
  n.inputs = {input};
  n.out_channels = channels;
  n.weights["weight"] = std::move(w);
  return n;
}

// 1 channel -> many by a linear layer -> a submanifold layer -> 1 by a linear layer, without
// rounding in between but that of fp16.
void expect_grid(int kernel, std::int64_t channels, const std::string& dtype, double tolerance) {
  Model model;
  model.input.features = {"one"};
  model.nodes.push_back(node("wide", Op::linear, "input", channels, weight({channels, 1}, 1)));
  const std::int64_t k = kernel;
  model.nodes.push_back(
      node("layer", Op::conv, "wide", channels, weight({channels, k, k, k, channels}, 2)));
  model.nodes.back().submanifold = true;
  model.nodes.back().geometry = ConvGeometry::submanifold({kernel, kernel, kernel});
  model.nodes.push_back(node("head", Op::linear, "layer", 1, weight({1, channels}, 3)));
  model.outputs = {"head"};
  const SparseTensor grid = full_grid();
  const Result result = Engine(model, {.device = "cuda", .dtype = dtype}).run(grid);
  const float* values = result.outputs[0].sparse.features.data<float>();
  const float *wide = model.nodes[0].weights.at("weight").data<float>(),
              *layer = model.nodes[1].weights.at("weight").data<float>(),
              *head = model.nodes[2].weights.at("weight").data<float>();
  // head * layer * wide is linear in the input: one number a tap.
  std::vector<double> of_tap(static_cast<std::size_t>(k * k * k), 0);
  for (std::int64_t o = 0; o < channels; ++o) {
    for (std::int64_t t = 0; t < k * k * k; ++t) {
      double sum = 0;
      for (std::int64_t i = 0; i < channels; ++i)
        sum += double{layer[(o * k * k * k + t) * channels + i]} * wide[i];
      of_tap[static_cast<std::size_t>(t)] += head[o] * sum;
    }
  }
  std::mt19937_64 random(4);
  double worst = 0, largest = 0;
  const auto coords = grid.coordinates->coords();
  for (int sample = 0; sample < 20000; ++sample) {
    // The last rows too.
    const std::size_t row = sample < 2000 ? coords.size() - 1 - static_cast<std::size_t>(sample)
                                          : random() % coords.size();
    const Coord c = coords[row];
    double expected = 0;
    for (int t = 0; t < k * k * k; ++t) {
      const std::int64_t x = c.x + t / (k * k) - k / 2, y = c.y + t / k % k - k / 2,
                         z = c.z + t % k - k / 2;
      if (x < 0 || y < 0 || z < 0 || x >= kX || y >= kY || z >= kZ) continue;
      expected += of_tap[static_cast<std::size_t>(t)] * input_value(x, y, z);
    }
    largest = std::max(largest, std::abs(expected));
    worst = std::max(worst, std::abs(expected - values[row]));
  }
  EXPECT_LE(worst / largest, tolerance) << kernel << " " << dtype;
}

// 128 channels: 2.2 G elements of 2 bytes.
TEST(LargeGrid, MoreThanTwoToThe31ElementsGoThroughTheMatrixCores) {
  REQUIRE_HOPPER();
  expect_grid(3, 128, "fp16", 1e-2);
}

// 125 taps: a table of 2.2 G entries.
TEST(LargeGrid, MoreThanTwoToThe31NeighboursGoThroughTheExactPath) {
  REQUIRE_DEVICE();
  expect_grid(5, 4, "fp32", 1e-5);
}

}  // namespace
}  // namespace cuda_tests

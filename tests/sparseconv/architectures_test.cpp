// The built-in networks: their layers as published, weights that depend on the seed alone, and
// outputs that fit fp16.
#include <gtest/gtest.h>

#include <cmath>

#include "sparseconv/engine.hpp"
#include "tests/support/make_inputs.hpp"

namespace {

using namespace sparseconv;

std::int64_t convolutions(const Model& model) {
  std::int64_t count = 0;
  for (const Node& node : model.nodes) {
    count += node.op == Op::conv || node.op == Op::inverse_conv || node.op == Op::conv_transpose;
  }
  return count;
}

TEST(Architectures, HaveAsManyConvolutionsAsPublished) {
  const std::pair<const char*, std::int64_t> expected[] = {
      {"minkunet14", 32},    {"minkunet18", 48}, {"minkunet34", 62}, {"minkunet42", 49},
      {"spunet", 59},        {"streetunet", 41}, {"second", 12},     {"centerpoint", 21},
      {"voxelresnet8x", 21}, {"voxelnext", 32}};
  ASSERT_EQ(std::size(expected), architecture_names().size());
  for (const auto& [name, count] : expected) {
    EXPECT_EQ(convolutions(build_architecture(name, {.width = 0.125})), count) << name;
  }
}

TEST(Architectures, MinkUNet42HasItsParameters) {
  const Model model = build_architecture("minkunet42", {.classes = {"a", "b", "c"}});
  std::int64_t weights = 0;
  for (const Node& node : model.nodes) {
    if (node.op == Op::conv || node.op == Op::inverse_conv)
      weights += node.weights.at("weight").numel();
  }
  // 27-tap, 8-tap and 1-tap convolutions of NETWORKS' table, added up by hand.
  const std::int64_t k3 =
      27 * (4 * 32 + 32 * 32 + 4 * 32 * 32 + (32 * 64 + 3 * 64 * 64) + (64 * 128 + 3 * 128 * 128) +
            (128 * 256 + 3 * 256 * 256) + (384 * 256 + 3 * 256 * 256) +
            (192 * 128 + 3 * 128 * 128) + 2 * (128 * 96 + 3 * 96 * 96));
  const std::int64_t k2 =
      8 * (32 * 32 + 32 * 32 + 64 * 64 + 128 * 128 + 256 * 256 + 256 * 128 + 128 * 96 + 96 * 96);
  const std::int64_t k1 = 32 * 64 + 64 * 128 + 128 * 256 + 384 * 256 + 192 * 128 + 2 * 128 * 96;
  EXPECT_EQ(weights, k3 + k2 + k1);
  EXPECT_EQ(model.node("head").out_channels, 3);
  EXPECT_EQ(model.classes.size(), 3u);
}

// FNV-1a over the bits of all weights, in order of nodes and parameters.
std::uint64_t fingerprint(const Model& model) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const Node& node : model.nodes) {
    for (const auto& [name, tensor] : node.weights) {
      for (std::int64_t i = 0; i < tensor.numel(); ++i) {
        hash = (hash ^ std::bit_cast<std::uint32_t>(tensor.data<float>()[i])) * 0x100000001b3ull;
      }
    }
  }
  return hash;
}

TEST(Architectures, TheSameSeedGivesTheSameWeightsOnEveryMachine) {
  const auto print = [](std::uint64_t seed) {
    return fingerprint(build_architecture("minkunet18", {.width = 0.25, .seed = seed}));
  };
  EXPECT_EQ(print(0), print(0));
  EXPECT_NE(print(0), print(1));
  EXPECT_EQ(print(0), 5953452434606271123ull);
}

TEST(Architectures, FeaturesAndClassesAreAsAskedFor) {
  const Model model =
      build_architecture("spunet", {.in_channels = 6, .width = 0.125, .voxel_size = 0.05});
  EXPECT_EQ(model.input.features, (std::vector<std::string>{"x", "y", "z", "intensity", "r", "g"}));
  EXPECT_EQ(model.classes.size(), 20u);
  EXPECT_EQ(model.classes[19], "class19");
  EXPECT_EQ(model.input.voxel_size, (std::array<double, 3>{0.05, 0.05, 0.05}));
  EXPECT_THROW(build_architecture("resnet", {}), base::Error);
  EXPECT_THROW(build_architecture("second", {.voxel_size = 1e-9}), base::Error);
}

TEST(Architectures, DetectorsHaveThePublishedGrids) {
  const auto shape = [](const char* name, double size) {
    return *build_architecture(name, {.width = 0.125, .voxel_size = size}).input.spatial_shape;
  };
  EXPECT_EQ(shape("second", 0.05), (SpatialShape{1408, 1600, 41}));
  EXPECT_EQ(shape("centerpoint", 0.1), (SpatialShape{1024, 1024, 41}));
  EXPECT_EQ(shape("voxelnext", 0.1), (SpatialShape{1024, 1024, 41}));
  EXPECT_EQ(shape("voxelresnet8x", 0.1), (SpatialShape{1504, 1504, 41}));
}

// A surface of 60 x 60 cells with a wall, near the middle of the field of view, in metres.
SparseTensor street(const Model& model) {
  std::vector<Coord> coords;
  const int at =
      model.input.spatial_shape ? static_cast<int>((*model.input.spatial_shape)[0] / 2) : -30;
  for (int x = 0; x < 60; ++x) {
    for (int y = 0; y < 60; ++y) coords.push_back({0, at + x, at + y, 10 + x / 20});
    for (int z = 11; z < 30; ++z) coords.push_back({0, at + x, at, z + 5});
  }
  auto input = test_support::tensor_of(coords, model.in_channels(), {.batch_size = 1});
  float* values = input.features.data<float>();
  for (const Coord& c : coords) {
    *values++ = 0.1f * static_cast<float>(c.x - at - 30);
    *values++ = 0.1f * static_cast<float>(c.y - at - 30);
    *values++ = 0.1f * static_cast<float>(c.z - 17);
    *values++ = 0.5f;
  }
  return input;
}

TEST(Architectures, RunInHalfPrecisionWithoutOverflow) {
  for (const auto& name : architecture_names()) {
    const Model model = build_architecture(name, {.width = 0.125});
    const SparseTensor input = street(model);
    const Result exact = Engine(model, {.dtype = "fp32", .threads = 2}).run(input);
    const Result half = Engine(model, {.dtype = "fp16", .threads = 2}).run(input);
    const auto values = [](const Result& result) {
      const Output& out = result.outputs.at(0);
      return out.dense.defined() ? out.dense : out.sparse.features;
    };
    const base::Tensor a = values(exact), b = values(half);
    ASSERT_GT(a.numel(), 0) << name;
    double largest = 0, worst = 0;
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      largest = std::max(largest, std::abs(double{a.data<float>()[i]}));
      worst = std::max(worst, std::abs(double{a.data<float>()[i]} - double{b.data<float>()[i]}));
    }
    EXPECT_GT(largest, 1e-2) << name;
    EXPECT_LT(largest, 1000) << name;
    EXPECT_LE(worst, 1e-2 * largest) << name;
  }
}

TEST(Architectures, VoxelNextEndsOnFlatRowsAndSecondInABirdsEyeView) {
  const Model next = build_architecture("voxelnext", {.width = 0.125});
  const Result flat = Engine(next).run(street(next));
  for (const Coord& c : flat.outputs[0].sparse.coordinates->coords()) ASSERT_EQ(c.z, 0);
  EXPECT_EQ(*flat.outputs[0].sparse.coordinates->spatial_shape(), (SpatialShape{128, 128, 1}));
  const Model second = build_architecture("second", {.width = 0.125});
  const Result bev = Engine(second).run(street(second));
  EXPECT_EQ(bev.outputs[0].dense.shape(), (base::Dims{1, 32, 100, 88}));
}

}  // namespace

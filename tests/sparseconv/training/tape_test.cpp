// What the tape does beside the gradients of ops: statistics, points, memory.
#include "sparseconv/training/tape.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/sparseconv/training/seed_outputs.hpp"

namespace {

using namespace sparseconv;
using test_support::factor_of, test_support::seed, test_support::small_cloud;
using training::Tape;

// One row: its variance is 0 and it comes out as the bias, whatever went in.
TEST(Gradient, OfABatchNormOverOneRowIsZeroButForTheBias) {
  Model model =
      test_support::random_model(R"({"name":"out","op":"batch_norm","inputs":["input"]})", 3);
  validate(model);
  Tape tape(model, {.input_gradient = true});
  const auto before = tape.parameters().statistics;
  const auto input = test_support::tensor_of({{0, 1, 2, 3}}, 3, {.batch_size = 1});
  tape.forward({.voxels = input});
  const float* bias = model.nodes[0].weights.at("bias").data<float>();
  for (std::int64_t c = 0; c < 3; ++c) EXPECT_EQ(tape.output(0).as<float>()[c], bias[c]);
  seed(tape);
  tape.backward();
  tape.update_statistics();
  const auto& p = tape.parameters();
  const Coord at{0, 1, 2, 3};
  for (std::int64_t c = 0; c < 3; ++c) {
    EXPECT_EQ(tape.input_gradient().as<float>()[c], 0.0f);
    const auto offset = [&](const char* name) {
      return static_cast<std::size_t>(p.entry(0, name).offset + c);
    };
    EXPECT_EQ(p.gradients[offset("weight")], 0.0f);
    EXPECT_EQ(p.gradients[offset("bias")], factor_of(at, c));
    EXPECT_EQ(p.statistics[offset("running_var")], before[offset("running_var")]);
    EXPECT_NE(p.statistics[offset("running_mean")], before[offset("running_mean")]);
  }
}

// Behaviour 12, 17.
TEST(Gradient, OfOneVoxelReachesTheCentreTapAlone) {
  Model model = test_support::random_model(
      R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":2})",
      3);
  validate(model);
  Tape tape(model);
  tape.forward({.voxels = test_support::tensor_of({{0, 4, 4, 4}}, 3, {.batch_size = 1})});
  seed(tape);
  tape.backward();
  for (int n = 0; n < 2; ++n) {
    for (int tap = 0; tap < 27; ++tap) {
      for (int k = 0; k < 3; ++k) {
        const float g =
            tape.parameters().gradients[static_cast<std::size_t>((n * 27 + tap) * 3 + k)];
        EXPECT_EQ(g != 0.0f, tap == 13) << n << " " << tap << " " << k;
      }
    }
  }
}

// Running statistics as their definition says, with the unbiased variance.
TEST(Gradient, RunningStatisticsFollowTheBatch) {
  Model model =
      test_support::random_model(R"({"name":"out","op":"batch_norm","inputs":["input"]})", 2);
  validate(model);
  Tape tape(model, {.batch_norm_momentum = 0.25});
  auto input =
      test_support::tensor_of({{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 2, 0, 0}}, 2, {.batch_size = 1});
  const float values[] = {1, 10, 2, 20, 6, 60};  // means 3, 30; unbiased variances 7, 700
  std::copy(values, values + 6, input.features.data<float>());
  const auto before = tape.parameters().statistics;
  tape.forward({.voxels = input});
  EXPECT_EQ(tape.parameters().statistics, before);
  tape.update_statistics();
  const auto& p = tape.parameters();
  const auto mean = static_cast<std::size_t>(p.entry(0, "running_mean").offset),
             variance = static_cast<std::size_t>(p.entry(0, "running_var").offset);
  EXPECT_NEAR(p.statistics[mean], 0.75 * before[mean] + 0.25 * 3, 1e-6);
  EXPECT_NEAR(p.statistics[mean + 1], 0.75 * before[mean + 1] + 0.25 * 30, 1e-5);
  EXPECT_NEAR(p.statistics[variance], 0.75 * before[variance] + 0.25 * 7, 1e-6);
  EXPECT_NEAR(p.statistics[variance + 1], 0.75 * before[variance + 1] + 0.25 * 700, 1e-4);
}

TEST(Gradient, OfFrozenStatisticsIsThatOfAScale) {
  Model model =
      test_support::random_model(R"({"name":"out","op":"batch_norm","inputs":["input"]})", 2);
  validate(model);
  Tape tape(model, {.input_gradient = true, .freezes_statistics = true});
  const auto input = test_support::random_tensor(small_cloud(2));
  tape.forward({.voxels = input});
  seed(tape);
  tape.backward();
  for (std::int64_t row = 0; row < input.rows(); ++row) {
    for (std::int64_t c = 0; c < 2; ++c) {
      const auto& w = model.nodes[0].weights;
      const double scale = w.at("weight").data<float>()[c] /
                           std::sqrt(w.at("running_var").data<float>()[c] + model.nodes[0].eps);
      const auto& at = input.coordinates->coords()[static_cast<std::size_t>(row)];
      const auto dx = tape.input_gradient();
      EXPECT_NEAR(dx.as<float>()[row * dx.stride[0] + c], scale * factor_of(at, c), 1e-6);
    }
  }
}

// A linear map and its transpose: <devoxelize(x), g> = <x, gradient>.
TEST(Gradient, OfDevoxelizeIsItsTranspose) {
  for (const char* mode : {"nearest", "trilinear"}) {
    SCOPED_TRACE(mode);
    Model model = test_support::model_of(
        base::concat(R"({"name":"d","op":"sum_pool","inputs":["input"],"kernel":2},)",
                     R"({"name":"out","op":"devoxelize","inputs":["d"],"mode":")", mode, "\"}"),
        3);
    validate(model);
    Tape tape(model, {.input_gradient = true});
    const auto input = test_support::random_tensor(small_cloud(3));
    std::vector<std::int64_t> rows;
    std::vector<std::array<double, 3>> positions;
    test_support::Random random(3);
    for (int i = 0; i < 200; ++i) {
      const auto row = random.below(static_cast<int>(input.rows()) + 1) - 1;  // -1: no voxel
      const Coord c =
          row < 0 ? Coord{} : input.coordinates->coords()[static_cast<std::size_t>(row)];
      rows.push_back(row);
      positions.push_back(
          {c.x + random.value() * 0.5, c.y + random.value() * 0.5, c.z + random.value() * 0.5});
    }
    tape.forward(
        {.voxels = input, .has_points = true, .point_rows = rows, .point_positions = positions});
    const auto y = tape.output(0);
    const auto g = tape.output_gradient(0);
    double forward = 0, backward = 0;
    for (std::int64_t p = 0; p < 200; ++p) {
      for (std::int64_t c = 0; c < 3; ++c) {
        g.as<float>()[p * g.stride[0] + c] = random.value();
        forward += double(g.as<float>()[p * g.stride[0] + c]) * y.as<float>()[p * y.stride[0] + c];
      }
    }
    tape.backward();
    const auto dx = tape.input_gradient();
    for (std::int64_t row = 0; row < input.rows(); ++row) {
      for (std::int64_t c = 0; c < 3; ++c) {
        backward += double(dx.as<float>()[row * dx.stride[0] + c]) *
                    input.features.data<float>()[row * 3 + c];
      }
    }
    EXPECT_NE(forward, 0);
    EXPECT_NEAR(forward, backward, 1e-5 * std::fabs(forward) + 1e-5);
  }
}

TEST(Gradient, RecomputingTakesLessMemory) {
  const Model model = build_architecture("minkunet14", {.width = 0.25});
  const auto input =
      test_support::random_tensor({.shape = {20, 20, 16}, .per_thousand = 300, .channels = 4});
  const auto bytes = [&](bool recomputes) {
    Tape tape(model, {.recomputes = recomputes});
    tape.forward({.voxels = input});
    tape.backward();
    return tape.arena_bytes();
  };
  EXPECT_LT(bytes(true), bytes(false) * 9 / 10);
}

constexpr const char* kBlock =
    R"({"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":12},
       {"name":"an","op":"batch_norm","inputs":["a"]},{"name":"ar","op":"leaky_relu","inputs":["an"]},
       {"name":"d","op":"conv","inputs":["ar"],"kernel":2,"stride":2,"out_channels":16},
       {"name":"dn","op":"batch_norm","inputs":["d"]},
       {"name":"p","op":"max_pool","inputs":["ar"],"kernel":2},
       {"name":"pl","op":"linear","inputs":["p"],"out_channels":16,"bias":true},
       {"name":"sum","op":"add","inputs":["dn","pl"]},{"name":"dr","op":"relu","inputs":["sum"]},
       {"name":"u","op":"inverse_conv","inputs":["dr"],"pair":"d","out_channels":8},
       {"name":"us","op":"sigmoid","inputs":["u"]},
       {"name":"cat","op":"concat","inputs":["us","ar"]},
       {"name":"out","op":"linear","inputs":["cat"],"out_channels":5,"bias":true},
       {"name":"g","op":"global_max_pool","inputs":["cat"]})";

// Rounded on the way forward, summed in fp32 on the way back: near the gradients of fp32, and the
// same with recomputed activations.
TEST(Gradient, OfNarrowTypesIsNearThatOfSinglePrecision) {
  Model model = test_support::random_model(kBlock, 4, R"("out","g")");
  validate(model);
  const auto input = test_support::random_tensor({.shape = {12, 10, 9}, .channels = 4});
  const auto gradients = [&](base::DType dtype, bool recomputes) {
    Tape tape(model, {.recomputes = recomputes, .dtype = dtype});
    tape.forward({.voxels = input});
    seed(tape);
    tape.backward();
    return tape.parameters().gradients;
  };
  const auto expected = gradients(base::DType::f32, false);
  using base::DType;
  for (const auto& [dtype, angle] :
       {std::pair(DType::tf32, 0.02), std::pair(DType::f16, 0.02), std::pair(DType::bf16, 0.12)}) {
    const auto got = gradients(dtype, false);
    double product = 0, own = 0, other = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      product += double(got[i]) * expected[i];
      own += double(got[i]) * got[i];
      other += double(expected[i]) * expected[i];
    }
    EXPECT_GT(product / std::sqrt(own * other), 1 - angle * angle / 2) << base::name(dtype);
    EXPECT_NEAR(std::sqrt(own / other), 1, angle) << base::name(dtype);
    EXPECT_NE(got, expected) << base::name(dtype);
    EXPECT_EQ(gradients(dtype, true), got) << base::name(dtype);
  }
}

TEST(Gradient, NarrowTypesTakeLessMemory) {
  const Model model = build_architecture("minkunet14", {.width = 0.25});
  const auto input =
      test_support::random_tensor({.shape = {20, 20, 16}, .per_thousand = 300, .channels = 4});
  const auto bytes = [&](base::DType dtype) {
    Tape tape(model, {.dtype = dtype});
    tape.forward({.voxels = input});
    return tape.arena_bytes();
  };
  EXPECT_LT(bytes(base::DType::f16), bytes(base::DType::f32) * 3 / 4);
  EXPECT_THROW(Tape(model, {.dtype = base::DType::i32}), base::Error);
}

TEST(Gradient, BackwardGoesOnceAfterForward) {
  Model model = test_support::random_model(R"({"name":"out","op":"relu","inputs":["input"]})", 2);
  validate(model);
  Tape tape(model);
  EXPECT_THROW(tape.backward(), base::Error);
}

}  // namespace

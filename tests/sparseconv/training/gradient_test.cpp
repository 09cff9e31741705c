// Gradients of every op against a network in fp64 that shares no code with the library: its
// differences over steps so small that fp64 rounds nothing away and fp32 weights are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "sparseconv/training/tape.hpp"
#include "tests/support/make_inputs.hpp"
#include "tests/support/naive_network.hpp"

namespace {

using namespace sparseconv;
using training::Parameters;
using training::Tape;

constexpr float kStep = 1.0f / 65536;  // weights and features are multiples of 2^-12

// What the loss multiplies a value with: by coordinate, since row orders differ.
float factor_of(const Coord& c, std::int64_t channel) {
  const auto mixed = static_cast<std::uint64_t>(c.batch * 7919 + c.x * 104729 + c.y * 1299709 +
                                                c.z * 15485863 + channel * 32452843);
  return test_support::Random(mixed + 17).value();
}

double loss_of(const Model& model, const SparseTensor& input) {
  const auto values = test_support::run_naively(model, input, {.uses_batch_statistics = true});
  double loss = 0;
  for (const auto& output : model.outputs) {
    const auto& value = values.at(output);
    for (std::size_t row = 0; row < value.rows.size(); ++row) {
      for (std::size_t c = 0; c < value.rows[row].size(); ++c) {
        loss += factor_of(value.coords[row], static_cast<std::int64_t>(c)) * value.rows[row][c];
      }
    }
  }
  return loss;
}

// Seeds the gradient of every output with the factors.
void seed(Tape& tape) {
  for (std::size_t i = 0; i < tape.plan().outputs.size(); ++i) {
    const auto coordinates = tape.output_coordinates(i);
    if (tape.plan().outputs[i].is_dense) {
      auto& to = tape.dense_output_gradient(i);
      const auto [w, h, d] = *coordinates->spatial_shape();
      const std::int64_t channels = to.size(1) / d;
      for (const Coord& c : coordinates->coords()) {
        for (std::int64_t k = 0; k < channels; ++k) {
          const std::int64_t plane = (c.batch * channels + k) * d + c.z;
          to.data<float>()[(plane * h + c.y) * w + c.x] = factor_of(c, k);
        }
      }
      continue;
    }
    const base::TensorView to = tape.output_gradient(i);
    for (std::int64_t row = 0; row < to.shape[0]; ++row) {
      for (std::int64_t c = 0; c < to.shape[1]; ++c) {
        to.as<float>()[row * to.stride[0] + c] +=
            factor_of(coordinates->coords()[static_cast<std::size_t>(row)], c);
      }
    }
  }
}

double difference_quotient(float& number, const std::function<double()>& loss) {
  const float before = number;
  number = before + kStep;
  const double above = loss();
  number = before - kStep;
  const double below = loss();
  number = before;
  return (above - below) / (2.0 * kStep);
}

// fp32 passes of a few layers: errors relative to the largest gradient of the same tensor.
constexpr double kTolerance = 2e-4;

struct Compared {
  double got, expected;
};
void expect_near(const std::vector<Compared>& values, const std::string& what) {
  double largest = 1e-3;
  for (const auto& v : values) largest = std::max(largest, std::fabs(v.expected));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i].got, values[i].expected, kTolerance * largest) << what << " sample " << i;
  }
}

void expect_gradients(Model model, SparseTensor input) {
  validate(model);
  Tape tape(model, {.input_gradient = true});
  tape.forward({.voxels = input});
  seed(tape);
  tape.backward();
  // The oracle's weights are moved in place: copies that the tape does not share.
  for (Node& node : model.nodes) {
    for (auto& [name, tensor] : node.weights) tensor = tensor.clone();
  }
  const auto loss = [&] { return loss_of(model, input); };
  constexpr std::int64_t kSamples = 24;
  for (const Parameters::Entry& entry : tape.parameters().trained()) {
    float* weights =
        model.nodes[static_cast<std::size_t>(entry.node)].weights.at(entry.name).data<float>();
    std::vector<Compared> values;
    for (std::int64_t k = 0; k < std::min(kSamples, entry.size); ++k) {
      const std::int64_t at = entry.size <= kSamples ? k : (k * 7919 + 3) % entry.size;
      values.push_back({tape.parameters().gradients[static_cast<std::size_t>(entry.offset + at)],
                        difference_quotient(weights[at], loss)});
    }
    expect_near(values, entry.node_name + "." + entry.name);
  }
  const auto dx = tape.input_gradient();
  const std::int64_t count = input.rows() * input.channels();
  input.features = input.features.clone();
  std::vector<Compared> values;
  for (std::int64_t k = 0; k < std::min(kSamples, count); ++k) {
    const std::int64_t at = (k * 104729 + 1) % count;
    values.push_back({dx.as<float>()[at / input.channels() * dx.stride[0] + at % input.channels()],
                      difference_quotient(input.features.data<float>()[at], loss)});
  }
  expect_near(values, "input");
}

struct OpCase {
  const char* name;
  const char* nodes;
  std::int64_t channels = 4;
  const char* outputs = "\"out\"";
};

class GradientOfEveryOp : public testing::TestWithParam<OpCase> {};

test_support::CloudSpec small_cloud(std::int64_t channels) {
  return {.shape = {6, 5, 6}, .per_thousand = 160, .channels = channels, .seed = 5};
}

TEST_P(GradientOfEveryOp, EqualsTheDifferenceQuotient) {
  const OpCase& c = GetParam();
  expect_gradients(test_support::random_model(c.nodes, c.channels, c.outputs),
                   test_support::random_tensor(small_cloud(c.channels)));
}

// Behaviour 1.
TEST_P(GradientOfEveryOp, IsZeroForEmptyInput) {
  const OpCase& c = GetParam();
  Model model = test_support::random_model(c.nodes, c.channels, c.outputs);
  validate(model);
  Tape tape(model, {.input_gradient = true});
  tape.forward({.voxels = test_support::tensor_of(
                    {}, c.channels, {.batch_size = 2, .spatial_shape = SpatialShape{9, 8, 7}})});
  for (std::size_t i = 0; i < tape.plan().outputs.size(); ++i) {
    if (!tape.plan().outputs[i].is_dense) seed(tape);
  }
  tape.backward();
  tape.update_statistics();
  for (const float g : tape.parameters().gradients) ASSERT_EQ(g, 0.0f);
  EXPECT_EQ(tape.input_gradient().shape[0], 0);
}

const OpCase kCases[] = {
    {"subm_k3",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":6,"bias":true})"},
    {"subm_k1",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":1,"submanifold":true,"out_channels":5})"},
    {"subm_dilated",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":[3,3,1],"dilation":[2,1,1],"submanifold":true,"out_channels":6})"},
    {"grouped",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"groups":2,"out_channels":10})",
     6},
    {"depthwise",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"groups":6,"out_channels":6})",
     6},
    {"k2s2",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":8})"},
    {"asymmetric",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":[3,2,4],"stride":[3,1,2],"padding":[0,1,2],"dilation":[1,2,1],"out_channels":9})",
     5},
    {"regular_stride_1",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"padding":1,"out_channels":4})"},
    {"transposed",
     R"({"name":"out","op":"conv_transpose","inputs":["input"],"kernel":3,"stride":2,"padding":1,"groups":2,"out_channels":6,"bias":true})"},
    {"inverse",
     R"({"name":"d","op":"conv","inputs":["input"],"kernel":3,"stride":2,"padding":1,"out_channels":8},
        {"name":"out","op":"inverse_conv","inputs":["d"],"pair":"d","out_channels":5,"bias":true})"},
    {"linear", R"({"name":"out","op":"linear","inputs":["input"],"out_channels":11,"bias":true})"},
    {"batch_norm",
     R"({"name":"c","op":"linear","inputs":["input"],"out_channels":5},
        {"name":"out","op":"batch_norm","inputs":["c"],"eps":0.001})"},
    {"conv_bn_relu",
     R"({"name":"c","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":6},
        {"name":"n","op":"batch_norm","inputs":["c"]},{"name":"out","op":"relu","inputs":["n"]})"},
    {"residual_block",
     R"({"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":6},
        {"name":"an","op":"batch_norm","inputs":["a"]},{"name":"ar","op":"relu","inputs":["an"]},
        {"name":"b","op":"conv","inputs":["ar"],"kernel":3,"submanifold":true,"out_channels":6},
        {"name":"bn","op":"batch_norm","inputs":["b"]},
        {"name":"s","op":"linear","inputs":["input"],"out_channels":6},
        {"name":"sn","op":"batch_norm","inputs":["s"]},
        {"name":"sum","op":"add","inputs":["bn","sn"]},{"name":"out","op":"relu","inputs":["sum"]})"},
    {"conv_relu",
     R"({"name":"c","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":6,"bias":true},
        {"name":"out","op":"relu","inputs":["c"]})"},
    {"relu", R"({"name":"out","op":"relu","inputs":["input"]})"},
    {"leaky", R"({"name":"out","op":"leaky_relu","inputs":["input"],"negative_slope":0.25})"},
    {"leaky_that_falls",
     R"({"name":"c","op":"linear","inputs":["input"],"out_channels":5},
        {"name":"out","op":"leaky_relu","inputs":["c"],"negative_slope":-0.5})"},
    {"sigmoid", R"({"name":"out","op":"sigmoid","inputs":["input"]})"},
    {"activations_in_a_row",
     R"({"name":"a","op":"leaky_relu","inputs":["input"],"negative_slope":0.5},
        {"name":"b","op":"sigmoid","inputs":["a"]},{"name":"out","op":"relu","inputs":["b"]})"},
    {"add_of_three",
     R"({"name":"a","op":"relu","inputs":["input"]},{"name":"b","op":"leaky_relu","inputs":["input"]},
        {"name":"out","op":"add","inputs":["a","b","input"]})"},
    {"add_of_one_twice",
     R"({"name":"a","op":"relu","inputs":["input"]},{"name":"out","op":"add","inputs":["a","a"]})"},
    {"concat_with_repeats",
     R"({"name":"a","op":"relu","inputs":["input"]},{"name":"out","op":"concat","inputs":["a","input","a"]})"},
    {"nested_concat",
     R"({"name":"a","op":"relu","inputs":["input"]},{"name":"c","op":"concat","inputs":["input","a"]},
        {"name":"l","op":"leaky_relu","inputs":["c"]},{"name":"out","op":"concat","inputs":["l","c","a"]})"},
    {"part_of_a_concat_read_alone",
     R"({"name":"a","op":"linear","inputs":["input"],"out_channels":3},
        {"name":"b","op":"linear","inputs":["input"],"out_channels":2},
        {"name":"c","op":"concat","inputs":["a","b"]},{"name":"x","op":"sigmoid","inputs":["a"]},
        {"name":"y","op":"linear","inputs":["c"],"out_channels":3},
        {"name":"out","op":"add","inputs":["x","y"]})"},
    {"two_outputs",
     R"({"name":"a","op":"linear","inputs":["input"],"out_channels":3},
        {"name":"out","op":"relu","inputs":["a"]})",
     4, "\"a\", \"out\""},
    {"max_pool", R"({"name":"out","op":"max_pool","inputs":["input"],"kernel":2})"},
    {"max_pool_overlapping",
     R"({"name":"out","op":"max_pool","inputs":["input"],"kernel":3,"stride":2,"padding":1})"},
    {"max_pool_implicit_zero",
     R"({"name":"out","op":"max_pool","inputs":["input"],"kernel":2,"implicit_zero":true})"},
    {"avg_pool",
     R"({"name":"out","op":"avg_pool","inputs":["input"],"kernel":[3,3,2],"stride":[2,2,2],"padding":[1,1,0]})"},
    {"sum_pool",
     R"({"name":"out","op":"sum_pool","inputs":["input"],"kernel":2,"stride":2,"dilation":[2,1,1]})"},
    {"pools_that_meet",
     R"({"name":"a","op":"max_pool","inputs":["input"],"kernel":2},
        {"name":"b","op":"avg_pool","inputs":["input"],"kernel":2},
        {"name":"out","op":"add","inputs":["a","b"]})"},
    {"global_max", R"({"name":"out","op":"global_max_pool","inputs":["input"]})"},
    {"global_avg", R"({"name":"out","op":"global_avg_pool","inputs":["input"]})"},
    {"to_dense",
     R"({"name":"c","op":"linear","inputs":["input"],"out_channels":3},
        {"name":"out","op":"to_dense","inputs":["c"]})"},
    {"merge", R"({"name":"d","op":"sum_pool","inputs":["input"],"kernel":2},
                 {"name":"out","op":"merge","inputs":["input","d"],"scales":[[1,1,0],[2,2,0]]})"},
    {"small_unet",
     R"({"name":"s","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":5},
        {"name":"sn","op":"batch_norm","inputs":["s"]},{"name":"sr","op":"relu","inputs":["sn"]},
        {"name":"d","op":"conv","inputs":["sr"],"kernel":2,"stride":2,"out_channels":7},
        {"name":"dn","op":"batch_norm","inputs":["d"]},{"name":"dr","op":"relu","inputs":["dn"]},
        {"name":"u","op":"inverse_conv","inputs":["dr"],"pair":"d","out_channels":4},
        {"name":"un","op":"batch_norm","inputs":["u"]},{"name":"ur","op":"relu","inputs":["un"]},
        {"name":"cat","op":"concat","inputs":["ur","sr"]},
        {"name":"out","op":"linear","inputs":["cat"],"out_channels":3,"bias":true})"},
};
INSTANTIATE_TEST_SUITE_P(, GradientOfEveryOp, testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

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

TEST(Gradient, BackwardGoesOnceAfterForward) {
  Model model = test_support::random_model(R"({"name":"out","op":"relu","inputs":["input"]})", 2);
  validate(model);
  Tape tape(model);
  EXPECT_THROW(tape.backward(), base::Error);
}

}  // namespace

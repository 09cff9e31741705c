// Gradients of every op against a network in fp64 that shares no code with the library: its
// differences over steps so small that fp64 rounds nothing away and fp32 weights are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/sparseconv/training/seed_outputs.hpp"
#include "tests/support/naive_network.hpp"

namespace {

using namespace sparseconv;
using test_support::factor_of, test_support::seed, test_support::small_cloud;
using training::Parameters;
using training::Tape;

constexpr float kStep = 1.0f / 65536;  // weights and features are multiples of 2^-12

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

// Values made again in the backward pass are the same, so the gradients are, to the last bit.
TEST_P(GradientOfEveryOp, IsTheSameWhereActivationsAreRecomputed) {
  const OpCase& c = GetParam();
  Model model = test_support::random_model(c.nodes, c.channels, c.outputs);
  validate(model);
  const auto input = test_support::random_tensor(small_cloud(c.channels));
  std::vector<float> expected;
  for (const bool recomputes : {false, true}) {
    Tape tape(model, {.input_gradient = true, .recomputes = recomputes});
    tape.forward({.voxels = input});
    seed(tape);
    tape.backward();
    std::vector<float> got = tape.parameters().gradients;
    const auto dx = tape.input_gradient();
    for (std::int64_t row = 0; row < dx.shape[0]; ++row) {
      const float* first = dx.as<float>() + row * dx.stride[0];
      got.insert(got.end(), first, first + dx.shape[1]);
    }
    if (!recomputes) expected = got;
    EXPECT_EQ(got, expected);
  }
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

}  // namespace

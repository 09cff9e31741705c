// Every op of the engine against the naive network, on every dtype: values, coordinates and row
// order.
#include <gtest/gtest.h>

#include "sparseconv/engine.hpp"
#include "tests/support/expect_as_naive.hpp"
#include "tests/support/make_inputs.hpp"
#include "tests/support/test_device.hpp"

namespace {

using namespace sparseconv;
using base::DType;
using test_support::CloudSpec;
using test_support::expect_as_naive;

constexpr DType kDTypes[] = {DType::f32, DType::tf32, DType::f16, DType::bf16};

struct OpCase {
  const char* name;
  const char* nodes;
  std::int64_t channels = 4;
};

class EveryOp : public testing::TestWithParam<OpCase> {};

TEST_P(EveryOp, AgreeWithTheNaiveNetworkOnBoundedInput) {
  expect_as_naive(test_support::random_model(GetParam().nodes, GetParam().channels),
                  test_support::random_tensor({.channels = GetParam().channels}));
}

TEST_P(EveryOp, AgreeWithTheNaiveNetworkOnUnboundedShuffledNegativeInput) {
  const std::string nodes = GetParam().nodes;
  if (nodes.find("to_dense") != std::string::npos) return;  // needs bounds
  expect_as_naive(test_support::random_model(nodes, GetParam().channels),
                  test_support::random_tensor({.channels = GetParam().channels,
                                               .bounded = false,
                                               .shuffled = true,
                                               .offset = -5,
                                               .seed = 3}));
}

TEST_P(EveryOp, GiveEmptyRowsForEmptyInput) {
  const Model model = test_support::random_model(GetParam().nodes, GetParam().channels);
  const auto input = test_support::tensor_of(
      {}, GetParam().channels, {.batch_size = 2, .spatial_shape = SpatialShape{9, 8, 7}});
  Model checked = model;
  const std::int64_t channels = validate(checked).at("out");
  for (const DType dtype : kDTypes) {
    const Result result =
        Engine(model,
               test_support::on_device({.dtype = std::string(base::name(dtype)), .threads = 2}))
            .run(input);
    const Output& out = result.outputs.at(0);
    if (out.dense.defined()) {
      EXPECT_EQ(out.dense.size(0), 2);
      for (std::int64_t i = 0; i < out.dense.numel(); ++i) {
        ASSERT_EQ(out.dense.data<float>()[i], 0.0f);
      }
      continue;
    }
    const bool is_global = out.sparse.coordinates->size() == 2;
    EXPECT_TRUE(is_global || out.sparse.coordinates->size() == 0);
    EXPECT_EQ(out.sparse.channels(), channels);
    EXPECT_EQ(out.sparse.coordinates->batch_size(), 2);
    for (std::int64_t i = 0; i < out.sparse.features.numel(); ++i) {
      ASSERT_EQ(out.sparse.features.data<float>()[i], 0.0f);
    }
  }
}

const OpCase kCases[] = {
    {"subm_k3",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":[3,3,3],"submanifold":true,"out_channels":8,"bias":false})"},
    {"subm_k1_bias_off",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":1,"submanifold":true,"out_channels":5})"},
    {"subm_135",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":[1,3,5],"submanifold":true,"out_channels":7})",
     3},
    {"subm_dilated",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":[3,3,3],"dilation":[2,1,3],"submanifold":true,"out_channels":6})"},
    {"subm_343_taps",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":7,"submanifold":true,"out_channels":3})",
     2},
    {"grouped",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":[3,3,3],"submanifold":true,"groups":2,"out_channels":10})",
     6},
    {"depthwise",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":[3,3,3],"submanifold":true,"groups":6,"out_channels":6})",
     6},
    {"k2s2",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":8})"},
    {"k3s2p1",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"stride":2,"padding":1,"out_channels":8})"},
    {"k4s4",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":4,"stride":4,"out_channels":8})"},
    {"k311_s211",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":[3,1,1],"stride":[2,1,1],"out_channels":8})"},
    {"regular_stride_1",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"padding":1,"out_channels":4})"},
    {"asymmetric",
     R"({"name":"out","op":"conv","inputs":["input"],"kernel":[3,2,4],"stride":[3,1,2],"padding":[0,1,2],"dilation":[1,2,1],"out_channels":9})",
     5},
    {"transposed_k2s2",
     R"({"name":"out","op":"conv_transpose","inputs":["input"],"kernel":2,"stride":2,"out_channels":6})"},
    {"transposed_k3s2p1_grouped",
     R"({"name":"out","op":"conv_transpose","inputs":["input"],"kernel":3,"stride":2,"padding":1,"groups":2,"out_channels":6})"},
    {"inverse_k2",
     R"({"name":"d","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":8},
                      {"name":"out","op":"inverse_conv","inputs":["d"],"pair":"d","out_channels":5})"},
    {"inverse_k3",
     R"({"name":"d","op":"conv","inputs":["input"],"kernel":3,"stride":2,"padding":1,"out_channels":8},
                      {"name":"out","op":"inverse_conv","inputs":["d"],"pair":"d","kernel":[3,3,3],"out_channels":5})"},
    {"linear", R"({"name":"out","op":"linear","inputs":["input"],"out_channels":11})"},
    {"max_pool", R"({"name":"out","op":"max_pool","inputs":["input"],"kernel":2})"},
    {"max_pool_overlapping",
     R"({"name":"out","op":"max_pool","inputs":["input"],"kernel":3,"stride":2,"padding":1})"},
    {"max_pool_implicit_zero",
     R"({"name":"out","op":"max_pool","inputs":["input"],"kernel":2,"implicit_zero":true})"},
    {"avg_pool",
     R"({"name":"out","op":"avg_pool","inputs":["input"],"kernel":[3,3,2],"stride":[2,2,2],"padding":[1,1,0]})"},
    {"sum_pool_dilated",
     R"({"name":"out","op":"sum_pool","inputs":["input"],"kernel":[2,2,2],"stride":[2,2,2],"dilation":[2,1,1]})"},
    {"global_max", R"({"name":"out","op":"global_max_pool","inputs":["input"]})"},
    {"global_avg", R"({"name":"out","op":"global_avg_pool","inputs":["input"]})"},
    {"relu", R"({"name":"out","op":"relu","inputs":["input"]})"},
    {"leaky", R"({"name":"out","op":"leaky_relu","inputs":["input"],"negative_slope":0.25})"},
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
    {"to_dense", R"({"name":"out","op":"to_dense","inputs":["input"]})"},
    {"merge", R"({"name":"d","op":"sum_pool","inputs":["input"],"kernel":2},
                 {"name":"out","op":"merge","inputs":["input","d"],"scales":[[1,1,0],[2,2,0]]})"},
};
INSTANTIATE_TEST_SUITE_P(, EveryOp, testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(Ops, BatchNormAndSigmoidAgreeWithTheNaiveNetwork) {
  const auto model = test_support::random_model(
      R"({"name":"bn","op":"batch_norm","inputs":["input"],"eps":0.001},
         {"name":"out","op":"sigmoid","inputs":["bn"]})",
      5);
  expect_as_naive(model, test_support::random_tensor({.channels = 5}));
}

TEST(Ops, BiasAgreesWithTheNaiveNetwork) {
  const auto model = test_support::random_model(
      R"({"name":"d","op":"conv","inputs":["input"],"kernel":3,"stride":2,"padding":1,"out_channels":8,"bias":true},
         {"name":"u","op":"inverse_conv","inputs":["d"],"pair":"d","out_channels":5,"bias":true},
         {"name":"t","op":"conv_transpose","inputs":["d"],"kernel":2,"stride":2,"out_channels":3,"bias":true},
         {"name":"l","op":"linear","inputs":["u"],"out_channels":3,"bias":true})",
      4, R"("d","u","t","l")");
  expect_as_naive(model, test_support::random_tensor({}));
}

// Behaviour 13.
TEST(Ops, AnyNumberOfChannelsAgreesWithTheNaiveNetwork) {
  constexpr std::int64_t kCounts[] = {1, 3, 5, 6, 17, 18, 33, 96, 130, 256, 512};
  for (std::size_t i = 0; i < std::size(kCounts); ++i) {
    const std::int64_t in = kCounts[i], out = kCounts[(i + 3) % std::size(kCounts)];
    SCOPED_TRACE(base::concat(in, " -> ", out));
    const auto model = test_support::random_model(
        base::concat(
            R"({"name":"out","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":)",
            out, "}"),
        in);
    expect_as_naive(model,
                    test_support::random_tensor(
                        {.shape = {6, 5, 5}, .per_thousand = 300, .batches = 1, .channels = in}));
  }
}

// Fusion: every kind of chain that a plan joins, with values that have a second reader in between.
TEST(Ops, FusedNetworkAgreesWithTheNaiveNetwork) {
  const auto model = test_support::random_model(
      R"({"name":"s","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":8,"bias":true},
         {"name":"sb","op":"batch_norm","inputs":["s"]},{"name":"sr","op":"relu","inputs":["sb"]},
         {"name":"c1","op":"conv","inputs":["sr"],"kernel":3,"submanifold":true,"out_channels":8},
         {"name":"b1","op":"batch_norm","inputs":["c1"]},{"name":"r1","op":"leaky_relu","inputs":["b1"]},
         {"name":"c2","op":"conv","inputs":["r1"],"kernel":3,"submanifold":true,"out_channels":8},
         {"name":"b2","op":"batch_norm","inputs":["c2"]},
         {"name":"short","op":"linear","inputs":["sr"],"out_channels":8},
         {"name":"sum","op":"add","inputs":["b2","short"]},{"name":"r2","op":"relu","inputs":["sum"]},
         {"name":"pool","op":"max_pool","inputs":["r2"],"kernel":2},
         {"name":"pb","op":"batch_norm","inputs":["pool"]},{"name":"ps","op":"sigmoid","inputs":["pb"]},
         {"name":"d","op":"conv","inputs":["r2"],"kernel":2,"stride":2,"out_channels":8},
         {"name":"g","op":"add","inputs":["ps","d"]},
         {"name":"u","op":"inverse_conv","inputs":["g"],"pair":"d","out_channels":6},
         {"name":"cat","op":"concat","inputs":["u","r2","s"]},
         {"name":"cb","op":"batch_norm","inputs":["cat"]},
         {"name":"out","op":"linear","inputs":["cb"],"out_channels":4,"bias":true})",
      4, R"("out","r1","g")");
  expect_as_naive(model, test_support::random_tensor({.seed = 11}));
}

TEST(Ops, AddJoinsEqualCoordinatesOfDifferentOrigin) {
  const auto model = test_support::random_model(
      R"({"name":"d","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":4},
         {"name":"up","op":"conv_transpose","inputs":["d"],"kernel":2,"stride":2,"out_channels":4},
         {"name":"d2","op":"max_pool","inputs":["up"],"kernel":2},
         {"name":"out","op":"add","inputs":["d","d2"]})",
      4);
  const auto input = test_support::random_tensor({.bounded = false});
  expect_as_naive(model, input);
}

TEST(Ops, AddOverDifferentCoordinatesIsAnErrorThatNamesTheNode) {
  const auto model = test_support::random_model(
      R"({"name":"up","op":"conv_transpose","inputs":["input"],"kernel":1,"stride":2,"out_channels":4},
         {"name":"sum","op":"add","inputs":["input","up"]},
         {"name":"out","op":"relu","inputs":["sum"]})",
      4);
  try {
    Engine(model, test_support::on_device()).run(test_support::random_tensor({.bounded = false}));
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("node 'sum'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("differ from row"), std::string::npos) << error.what();
  }
}

TEST(Ops, ToDenseWithoutBoundsIsAnErrorThatNamesTheNode) {
  const auto model =
      test_support::random_model(R"({"name":"out","op":"to_dense","inputs":["input"]})", 4);
  try {
    Engine(model, test_support::on_device()).run(test_support::random_tensor({.bounded = false}));
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("node 'out'"), std::string::npos) << error.what();
  }
}

}  // namespace

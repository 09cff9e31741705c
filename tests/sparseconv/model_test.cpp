// Model files: what is written is read again, and everything that can be wrong is one message that
// names it.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "io/hdf5_container.hpp"
#include "sparseconv/model.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/make_inputs.hpp"

namespace {

using namespace sparseconv;
using test_support::message_of;

std::filesystem::path temporary_file(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / ("sparseconv_" + name);
}

constexpr const char* kNodes = R"(
  {"name": "stem.conv", "op": "conv", "inputs": ["input"], "submanifold": true, "kernel": [3,3,3], "out_channels": 4},
  {"name": "stem.bn", "op": "batch_norm", "inputs": ["stem.conv"], "eps": 1e-3},
  {"name": "down", "op": "conv", "inputs": ["stem.bn"], "kernel": [2,2,2], "stride": [2,2,2], "out_channels": 6, "bias": true},
  {"name": "pool", "op": "max_pool", "inputs": ["stem.bn"], "kernel": [2,2,2], "implicit_zero": true},
  {"name": "sum", "op": "leaky_relu", "inputs": ["down"], "negative_slope": 0.2},
  {"name": "up", "op": "inverse_conv", "inputs": ["sum"], "pair": "down", "out_channels": 4},
  {"name": "gen", "op": "conv_transpose", "inputs": ["sum"], "kernel": [2,2,2], "stride": [2,2,2], "groups": 2, "out_channels": 4},
  {"name": "cat", "op": "concat", "inputs": ["up", "stem.bn"]},
  {"name": "points", "op": "devoxelize", "inputs": ["cat"], "mode": "trilinear"},
  {"name": "all", "op": "merge", "inputs": ["cat", "cat"], "scales": [[1,1,0],[2,2,0]]},
  {"name": "out", "op": "linear", "inputs": ["cat"], "out_channels": 2, "bias": true})";

Model example() {
  return test_support::random_model(kNodes, 3, R"("out", "points", "all", "gen")");
}

#define EXPECT_MESSAGE(work, ...)                              \
  do {                                                         \
    const std::string message = message_of([&] { work; });     \
    for (const std::string part : {__VA_ARGS__}) {             \
      EXPECT_NE(message.find(part), std::string::npos)         \
          << "'" << part << "' is not in '" << message << "'"; \
    }                                                          \
  } while (0)

void expect_equal(const Model& a, const Model& b) {
  EXPECT_EQ(model_graph_json(a), model_graph_json(b));
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    ASSERT_EQ(a.nodes[i].weights.size(), b.nodes[i].weights.size()) << a.nodes[i].name;
    for (const auto& [parameter, tensor] : a.nodes[i].weights) {
      const base::Tensor& other = b.nodes[i].weights.at(parameter);
      ASSERT_EQ(tensor.numel(), other.numel());
      for (std::int64_t k = 0; k < tensor.numel(); ++k) {
        ASSERT_EQ(tensor.data<float>()[k], other.data<float>()[k]) << a.nodes[i].name << parameter;
      }
    }
  }
}

TEST(ModelFile, IsReadAsItWasWritten) {
  Model model = example();
  model.classes = {"road", "car"};
  model.class_ids = {40, 10};
  model.input.range = {-1, -2, -3, 1, 2, 3};
  model.input.spatial_shape = SpatialShape{10, 20, 30};
  model.input.reduce = Reduce::max;
  model.input.defaults = {{"c1", 0.5}};
  const auto path = temporary_file("round_trip.h5");
  for (const auto type : {base::DType::f32, base::DType::f16}) {  // test weights are exact in fp16
    save_model(path, model, type);
    validate(model);
    const Model read = load_model(path);
    expect_equal(read, model);
    EXPECT_EQ(read.class_ids, model.class_ids);
    EXPECT_EQ(read.input.range, model.input.range);
    EXPECT_EQ(read.input.defaults, model.input.defaults);
    EXPECT_EQ(read.node("pool").implicit_zero, true);
    EXPECT_EQ(read.node("points").trilinear, true);
    EXPECT_EQ(read.node("stem.bn").eps, 1e-3);
  }
}

TEST(ModelFile, NumbersMayBeWrittenAsIntegersAndKeysLeftOut) {
  const Model model = parse_model_graph(R"({
    "input": {"features": ["x"], "voxel_size": [1, 2, 3], "range": [0, 0, 0, 4, 4, 4]},
    "nodes": [{"name": "a", "op": "leaky_relu", "inputs": ["input"], "negative_slope": 0},
              {"name": "b", "op": "batch_norm", "inputs": ["a"], "eps": 0},
              {"name": "c", "op": "conv", "inputs": ["b"], "kernel": [2, 3, 4], "out_channels": 5},
              {"name": "d", "op": "avg_pool", "inputs": ["c"], "kernel": [1, 2, 3]}],
    "outputs": ["d"], "classes": ["p", "q"]})");
  EXPECT_EQ(model.input.voxel_size, (std::array<double, 3>{1, 2, 3}));
  EXPECT_EQ(model.node("b").eps, 0);
  const Node& conv = model.node("c");
  EXPECT_EQ(conv.geometry, (ConvGeometry{{2, 3, 4}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}}));
  EXPECT_FALSE(conv.bias);
  EXPECT_FALSE(conv.submanifold);
  EXPECT_EQ(model.node("d").geometry.stride, (std::array<int, 3>{1, 2, 3}));
  EXPECT_EQ(model.class_ids, (std::vector<std::int64_t>{0, 1}));
}

TEST(ModelFile, LinearWeightsMayHaveFiveAxes) {
  Model model = example();
  for (Node& node : model.nodes) {
    if (node.name == "out")
      node.weights["weight"] = node.weights["weight"].reshaped({2, 1, 1, 1, 8});
  }
  EXPECT_NO_THROW(validate(model));
  EXPECT_EQ(model.node("out").weights.at("weight").shape(), (base::Dims{2, 8}));
}

TEST(ModelFile, NodesInAnyOrderAreSorted) {
  Model model = example();
  std::reverse(model.nodes.begin(), model.nodes.end());
  EXPECT_NO_THROW(validate(model));
  std::set<std::string> seen{"input"};
  for (const Node& node : model.nodes) {
    for (const auto& input : node.inputs) EXPECT_EQ(seen.count(input), 1u) << node.name;
    seen.insert(node.name);
  }
}

// One change to the JSON of a graph, and what the message must say.
struct BadGraph {
  const char* nodes;
  std::vector<std::string> message;
};

TEST(BadModel, GraphsAreRefusedNamingTheNode) {
  const BadGraph cases[] = {
      {R"({"name":"n","op":"convolve","inputs":["input"]})", {"node 'n'", "convolve"}},
      {R"({"op":"relu","inputs":["input"]})", {"node 0", "'name'"}},
      {R"({"name":"n","inputs":["input"]})", {"node 'n'", "'op'", "missing"}},
      {R"({"name":"n","op":"relu"})", {"node 'n'", "'inputs'", "missing"}},
      {R"({"name":"n","op":"relu","inputs":"input"})", {"node 'n'", "'inputs'"}},
      {R"({"name":"n","op":"relu","inputs":[]})", {"node 'n'", "1 input"}},
      {R"({"name":"n","op":"relu","inputs":["input","input"]})", {"node 'n'", "got 2"}},
      {R"({"name":"n","op":"relu","inputs":["m"]})", {"node 'n'", "'m'", "no node"}},
      {R"({"name":"n","op":"relu","inputs":["n"]})", {"node 'n'", "cycle"}},
      {R"({"name":"n","op":"relu","inputs":["m"]},{"name":"m","op":"relu","inputs":["n"]})",
       {"node 'n'", "cycle"}},
      {R"({"name":"n","op":"relu","inputs":["input"]},{"name":"n","op":"relu","inputs":["input"]})",
       {"node 'n'", "two nodes"}},
      {R"({"name":"a/b","op":"relu","inputs":["input"]})", {"node 'a/b'", "'name'"}},
      {R"({"name":"input","op":"relu","inputs":["input"]})", {"node 'input'", "'name'"}},
      {R"({"name":"","op":"relu","inputs":["input"]})", {"'name'"}},
      {R"({"name":"n","op":"relu","inputs":["input"],"slope":1})",
       {"node 'n'", "unknown key", "slope"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"out_channels":4})",
       {"node 'n'", "'kernel'", "missing"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":[3,3],"out_channels":4})",
       {"node 'n'", "'kernel'", "[3,3]"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":[3,0,3],"out_channels":4})",
       {"node 'n'", "'kernel'", "0"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":[3,1.5,3],"out_channels":4})",
       {"node 'n'", "'kernel'", "1.5"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":3,"stride":0,"out_channels":4})",
       {"node 'n'", "'stride'", "0"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":3,"padding":-1,"out_channels":4})",
       {"node 'n'", "'padding'", "-1"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":3,"out_channels":0})",
       {"node 'n'", "'out_channels'", "0"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":3})", {"node 'n'", "'out_channels'"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":3,"out_channels":1e300})",
       {"node 'n'", "'out_channels'"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":3,"out_channels":4,"groups":2})",
       {"node 'n'", "groups = 2", "3 input"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":3,"out_channels":4,"bias":1})",
       {"node 'n'", "'bias'", "1"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":2,"submanifold":true,"out_channels":4})",
       {"node 'n'", "'kernel'", "odd"}},
      {R"({"name":"n","op":"conv","inputs":["input"],"kernel":3,"stride":2,"submanifold":true,"out_channels":4})",
       {"node 'n'", "'stride'"}},
      {R"({"name":"n","op":"conv_transpose","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":4})",
       {"node 'n'", "submanifold"}},
      {R"({"name":"n","op":"inverse_conv","inputs":["input"],"out_channels":4})",
       {"node 'n'", "'pair'"}},
      {R"({"name":"n","op":"inverse_conv","inputs":["input"],"pair":"q","out_channels":4})",
       {"node 'n'", "'q'"}},
      {R"({"name":"d","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":4},
          {"name":"n","op":"inverse_conv","inputs":["d"],"pair":"d","out_channels":4})",
       {"node 'n'", "'d'", "strided"}},
      {R"({"name":"d","op":"max_pool","inputs":["input"],"kernel":2},
          {"name":"n","op":"inverse_conv","inputs":["d"],"pair":"d","out_channels":4})",
       {"node 'n'", "max_pool"}},
      {R"({"name":"d","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":4},
          {"name":"n","op":"inverse_conv","inputs":["d"],"pair":"d","kernel":3,"out_channels":4})",
       {"node 'n'", "[3, 3, 3]", "[2, 2, 2]"}},
      {R"({"name":"d","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":4},
          {"name":"n","op":"inverse_conv","inputs":["input"],"pair":"d","out_channels":4})",
       {"node 'n'", "'input'", "coordinates"}},
      {R"({"name":"l","op":"linear","inputs":["input"],"out_channels":5},
          {"name":"n","op":"add","inputs":["l","input"]})",
       {"node 'n'", "5", "3"}},
      {R"({"name":"n","op":"add","inputs":["input"]})", {"node 'n'", "at least 2"}},
      {R"({"name":"n","op":"batch_norm","inputs":["input"],"eps":-1})",
       {"node 'n'", "'eps'", "-1"}},
      {R"({"name":"n","op":"leaky_relu","inputs":["input"],"negative_slope":"x"})",
       {"node 'n'", "'negative_slope'"}},
      {R"({"name":"n","op":"devoxelize","inputs":["input"],"mode":"cubic"})",
       {"node 'n'", "'mode'", "cubic"}},
      {R"({"name":"p","op":"devoxelize","inputs":["input"]},
          {"name":"n","op":"max_pool","inputs":["p"],"kernel":2})",
       {"node 'n'", "row a point"}},
      {R"({"name":"p","op":"devoxelize","inputs":["input"]},
          {"name":"n","op":"add","inputs":["p","input"]})",
       {"node 'n'", "a row a point"}},
      {R"({"name":"p","op":"to_dense","inputs":["input"]},
          {"name":"n","op":"relu","inputs":["p"]})",
       {"node 'n'", "'p'", "dense"}},
      {R"({"name":"n","op":"merge","inputs":["input"],"scales":[[1,1]]})",
       {"node 'n'", "'scales'"}},
      {R"({"name":"n","op":"merge","inputs":["input"],"scales":[]})",
       {"node 'n'", "'scales'", "1"}},
  };
  for (const BadGraph& bad : cases) {
    SCOPED_TRACE(bad.nodes);
    const std::string message = message_of([&] {
      Model model = test_support::model_of(bad.nodes, 3, R"("n")");
      validate(model);
    });
    for (const auto& part : bad.message) {
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
    }
  }
}

TEST(BadModel, TheRestOfTheDocumentIsCheckedToo) {
  const auto parse = [](const std::string& text) {
    Model model = parse_model_graph(text);
    validate(model);
  };
  const std::string nodes = R"("nodes": [{"name":"n","op":"relu","inputs":["input"]}])";
  const std::string input = R"("input": {"features": ["x"], "voxel_size": [1,1,1]})";
  EXPECT_MESSAGE(parse("{"), "JSON", "byte");
  EXPECT_MESSAGE(parse(R"({"name": 1E999})"), "JSON", "too large");  // found by fuzz_model
  EXPECT_MESSAGE(parse("[]"), "object");
  EXPECT_MESSAGE(parse("{" + nodes + R"(, "outputs": ["n"]})"), "'input'");
  EXPECT_MESSAGE(parse("{" + input + R"(, "outputs": ["n"]})"), "'nodes'");
  EXPECT_MESSAGE(parse("{" + input + "," + nodes + "}"), "'outputs'");
  EXPECT_MESSAGE(parse("{" + input + "," + nodes + R"(, "outputs": []})"), "'outputs'");
  EXPECT_MESSAGE(parse("{" + input + "," + nodes + R"(, "outputs": ["m"]})"), "'m'");
  EXPECT_MESSAGE(parse("{" + input + "," + nodes + R"(, "outputs": ["n","n"]})"), "'n'", "twice");
  EXPECT_MESSAGE(parse("{" + input + "," + nodes +
                       R"(, "outputs": ["n"], "classes": ["a"], "class_ids": [1,2]})"),
                 "2 class_ids", "1 classes");
  EXPECT_MESSAGE(parse(R"({"input": {"features": [], "voxel_size": [1,1,1]},)" + nodes +
                       R"(, "outputs": ["n"]})"),
                 "'features'");
  EXPECT_MESSAGE(parse(R"({"input": {"features": ["x","x"], "voxel_size": [1,1,1]},)" + nodes +
                       R"(, "outputs": ["n"]})"),
                 "'features'", "twice");
  EXPECT_MESSAGE(parse(R"({"input": {"features": ["x"], "voxel_size": [1,0,1]},)" + nodes +
                       R"(, "outputs": ["n"]})"),
                 "'voxel_size'", "axis y");
  EXPECT_MESSAGE(
      parse(R"({"input": {"features": ["x"], "voxel_size": [1,1,1], "range": [0,0,0,1,1,0]},)" +
            nodes + R"(, "outputs": ["n"]})"),
      "'range'", "axis z");
  EXPECT_MESSAGE(
      parse(R"({"input": {"features": ["x"], "voxel_size": [1,1,1], "spatial_shape": [1,1,0]},)" +
            nodes + R"(, "outputs": ["n"]})"),
      "'spatial_shape'", "0");
  EXPECT_MESSAGE(
      parse(R"({"input": {"features": ["x"], "voxel_size": [1,1,1], "reduce": "median"},)" + nodes +
            R"(, "outputs": ["n"]})"),
      "'reduce'", "median");
  EXPECT_MESSAGE(parse(R"({"input": {"features": ["x"], "voxel_size": [1,1,1], "orign": 1},)" +
                       nodes + R"(, "outputs": ["n"]})"),
                 "unknown key", "orign");
}

Node& node_of(Model& model, const std::string& name) {
  for (Node& node : model.nodes) {
    if (node.name == name) return node;
  }
  base::fail("no node ", name);
}

TEST(BadModel, WeightsAreCheckedNamingNodeParameterAndShapes) {
  const auto refuse = [](const std::function<void(Model&)>& change) {
    return [change] {
      Model model = example();
      change(model);
      validate(model);
    };
  };
  EXPECT_MESSAGE(refuse([](Model& m) { node_of(m, "down").weights.erase("bias"); })(),
                 "node 'down'", "bias", "[6]", "missing");
  EXPECT_MESSAGE(refuse([](Model& m) { node_of(m, "stem.conv").weights.clear(); })(),
                 "node 'stem.conv'", "weight", "[4, 3, 3, 3, 3]", "missing");
  EXPECT_MESSAGE(
      refuse([](Model& m) {
        node_of(m, "up").weights["weight"] = base::Tensor::zeros({4, 2, 2, 2, 5}, base::DType::f32);
      })(),
      "node 'up'", "[4, 2, 2, 2, 5]", "[4, 2, 2, 2, 6]");
  EXPECT_MESSAGE(refuse([](Model& m) { node_of(m, "stem.bn").weights.erase("running_var"); })(),
                 "node 'stem.bn'", "running_var", "missing");
  EXPECT_MESSAGE(refuse([](Model& m) {
                   node_of(m, "stem.bn").weights["running_var"].data<float>()[2] = -1;
                 })(),
                 "node 'stem.bn'", "running_var[2]", "-1");
  EXPECT_MESSAGE(
      refuse([](Model& m) { node_of(m, "gen").weights["weight"].data<float>()[3] = NAN; })(),
      "node 'gen'", "weight", "not finite", "3");
  EXPECT_MESSAGE(refuse([](Model& m) {
                   node_of(m, "up").weights["bias"] = base::Tensor::zeros({4}, base::DType::f32);
                 })(),
                 "node 'up'", "bias", "false");
}

TEST(BadModel, FilesAreRefusedSayingWhatIsWrong) {
  const auto path = temporary_file("bad.h5");
  const auto write = [&](const std::function<void(io::Hdf5Writer&)>& fill) {
    io::Hdf5Writer file(path);
    fill(file);
    file.commit();
  };
  const Model model = test_support::random_model(
      R"({"name":"n","op":"linear","inputs":["input"],"out_channels":2})", 3, R"("n")");
  const auto write_model = [&](io::Hdf5Writer& file) {
    file.set_attribute("/", "sparseconv_model", std::int64_t{1});
    file.write_text("/graph", model_graph_json(model));
  };
  write([](io::Hdf5Writer& file) { file.write_text("/graph", "{}"); });
  EXPECT_MESSAGE(load_model(path), "sparseconv_model");
  write([](io::Hdf5Writer& file) { file.set_attribute("/", "sparseconv_model", std::int64_t{2}); });
  EXPECT_MESSAGE(load_model(path), "sparseconv_model", "2");
  write([](io::Hdf5Writer& file) { file.set_attribute("/", "sparseconv_model", std::int64_t{1}); });
  EXPECT_MESSAGE(load_model(path), "/graph");
  write(write_model);
  EXPECT_MESSAGE(load_model(path), "node 'n'", "weight", "[2, 3]", "missing");
  write([&](io::Hdf5Writer& file) {
    write_model(file);
    file.write_tensor("/weights/n/weight", base::Tensor::zeros({2, 4}, base::DType::f32));
  });
  EXPECT_MESSAGE(load_model(path), "node 'n'", "[2, 4]", "[2, 3]");
  write([&](io::Hdf5Writer& file) {
    write_model(file);
    file.write_tensor("/weights/n/weight", base::Tensor::zeros({2, 3}, base::DType::i32));
  });
  EXPECT_MESSAGE(load_model(path), "node 'n'", "weight", "float32 or float16");
  write([&](io::Hdf5Writer& file) {
    write_model(file);
    file.write_tensor("/weights/m/weight", base::Tensor::zeros({2, 3}, base::DType::f32));
  });
  EXPECT_MESSAGE(load_model(path), "/weights/m/weight", "'m'");
  write([&](io::Hdf5Writer& file) {
    write_model(file);
    file.write_tensor("/weights/n/weight", base::Tensor::zeros({2, 3}, base::DType::f32));
    file.write_tensor("/weights/n/wieght", base::Tensor::zeros({2, 3}, base::DType::f32));
  });
  EXPECT_MESSAGE(load_model(path), "node 'n'", "wieght");
  std::ofstream(path, std::ios::trunc) << "not a file of this kind";
  EXPECT_NE(message_of([&] { load_model(path); }), "");
  EXPECT_NE(message_of([&] { load_model(temporary_file("absent.h5")); }), "");
}

}  // namespace

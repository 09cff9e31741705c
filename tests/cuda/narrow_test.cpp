// 8-bit inference on a device: networks against the CPU's fp32 and against what they should round.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <span>

#include "io/simulator.hpp"
#include "sparseconv/engine.hpp"
#include "sparseconv/executor.hpp"
#include "sparseconv/graph_builder.hpp"
#include "sparseconv/initialise.hpp"
#include "sparseconv/model.hpp"
#include "tests/cuda/narrow_case.hpp"
#include "tests/cuda/narrow_oracle.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using base::DType;
using namespace sparseconv;

const ExecutorOptions kCpu{};
ExecutorOptions cuda(DType dtype) {
  return {.device = {base::Device::Kind::cuda, 0}, .dtype = dtype, .cache_maps = false};
}

// `count` weights of 1 or -1 an output channel, the others 0: sums stay small integers.
void fill_sparsely(Node& node, std::int64_t in_channels, int count, unsigned seed) {
  const auto& k = node.geometry.kernel;
  const bool is_linear = node.op == Op::linear;
  auto w = is_linear ? base::Tensor::empty({node.out_channels, in_channels}, DType::f32)
                     : base::Tensor::empty({node.out_channels, k[0], k[1], k[2], in_channels},
                                           DType::f32);
  std::fill_n(w.data<float>(), w.numel(), 0.f);
  std::mt19937 random(seed);
  const std::int64_t width = w.numel() / node.out_channels;
  for (std::int64_t o = 0; o < node.out_channels; ++o) {
    for (int i = 0; i < count; ++i) {
      const std::int64_t at = static_cast<std::int64_t>(random() % static_cast<unsigned>(width));
      w.data<float>()[o * width + at] = random() % 3 == 0 ? -1.f : 1.f;
    }
  }
  node.weights["weight"] = w;
}

// Encoder and decoder with both kinds of residual blocks; no value is above 16.
Model integer_network() {
  GraphBuilder net(4);
  std::map<std::string, std::pair<std::int64_t, int>> fill;  // channels in, weights an output
  const auto conv = [&](const std::string& name, const std::string& x, const ConvSpec& spec,
                        int count) {
    fill[name] = {net.channels(x), count};
    return net.conv(name, x, spec);
  };
  const auto relu = [&](const std::string& x) { return net.simple(x + ".relu", Op::relu, {x}); };
  const std::array<int, 3> one{1, 1, 1};
  const auto stem = relu(conv("stem", "input", {.out_channels = 32}, 1));
  auto x =
      relu(conv("down", stem, {.kernel = {2, 2, 2}, .out_channels = 32, .stride = {2, 2, 2}}, 2));
  auto h = conv("b", relu(conv("a", x, {.out_channels = 64}, 1)), {.out_channels = 64}, 1);
  x = relu(
      net.simple("sum0", Op::add, {h, conv("short", x, {.kernel = one, .out_channels = 64}, 1)}));
  h = conv("d", relu(conv("c", x, {.out_channels = 64}, 1)), {.out_channels = 64}, 1);
  x = relu(net.simple("sum1", Op::add, {h, x}));
  fill["up"] = {64, 1};
  x = relu(net.inverse_conv("up", x, "down", 32));
  const auto both = net.simple("cat", Op::concat, {x, stem});
  h = conv("f", relu(conv("e", both, {.out_channels = 96}, 1)), {.out_channels = 96}, 1);
  x = relu(net.simple("sum2", Op::add,
                      {h, conv("wide_short", both, {.kernel = one, .out_channels = 96}, 1)}));
  fill["head"] = {96, 32};
  const auto head = net.linear("head", x, 20);
  Model model;
  model.input.features = {"a", "b", "c", "d"};
  model.nodes = net.take_nodes();
  unsigned seed = 1;
  for (Node& node : model.nodes) {
    const auto found = fill.find(node.name);
    if (found == fill.end()) continue;
    node.bias = false;
    fill_sparsely(node, found->second.first, found->second.second, ++seed);
  }
  model.outputs = {head};
  validate(model);
  return model;
}

TEST(NarrowExecutor, EqualsTheCpuBitByBitOnSmallIntegers) {
  REQUIRE_HOPPER();
  const Plan plan = make_plan(integer_network());
  const SparseTensor input = scan(9000, 5, true);
  FrameOutput expected;
  make_cpu_executor(plan, kCpu)->run({.voxels = input}, expected);
  const base::Tensor& wanted = expected.outputs[0].sparse.features;
  double largest = 0;
  for (std::int64_t i = 0; i < wanted.numel(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(wanted.data<float>()[i])));
  EXPECT_GE(largest, 4) << "nothing to see";
  for (const DType dtype : {DType::f16, DType::bf16, DType::tf32, DType::e4m3}) {
    const auto executor = make_cuda_executor(plan, cuda(dtype));
    for (int repeat = 0; repeat < 2; ++repeat) {
      FrameOutput output;
      executor->run({.voxels = input}, output);
      EXPECT_EQ(relative_error(output.outputs[0].sparse.features, wanted), 0)
          << base::name(dtype) << ", frame " << repeat;
    }
  }
}

// Rounded to 8 bits, and no more than that: e4m3 keeps 3 bits behind the leading one, so that each
// of up to 42 layers adds 0.036 of the values, independently; int8 keeps seven bits of the largest.
void expect_close(const FrameOutput& output, const FrameOutput& expected, const std::string& what) {
  ASSERT_EQ(output.outputs.size(), expected.outputs.size());
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
    const Output &a = output.outputs[i], &b = expected.outputs[i];
    const double error = b.dense.defined() ? relative_error(a.dense, b.dense)
                                           : relative_error(a.sparse.features, b.sparse.features);
    std::printf("%s %s: relative error %.4f\n", what.c_str(), b.node.c_str(), error);
    EXPECT_LE(error, 0.2) << what << ' ' << b.node;
    EXPECT_GT(error, 1e-4) << what << ": nothing was rounded to 8 bits";
  }
}

TEST(NarrowExecutor, NetworksStayCloseToTheCpus) {
  REQUIRE_HOPPER();
  for (const char* name : {"minkunet18", "minkunet42", "spunet", "second", "voxelnext"}) {
    const Plan plan = make_plan(network(name));
    const bool is_bounded = std::string(name) == "second" || std::string(name) == "voxelnext";
    const auto shape = is_bounded ? std::optional(SpatialShape{240, 200, 41}) : std::nullopt;
    const SparseTensor input = is_bounded ? scan(6000, 17, false, shape) : small_scan(6000, 17);
    FrameOutput expected;
    make_cpu_executor(plan, kCpu)->run({.voxels = input}, expected);
    for (const DType dtype : {DType::e4m3, DType::i8}) {
      FrameOutput output;
      make_cuda_executor(plan, cuda(dtype))->run({.voxels = input}, output);
      expect_close(output, expected, std::string(name) + ' ' + std::string(base::name(dtype)));
    }
  }
}

// The same scales, weights and roundings on the host. int8 sums are exact on both sides. Tensor
// cores keep about 14 bits of e4m3 products, so that sums round to the other of two codes now and
// then, and after some layers all values have roundings of their own: as large as the oracle's.
TEST(NarrowExecutor, RoundsAsItsOracleDoes) {
  REQUIRE_HOPPER();
  for (const char* name : {"minkunet18", "spunet"}) {
    const Plan plan = make_plan(network(name));
    const SparseTensor input = small_scan(1500, 17);
    const auto exact = run_oracle(plan, input, {});
    for (const DType dtype : {DType::e4m3, DType::i8}) {
      ExecutorOptions options = cuda(dtype);
      options.calibration = std::make_shared<Calibration>();
      FrameOutput output;
      make_cuda_executor(plan, options)->run({.voxels = input}, output);
      const auto wanted = run_oracle(
          plan, input,
          {.dtype = dtype, .merges_shortcuts = true, .largest = options.calibration->largest});
      const auto& got = output.outputs[0].sparse.features;
      const std::span values{got.data<float>(), static_cast<std::size_t>(got.numel())};
      const double off = relative_error(values, wanted.steps.back().values),
                   by_rounding =
                       relative_error(wanted.steps.back().values, exact.steps.back().values);
      std::printf("%s %s: off its oracle by %.4f, which is off fp32 by %.4f\n", name,
                  std::string(base::name(dtype)).c_str(), off, by_rounding);
      if (dtype == DType::i8)
        EXPECT_LE(off, 0.01) << name;
      else
        EXPECT_LE(relative_error(values, exact.steps.back().values), 1.2 * by_rounding) << name;
    }
  }
}

// Pairs of channels that are 0.3 % apart, and a head that subtracts them: halves tell them apart,
// 8 bits do not.
Model network_of_differences() {
  GraphBuilder net(4);
  auto x = net.simple("stem.relu", Op::relu, {net.conv("stem", "input", {.out_channels = 32})});
  x = net.simple("pairs.relu", Op::relu, {net.conv("pairs", x, {.out_channels = 32})});
  const auto head = net.linear("head", x, 16);
  Model model;
  model.input.features = {"a", "b", "c", "d"};
  model.nodes = net.take_nodes();
  model.outputs = {head};
  for (Node& node : model.nodes) node.bias = false;
  initialise_weights(model, 3);
  for (Node& node : model.nodes) {
    if (node.op == Op::relu) continue;
    base::Tensor& weight = node.weights["weight"];
    const std::int64_t width = weight.numel() / weight.size(0);
    float* const w = weight.data<float>();
    if (node.name == "head") {
      for (std::int64_t i = 0; i < weight.numel(); ++i)
        w[i] = i % width / 2 != i / width ? 0.f : i % 2 == 0 ? 100.f : -100.f;
    } else if (node.name == "pairs") {
      for (std::int64_t row = 1; row < weight.size(0); row += 2)
        for (std::int64_t i = 0; i < width; ++i)
          w[row * width + i] = 1.003f * w[(row - 1) * width + i];
    }
  }
  validate(model);
  return model;
}

// Never a wrong result.
TEST(NarrowExecutor, RefusesNetworksThatEightBitsDoNotCarry) {
  REQUIRE_HOPPER();
  const Plan plan = make_plan(network_of_differences());
  const SparseTensor input = scan(6000, 17, false);
  FrameOutput expected, half;
  make_cpu_executor(plan, kCpu)->run({.voxels = input}, expected);
  make_cuda_executor(plan, cuda(DType::f16))->run({.voxels = input}, half);
  EXPECT_LE(relative_error(half.outputs[0].sparse.features, expected.outputs[0].sparse.features),
            0.2);
  for (const DType dtype : {DType::e4m3, DType::i8}) {
    const auto executor = make_cuda_executor(plan, cuda(dtype));
    for (int repeat = 0; repeat < 2; ++repeat) {
      FrameOutput output;
      try {
        executor->run({.voxels = input}, output);
        ADD_FAILURE() << base::name(dtype) << ": gave "
                      << relative_error(output.outputs[0].sparse.features,
                                        expected.outputs[0].sparse.features);
      } catch (const base::Error& error) {
        EXPECT_NE(std::string(error.what()).find("does not survive 8 bits"), std::string::npos)
            << error.what();
      }
    }
  }
}

// The first frame with rows sets the scales; frames of zeros and empty ones run without.
TEST(NarrowExecutor, TakesItsScalesFromTheFirstFrameThatHasRows) {
  REQUIRE_HOPPER();
  const Plan plan = make_plan(network("minkunet18"));
  const auto executor = make_cuda_executor(plan, cuda(DType::e4m3));
  SparseTensor zeros = scan(500, 8, false);
  std::fill_n(zeros.features.data<float>(), zeros.features.numel(), 0.f);
  for (const SparseTensor& input : {scan(0, 1, false), zeros, scan(0, 1, false)}) {
    FrameOutput output;
    executor->run({.voxels = input}, output);
    EXPECT_EQ(output.outputs[0].sparse.features.size(0), input.rows());
  }
  const SparseTensor first = scan(4000, 2, false), larger = scan(12000, 3, false);
  FrameOutput before, other, after, alone;
  executor->run({.voxels = first}, before);
  executor->run({.voxels = larger}, other);
  executor->run({.voxels = first}, after);
  make_cuda_executor(plan, cuda(DType::e4m3))->run({.voxels = first}, alone);
  EXPECT_EQ(relative_error(after.outputs[0].sparse.features, before.outputs[0].sparse.features), 0);
  // Biases make zeros a frame like any other for networks that have them; this one has batch norms.
  EXPECT_LE(relative_error(alone.outputs[0].sparse.features, before.outputs[0].sparse.features),
            0.2);
}

// The bundled model (models/street.h5; SPARSECONV_MODELS names another folder) on streets that it
// never saw, beside itself in f16.
TEST(NarrowEngine, LabelsOfTheBundledModelAgreeWithHalves) {
  REQUIRE_HOPPER();
  const char* const named = std::getenv("SPARSECONV_MODELS");
  const std::filesystem::path folder = named != nullptr ? named : SPARSECONV_SOURCE_DIR "/models";
  const auto path = folder / "street.h5";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const Engine half(load_model(path), {.device = "cuda", .dtype = "fp16"});
  const io::Simulator simulator({.sensor = "hdl64", .seed = 1001});
  for (const char* dtype : {"fp8", "int8"}) {
    const Engine narrow(load_model(path), {.device = "cuda", .dtype = dtype});
    std::int64_t points = 0, equal = 0;
    for (int frame = 0; frame < 4; ++frame) {
      const io::Cloud cloud = simulator.frame(frame);
      const auto wanted = half.run(cloud).labels(-1), got = narrow.run(cloud).labels(-1);
      ASSERT_EQ(got.size(), wanted.size());
      points += static_cast<std::int64_t>(wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) equal += got[i] == wanted[i];
    }
    const double share = static_cast<double>(equal) / static_cast<double>(points);
    std::printf("%s: %lld points, labels as in f16: %.4f\n", dtype, static_cast<long long>(points),
                share);
    EXPECT_GE(share, 0.98) << dtype;
    EXPECT_LT(share, 1) << dtype << ": nothing was rounded to 8 bits";
  }
}

TEST(NarrowExecutor, RefusesTheCpu) {
  const Plan plan = make_plan(network("minkunet18"));
  for (const DType dtype : {DType::e4m3, DType::i8})
    EXPECT_THROW(make_executor(plan, {.device = {}, .dtype = dtype}), base::Error);
}

}  // namespace
}  // namespace cuda_tests

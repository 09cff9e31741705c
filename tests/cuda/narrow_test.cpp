// 8-bit inference: which buffers narrow, merged shortcuts, and networks against the CPU's fp32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "io/simulator.hpp"
#include "sparseconv/architectures.hpp"
#include "sparseconv/cuda/narrow_check.hpp"
#include "sparseconv/cuda/narrow_plan.hpp"
#include "sparseconv/cuda/shortcut_plan.hpp"
#include "sparseconv/engine.hpp"
#include "sparseconv/executor.hpp"
#include "sparseconv/graph_builder.hpp"
#include "sparseconv/model.hpp"
#include "tests/cuda/host_map.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using base::DType;
using namespace sparseconv;

Model network(const std::string& name) {
  Model model = build_architecture(
      name, {.in_channels = 4, .classes = {}, .width = 1, .seed = 3, .voxel_size = 0.1});
  validate(model);
  return model;
}

// Features of the values -1, 0 and 1, or normal ones.
SparseTensor scan(int rows, unsigned seed, bool has_integers,
                  std::optional<SpatialShape> shape = std::nullopt) {
  std::vector<sparseconv::Coord> coords;
  for (const auto& c : surface_cells(rows, seed)) {
    const sparseconv::Coord at{0, c.x + (shape ? 120 : 0), c.y + (shape ? 100 : 0),
                               c.z + (shape ? 20 : 0)};
    const bool is_inside = !shape || (at.x >= 0 && at.y >= 0 && at.z >= 0 && at.x < (*shape)[0] &&
                                      at.y < (*shape)[1] && at.z < (*shape)[2]);
    if (is_inside) coords.push_back(at);
  }
  std::sort(coords.begin(), coords.end(),
            [](const auto& a, const auto& b) { return pack(a) < pack(b); });
  SparseTensor input;
  const auto count = static_cast<std::int64_t>(coords.size());
  input.coordinates =
      Coordinates::create(std::move(coords), {.batch_size = 1, .spatial_shape = shape});
  input.features = base::Tensor::empty({count, 4}, DType::f32);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  for (std::int64_t i = 0; i < input.features.numel(); ++i) {
    const float v = normal(random);
    input.features.data<float>()[i] =
        has_integers ? std::clamp(std::round(v), -1.f, 1.f) : static_cast<float>(base::half_t(v));
  }
  return input;
}

const ExecutorOptions kCpu{};
ExecutorOptions cuda(DType dtype) {
  return {.device = {base::Device::Kind::cuda, 0}, .dtype = dtype, .cache_maps = false};
}

// Root mean square of the differences over that of the values.
double relative_error(const base::Tensor& got, const base::Tensor& wanted) {
  EXPECT_EQ(base::to_string(got.shape()), base::to_string(wanted.shape()));
  double error = 0, size = 1e-30;
  for (std::int64_t i = 0; i < wanted.numel(); ++i) {
    const double x = got.data<float>()[i], y = wanted.data<float>()[i];
    error += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(error / size);
}

TEST(NarrowPlan, KeepsTheInputAndTheScoresWide) {
  cuda::DeviceSteps plan(make_plan(network("minkunet42")));
  cuda::merge_shortcuts(plan);
  cuda::choose_narrow_buffers(plan);
  EXPECT_FALSE(plan.is_narrow[static_cast<std::size_t>(plan.input.buffer)]);
  for (const PlanOutput& output : plan.outputs)
    EXPECT_FALSE(plan.is_narrow[static_cast<std::size_t>(output.value.buffer)]);
  int narrow = 0, wide = 0;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (!plan.extras[s].is_absorbed)
      ++(cuda::multiplies_narrow(plan, plan.steps[s]) ? narrow : wide);
  }
  EXPECT_EQ(wide, 1) << "the first convolution reads the input";
  EXPECT_GT(narrow, 40);
}

// A merged step in f16 has no kernel with 8-bit results or additions.
TEST(NarrowPlan, StepsThatMergeHalvesWriteAndAddHalves) {
  cuda::DeviceSteps plan(make_plan(network("minkunet42")));
  cuda::merge_shortcuts(plan);
  const auto merged =
      std::find_if(plan.extras.begin(), plan.extras.end(),
                   [](const cuda::StepExtras& extras) { return extras.own_weight.defined(); });
  ASSERT_NE(merged, plan.extras.end());
  const PlanStep& step = plan.steps[static_cast<std::size_t>(merged - plan.extras.begin())];
  plan.outputs.push_back({.value = step.inputs[1]});  // outputs are wide
  cuda::choose_narrow_buffers(plan);
  for (const PlanSlice& slice : {step.inputs[0], step.inputs[1], step.output})
    EXPECT_FALSE(plan.is_narrow[static_cast<std::size_t>(slice.buffer)]);
}

TEST(NarrowPlan, ScalesLeaveRoomAndArePowersOfTwo) {
  cuda::DeviceSteps plan(make_plan(network("minkunet18")));
  cuda::choose_narrow_buffers(plan);
  std::vector<float> largest;
  for (std::size_t s = 0; s < plan.steps.size(); ++s)
    largest.push_back(0.01f * static_cast<float>(s + 1));
  const auto scales = cuda::narrow_scales(plan, largest, DType::e4m3),
             of_i8 = cuda::narrow_scales(plan, largest, DType::i8);
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const auto b = static_cast<std::size_t>(plan.steps[s].output.buffer);
    int exponent = 0;
    EXPECT_EQ(std::frexp(scales[b], &exponent), 0.5f);
    if (plan.is_narrow[b]) {
      EXPECT_LE(2 * largest[s] / scales[b], 448);
      EXPECT_LE(largest[s] / of_i8[b], 127.001f);
    } else {
      EXPECT_EQ(scales[b], 1);
      EXPECT_EQ(of_i8[b], 1);
    }
  }
}

TEST(ShortcutPlan, MergesEveryProjectionOfAUNet) {
  cuda::DeviceSteps plan(make_plan(network("minkunet42")));
  const Plan before = plan;
  cuda::merge_shortcuts(plan);
  int absorbed = 0, merged = 0;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    absorbed += plan.extras[s].is_absorbed;
    if (!plan.extras[s].own_weight.defined()) continue;
    ++merged;
    EXPECT_EQ(step.inputs.size(), 2u);
    EXPECT_EQ(step.output.buffer, before.steps[s].output.buffer);
    EXPECT_GE(step.map, 0);
    for (const PlanEpilogueNode& node : step.epilogue) EXPECT_LT(node.aux.buffer, 0);
    for (const PlanSlice& input : step.inputs) {
      const PlanBuffer& buffer = plan.buffers[static_cast<std::size_t>(input.buffer)];
      EXPECT_LE(buffer.first_step, static_cast<int>(s));
      EXPECT_GE(buffer.last_step, static_cast<int>(s));
    }
  }
  EXPECT_EQ(absorbed, 7);  // encoders 64, 128, 256 and all four decoders change their width
  EXPECT_EQ(merged, 7);
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
  // Without spunet: with random weights its values grow 10^4-fold, and both types lose them
  // (docs/cuda_state.md).
  for (const char* name : {"minkunet18", "minkunet42", "second", "voxelnext"}) {
    const Plan plan = make_plan(network(name));
    const bool is_bounded = std::string(name) == "second" || std::string(name) == "voxelnext";
    const auto shape = is_bounded ? std::optional(SpatialShape{240, 200, 41}) : std::nullopt;
    const SparseTensor input = scan(6000, 17, false, shape);
    FrameOutput expected;
    make_cpu_executor(plan, kCpu)->run({.voxels = input}, expected);
    for (const DType dtype : {DType::e4m3, DType::i8}) {
      // Random residual networks have values that are far apart: too far for steps of one size.
      if (dtype == DType::i8 && !is_bounded) continue;
      FrameOutput output;
      make_cuda_executor(plan, cuda(dtype))->run({.voxels = input}, output);
      expect_close(output, expected, std::string(name) + ' ' + std::string(base::name(dtype)));
    }
  }
}

// Never a wrong result: networks whose values 8 bits do not carry are refused.
TEST(NarrowExecutor, IsCloseOrRefuses) {
  REQUIRE_HOPPER();
  for (const char* name : {"minkunet18", "spunet"}) {
    const Plan plan = make_plan(network(name));
    const SparseTensor input = scan(6000, 17, false);
    FrameOutput expected;
    make_cpu_executor(plan, kCpu)->run({.voxels = input}, expected);
    for (const DType dtype : {DType::e4m3, DType::i8}) {
      const auto executor = make_cuda_executor(plan, cuda(dtype));
      for (int repeat = 0; repeat < 2; ++repeat) {
        FrameOutput output;
        try {
          executor->run({.voxels = input}, output);
        } catch (const base::Error& error) {
          EXPECT_NE(std::string(error.what()).find("does not survive 8 bits"), std::string::npos)
              << error.what();
          continue;
        }
        EXPECT_LE(
            relative_error(output.outputs[0].sparse.features, expected.outputs[0].sparse.features),
            0.6)
            << name;
      }
    }
  }
}

TEST(NarrowCheck, RefusesWhatIsFarOff) {
  const auto frame = [](std::vector<float> values, std::vector<std::uint16_t> classes) {
    FrameOutput output;
    output.outputs.resize(1);
    output.outputs[0].node = "head";
    auto& features = output.outputs[0].sparse.features;
    features = base::Tensor::empty({static_cast<std::int64_t>(values.size()), 1}, DType::f32);
    std::copy(values.begin(), values.end(), features.data<float>());
    output.classes = std::move(classes);
    return output;
  };
  const float nan = std::nanf("");
  const FrameOutput wide = frame({3, -4, 0}, {0, 1, 2, kNoClass});
  EXPECT_NO_THROW(cuda::check_narrow(wide, frame({3, -4, 2.4f}, {0, 1, 2, kNoClass}), "int8"));
  EXPECT_THROW(cuda::check_narrow(wide, frame({3, -4, 2.6f}, {0, 1, 2, kNoClass}), "int8"),
               base::Error);
  EXPECT_THROW(cuda::check_narrow(wide, frame({0, 0, 0}, {0, 1, 2, kNoClass}), "int8"),
               base::Error);
  EXPECT_THROW(cuda::check_narrow(wide, frame({3, -4, nan}, {0, 1, 2, kNoClass}), "int8"),
               base::Error);
  EXPECT_THROW(cuda::check_narrow(wide, frame({3, -4, 0}, {0, 1, 1, kNoClass}), "int8"),
               base::Error);
  const FrameOutput nothing = frame({0, 0, 0}, {kNoClass, kNoClass, kNoClass, kNoClass});
  EXPECT_NO_THROW(cuda::check_narrow(nothing, frame({1, 2, 3}, {0, 0, 0, 0}), "int8"));
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

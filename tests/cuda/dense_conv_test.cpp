// Dense convolution on the device against the CPU's, every kernel that takes a case.
#include <gtest/gtest.h>

#include <set>

#include "gemm_core/device/cuda/conv/conv_instances.hpp"
#include "tests/cuda/dense_conv_case.hpp"
#include "tests/cuda/require_device.hpp"

namespace {

using namespace conv_case;  // NOLINT: a test file

std::set<std::string>& kernels_seen() {
  static std::set<std::string> seen;
  return seen;
}

void check(const Case& c, ConvOperation op) {
  DeviceConv conv(c, op);
  conv.compute_expected();
  if (testing::Test::HasFatalFailure()) return;
  const ConvArguments g = conv.arguments();
  const auto names = gemm_core::cuda::conv_kernel_names(g);
  ASSERT_FALSE(names.empty()) << describe(c, op) << ": "
                              << gemm_core::cuda::Conv::can_implement(g).message;
  for (const std::string& name : names) {
    const GemmStatus status = conv.run(g, {name, 4});
    ASSERT_TRUE(status.ok()) << name << ": " << describe(c, op) << ": " << status.message;
    conv.expect_right(name);
    if (testing::Test::HasFatalFailure()) return;
    kernels_seen().insert(name);
  }
}

ConvProblem plane(std::int64_t batch, std::int64_t side, std::int64_t channels,
                  std::int64_t filters, std::int64_t stride = 1) {
  return {.axes = 2,
          .batch = batch,
          .channels = channels,
          .filters = filters,
          .input = {1, side, side},
          .kernel = {1, 3, 3},
          .lower = {0, 1, 1},
          .upper = {0, 1, 1},
          .stride = {1, stride, stride}};
}

TEST(CudaConv, TheExampleInOneDimensionComesOutAsByHand) {
  REQUIRE_DEVICE();
  const ConvProblem p{.axes = 1,
                      .input = {1, 1, 5},
                      .kernel = {1, 1, 3},
                      .lower = {0, 0, 1},
                      .upper = {0, 0, 2},
                      .stride = {1, 1, 2}};
  std::vector<float> values{1, 2, 3, 4, 5, 1, 10, 100, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  base::cuda::Buffer<float> device(values.size());
  float *x = device.data(), *w = x + 5, *ones = x + 8, *y = x + 11, *dx = x + 14, *dw = x + 19;
  const auto stream = base::cuda::Stream::create();
  const std::vector<float> expected{210, 432, 54, 10, 101, 10, 101, 10, 6, 9, 6};
  for (const std::string kernel : {"depthwise", "table_simt_float32"}) {
    base::cuda::upload(device, values.data(), values.size(), stream.get());
    const auto run = [&](ConvOperation op, float* a, float* b, float* d) {
      const ConvArguments g{.operation = op, .problem = p, .a = {a}, .b = {b}, .d = {d}};
      Bytes workspace(gemm_core::cuda::Conv::workspace_size(g, {kernel}));
      gemm_core::cuda::Conv conv;
      ASSERT_TRUE(
          conv.initialize(g, workspace.data(), workspace.size(), stream.get(), {kernel}).ok());
      ASSERT_TRUE(conv.run(stream.get()).ok());
      stream.synchronize();
    };
    run(kForward, x, w, y);
    run(kActivation, ones, w, dx);
    run(kFilter, ones, x, dw);
    std::vector<float> all(values.size());
    base::cuda::download(all.data(), device, all.size(), stream.get());
    stream.synchronize();
    EXPECT_EQ(std::vector<float>(all.begin() + 11, all.end()), expected) << kernel;
  }
}

TEST(CudaConv, EqualsTheCpuForEveryKernelPastOneTile) {
  REQUIRE_DEVICE();
  for (const DType type : {DType::f16, DType::bf16}) {
    for (const ConvOperation op : kOperations) {
      check({plane(3, 14, 64, 72), type, type, type}, op);
      check({plane(2, 13, 136, 264), type, type, type}, op);
    }
    check({plane(2, 15, 64, 128, 2), type, type, type}, kActivation);
    check({plane(3, 14, 128, 40, 2), type, type, type}, kActivation);
  }
  check({plane(2, 14, 64, 136), DType::f32, DType::f32, DType::tf32}, kForward);
  if (!base::cuda::device_info(0).has_wgmma()) return;
  for (const auto* instance : gemm_core::cuda::conv_instances())
    EXPECT_TRUE(kernels_seen().contains(instance->shape.name))
        << instance->shape.name << " was not run";
}

TEST(CudaConv, ReadsPaddingStridesAndDilationOnEveryAxis) {
  REQUIRE_DEVICE();
  for (const ConvOperation op : kOperations) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t dilation : {1, 2}) {
        Case c{.in = DType::f16, .out = DType::f16, .compute = DType::f16};
        c.problem = {.axes = 2,
                     .batch = 2,
                     .channels = 64,
                     .filters = 64,
                     .input = {1, 17, 12},
                     .kernel = {1, 3, 4},
                     .lower = {0, 2, 0},
                     .upper = {0, 1, 3},
                     .stride = {1, stride, 1},
                     .dilation = {1, dilation, 1}};
        check(c, op);
        std::swap(c.problem.stride[1], c.problem.stride[2]);
        std::swap(c.problem.dilation[1], c.problem.dilation[2]);
        check(c, op);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CudaConv, TakesOneAndThreeAxesGroupsFlippedFiltersAndGaps) {
  REQUIRE_DEVICE();
  for (const ConvOperation op : kOperations) {
    Case c{.in = DType::f16, .out = DType::f16, .compute = DType::f16};
    c.problem = {.axes = 1,
                 .batch = 3,
                 .channels = 64,
                 .filters = 96,
                 .input = {1, 1, 301},
                 .kernel = {1, 1, 5},
                 .lower = {0, 0, 3},
                 .upper = {0, 0, 1},
                 .stride = {1, 1, 2},
                 .flip = true};
    check(c, op);
    c.problem = {.axes = 3,
                 .batch = 2,
                 .channels = 128,
                 .filters = 64,
                 .groups = 2,
                 .input = {5, 6, 7},
                 .kernel = {3, 2, 3},
                 .lower = {1, 0, 2},
                 .upper = {1, 2, 0},
                 .stride = {2, 1, 1},
                 .dilation = {1, 2, 1},
                 .flip = true};
    check(c, op);
    c.problem = plane(2, 9, 40, 56);
    c.gap = 8;
    check(c, op);
    c.gap = 3;
    check(c, op);
    if (HasFatalFailure()) return;
  }
}

TEST(CudaConv, EqualsTheCpuForEveryType) {
  REQUIRE_DEVICE();
  const DType h = DType::f16, f = DType::f32;
  for (const ConvOperation op : kOperations) {
    for (const auto& [in, out, compute] : {std::tuple{f, f, f},
                                           {f, f, DType::tf32},
                                           {h, f, h},
                                           {f, h, h},
                                           {h, h, f},
                                           {DType::f64, DType::f64, DType::f64},
                                           {DType::e4m3, f, DType::e4m3},
                                           {DType::i8, DType::i32, DType::i8},
                                           {DType::i8, f, DType::i8}}) {
      check({plane(2, 7, 12, 20), in, out, compute}, op);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CudaConv, DepthwiseEqualsTheCpu) {
  REQUIRE_DEVICE();
  for (const ConvOperation op : kOperations) {
    for (const std::int64_t channels : {1, 13, 64, 200}) {
      for (const std::int64_t stride : {1, 2}) {
        Case c{.problem = plane(2, 11, channels, channels, stride),
               .in = DType::f16,
               .out = DType::f16,
               .compute = DType::f16};
        c.problem.groups = channels;
        c.problem.dilation = {1, 2, 1};
        check(c, op);
        c.in = c.out = c.compute = stride == 1 ? DType::f32 : DType::bf16;
        c.problem.flip = true;
        c.problem.kernel = {1, 5, 4};
        c.problem.lower = {0, 3, 1};
        check(c, op);
        c.in = c.out = c.compute = DType::f32;
        c.alpha = 0.5, c.beta = -2;
        check(c, op);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CudaConv, ScalesAddsAndRunsNodes) {
  REQUIRE_DEVICE();
  for (const ConvOperation op : kOperations)
    check({plane(2, 12, 64, 128), DType::f16, DType::f16, DType::f16, 0, 1.5, -0.5}, op);
  // Nodes: bias, residual, relu. The CPU's have host vectors.
  const Case c{plane(2, 12, 64, 72), DType::f16, DType::f16, DType::f16};
  DeviceConv conv(c, kForward);
  const std::int64_t rows = 2 * 12 * 12, columns = 72;
  std::vector<float> shift(72);
  std::vector<base::half_t> residual(static_cast<std::size_t>(rows * columns));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (auto& v : shift) v = normal(random);
  for (auto& v : residual) v = base::half_t(normal(random));
  const auto view = [&](const void* data) {
    return base::ConstTensorView{data, DType::f16, {}, {rows, columns}, {columns, 1}};
  };
  ConvArguments host = conv.host().arguments();
  host.epilogue.scale_shift(nullptr, shift.data())
      .add(view(residual.data()))
      .activate(Activation::relu);
  conv.compute_expected(&host);
  base::cuda::Buffer<float> device_shift(shift.size());
  base::cuda::Buffer<base::half_t> device_residual(residual.size());
  CUDA_CHECK(
      cudaMemcpy(device_shift.data(), shift.data(), device_shift.nbytes(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(device_residual.data(), residual.data(), device_residual.nbytes(),
                        cudaMemcpyHostToDevice));
  ConvArguments g = conv.arguments();
  g.epilogue.scale_shift(nullptr, device_shift.data())
      .add(view(device_residual.data()))
      .activate(Activation::relu);
  for (const std::string& name : gemm_core::cuda::conv_kernel_names(g)) {
    ASSERT_TRUE(conv.run(g, {name}).ok());
    conv.expect_right(name, 4);
  }
}

TEST(CudaConv, EqualsTheCpuOnRandomProblems) {
  REQUIRE_DEVICE();
  std::mt19937 random(11);
  const auto pick = [&](std::initializer_list<std::int64_t> list) {
    return list.begin()[random() % list.size()];
  };
  const int count = base::cuda::device_info(0).has_wgmma() ? 120 : 40;
  for (int i = 0; i < count && !HasFatalFailure(); ++i) {
    Case c;
    ConvProblem& p = c.problem;
    p.axes = 1 + static_cast<int>(random() % 3);
    p.batch = pick({1, 2, 3});
    p.groups = pick({1, 1, 1, 2});
    p.channels = p.groups * pick({8, 32, 40, 64, 128, 5});
    p.filters = p.groups * pick({8, 32, 64, 72, 136, 7});
    p.flip = random() % 2 == 0;
    for (std::size_t axis = 3 - static_cast<std::size_t>(p.axes); axis < 3; ++axis) {
      p.input[axis] = p.axes == 1 ? pick({40, 129, 500}) : pick({5, 8, 11});
      p.kernel[axis] = pick({1, 2, 3});
      p.lower[axis] = pick({0, 1, 2});
      p.upper[axis] = pick({0, 1, 3});
      p.stride[axis] = pick({1, 1, 2, 3});
      p.dilation[axis] = pick({1, 1, 2});
    }
    const DType type = random() % 3 == 0 ? DType::f32 : random() % 2 ? DType::f16 : DType::bf16;
    c.in = type;
    c.out = type;
    c.compute = type == DType::f32 && random() % 2 ? DType::tf32 : type;
    c.gap = pick({0, 0, 8, 1});
    c.beta = random() % 4 == 0 ? 0.5 : 0;
    check(c, kOperations[random() % 3]);
  }
}

TEST(CudaConv, GivesTheSameBitsInEveryRunAndInAGraph) {
  REQUIRE_DEVICE();
  for (const ConvOperation op : kOperations) {
    DeviceConv conv(
        {plane(4, 28, 64, 64, op == kActivation ? 2 : 1), DType::f16, DType::f16, DType::f16}, op);
    const ConvArguments g = conv.arguments();
    const auto stream = base::cuda::Stream::create();
    Bytes workspace(gemm_core::cuda::Conv::workspace_size(g));
    gemm_core::cuda::Conv cuda;
    ASSERT_TRUE(cuda.initialize(g, workspace.data(), workspace.size(), stream.get()).ok());
    ASSERT_TRUE(cuda.run(stream.get()).ok());
    stream.synchronize();
    conv.download();
    const auto first = conv.got();
    const auto graph = base::cuda::Graph::capture(stream.get(), [&] { cuda.run(stream.get()); });
    for (int i = 0; i < 30; ++i) {
      if (i % 2)
        graph.launch(stream.get());
      else
        ASSERT_TRUE(cuda.run(stream.get()).ok());
      stream.synchronize();
      conv.download();
      ASSERT_EQ(conv.got(), first) << "run " << i << " of " << cuda.kernel_name();
    }
  }
}

TEST(CudaConv, EmptyBatchesLaunchNothingAndGiveZeroFilterGradients) {
  REQUIRE_DEVICE();
  base::cuda::Buffer<float> values(64);
  CUDA_CHECK(cudaMemset(values.data(), 0xff, values.nbytes()));
  ConvProblem p{.axes = 2, .batch = 0, .channels = 2, .filters = 3, .input = {1, 4, 4}};
  const auto stream = base::cuda::Stream::create();
  gemm_core::cuda::Conv conv;
  ASSERT_TRUE(conv.initialize({.problem = p}, nullptr, 0, stream.get()).ok());
  EXPECT_EQ(conv.kernel_name(), "none");
  ASSERT_TRUE(conv.run(stream.get()).ok());
  const ConvArguments g{.operation = kFilter,
                        .problem = p,
                        .a = {values.data() + 32},
                        .b = {values.data() + 48},
                        .d = {values.data()}};
  Bytes workspace(gemm_core::cuda::Conv::workspace_size(g));
  ASSERT_TRUE(conv.initialize(g, workspace.data(), workspace.size(), stream.get()).ok());
  ASSERT_TRUE(conv.run(stream.get()).ok());
  std::vector<float> got(6);
  base::cuda::download(got.data(), values, got.size(), stream.get());
  stream.synchronize();
  EXPECT_EQ(got, std::vector<float>(6, 0.f));
}

// Kernels that need no Hopper: a run with CUDA_FORCE_PTX_JIT=1 takes what was compiled for sm_80.
TEST(CudaPortableConv, EqualsTheCpu) {
  REQUIRE_DEVICE();
  for (const ConvOperation op : kOperations) {
    for (const auto& [in, out, compute] : {std::tuple{DType::f16, DType::f16, DType::f16},
                                           {DType::bf16, DType::f32, DType::bf16},
                                           {DType::f32, DType::f32, DType::tf32},
                                           {DType::f32, DType::f32, DType::f32},
                                           {DType::f64, DType::f64, DType::f64},
                                           {DType::i8, DType::i32, DType::i8}}) {
      for (const std::int64_t groups : {1, 8}) {
        Case c{plane(1, 9, 8, 8, 2), in, out, compute};
        c.problem.groups = groups;
        DeviceConv conv(c, op);
        conv.compute_expected();
        const ConvArguments g = conv.arguments();
        int count = 0;
        for (const std::string& name : gemm_core::cuda::conv_kernel_names(g)) {
          if (name != "depthwise" && name.rfind("table", 0) != 0) continue;
          ASSERT_TRUE(conv.run(g, {name}).ok());
          conv.expect_right(name);
          if (HasFatalFailure()) return;
          ++count;
        }
        EXPECT_GE(count, 1);
      }
    }
  }
}

TEST(CudaConv, RefusesWhatItCannotDoAndSaysSo) {
  REQUIRE_DEVICE();
  using Code = GemmStatus::Code;
  DeviceConv conv({plane(1, 8, 8, 8)}, kForward);
  const ConvArguments right = conv.arguments();
  const auto expect = [](const ConvArguments& g, Code code, const char* part) {
    const GemmStatus s = gemm_core::cuda::Conv::can_implement(g);
    EXPECT_EQ(s.code, code) << s.message;
    EXPECT_NE(s.message.find(part), std::string::npos) << s.message;
    EXPECT_EQ(s.message.rfind("conv on CUDA: ", 0), 0u) << s.message;
  };
  EXPECT_TRUE(gemm_core::cuda::Conv::can_implement(right).ok());
  ConvArguments g = right;
  g.a.data = conv.host().activation.bytes.data();
  expect(g, Code::wrong_device, "operand A");
  g = right;
  g.path = Path::gathered;
  expect(g, Code::unsupported, "gathered");
  g = right;
  g.problem.stride = {1, 0, 1};
  expect(g, Code::invalid_extent, "stride 0");
  EXPECT_EQ(gemm_core::cuda::Conv::can_implement(right, {"no such kernel"}).code,
            Code::unsupported);
  gemm_core::cuda::Conv cuda;
  EXPECT_EQ(cuda.run(nullptr).code, Code::not_initialized);
  EXPECT_EQ(cuda.initialize(right, nullptr, 0, nullptr).code, Code::small_workspace);
}

}  // namespace

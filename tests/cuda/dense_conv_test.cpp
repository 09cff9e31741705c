// Dense convolution on the device against the CPU's, every kernel that takes a case.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/cuda/conv.hpp"
#include "gemm_core/device/cuda/conv_instances.hpp"
#include "tests/cuda/require_device.hpp"
#include "tests/gemm_core/conv_oracle.hpp"

namespace {

using namespace conv_case;  // NOLINT: a test file
using gemm_core::Activation;
using gemm_core::cuda::ConvPlan;
using Bytes = base::cuda::Buffer<std::uint8_t>;

constexpr ConvOperation kForward = ConvOperation::forward,
                        kActivation = ConvOperation::activation_gradient,
                        kFilter = ConvOperation::filter_gradient;
constexpr ConvOperation kOperations[] = {kForward, kActivation, kFilter};

std::string describe(const Case& c, ConvOperation op) {
  const ConvProblem& p = c.problem;
  const auto text = [](const Axes& a) { return base::concat(a[0], "x", a[1], "x", a[2]); };
  return base::concat(
      "operation ", static_cast<int>(op), " axes ", p.axes, " batch ", p.batch, " C ", p.channels,
      " K ", p.filters, " groups ", p.groups, " input ", text(p.input), " kernel ", text(p.kernel),
      " lower ", text(p.lower), " upper ", text(p.upper), " stride ", text(p.stride), " dilation ",
      text(p.dilation), " flip ", p.flip, " gap ", c.gap, " ", base::name(c.in), " -> ",
      base::name(c.out), " as ", base::name(c.compute), " alpha ", c.alpha, " beta ", c.beta);
}

// A case with its operands here and on the device.
class DeviceConv {
 public:
  DeviceConv(const Case& c, ConvOperation op) : case_(c), operation_(op), host_(c, op) {
    if (c.compute == DType::tf32) {  // so that cutting bits off and rounding agree
      for (Tensor* t : {&host_.activation, &host_.filter, &host_.output}) {
        if (t->type != DType::f32) continue;
        auto* values = reinterpret_cast<float*>(t->bytes.data());
        for (std::size_t i = 0; i < t->bytes.size() / 4; ++i)
          values[i] = base::round_to_tf32(values[i]);
      }
    }
    untouched_ = host_.d().bytes;
    upload(activation_, host_.activation);
    upload(filter_, host_.filter);
    upload(output_, host_.output);
    upload(c_, host_.c);
  }

  ConvArguments arguments() {
    ConvArguments g = host_.arguments();
    const auto put = [](gemm_core::ConvTensor& t, Bytes& bytes) { t.data = bytes.data(); };
    put(g.a, operation_ == kForward ? activation_ : output_);
    put(g.b, operation_ == kFilter ? activation_ : filter_);
    put(g.c, c_);
    put(g.d, result_bytes());
    return g;
  }
  Sample& host() { return host_; }

  // The CPU's result and the sums of the products' magnitudes.
  void compute_expected(const ConvArguments* with = nullptr) {
    ConvArguments g = with ? *with : host_.arguments();
    ASSERT_TRUE(conv_case::run(g).ok()) << describe(case_, operation_);
    expected_ = host_.d().bytes;
    Case plain{.problem = case_.problem};
    Sample sums(plain, operation_);
    const auto copy = [](Tensor& to, const Tensor& from) {
      for (std::int64_t n = 0; n < from.outer; ++n) {
        for_each(from.extent, [&](const Axes& at) {
          for (std::int64_t ch = 0; ch < from.channels; ++ch)
            write(to.bytes.data(), to.type, to.at(n, at, ch), std::fabs(from(n, at, ch)));
        });
      }
    };
    if (operation_ != kActivation) copy(sums.activation, host_.activation);
    if (operation_ != kFilter) copy(sums.filter, host_.filter);
    if (operation_ != kForward) copy(sums.output, host_.output);
    ASSERT_TRUE(conv_case::run(sums.arguments()).ok());
    magnitudes_.emplace(sums.d());
  }

  GemmStatus run(const ConvArguments& g, const ConvPlan& plan) {
    CUDA_CHECK(cudaMemcpy(result_bytes().data(), untouched_.data(), untouched_.size(),
                          cudaMemcpyHostToDevice));
    const auto stream = base::cuda::Stream::create();
    const std::size_t bytes = gemm_core::cuda::Conv::workspace_size(g, plan);
    Bytes workspace(bytes);
    gemm_core::cuda::Conv conv;
    if (auto s = conv.initialize(g, workspace.data(), bytes, stream.get(), plan); !s.ok()) return s;
    EXPECT_TRUE(plan.kernel.empty() || conv.kernel_name() == plan.kernel) << plan.kernel;
    if (auto s = conv.run(stream.get()); !s.ok()) return s;
    stream.synchronize();
    download();
    return {};
  }
  void download() {
    got_.resize(untouched_.size());
    CUDA_CHECK(cudaMemcpy(got_.data(), result_bytes().data(), got_.size(), cudaMemcpyDeviceToHost));
  }
  const std::vector<std::uint8_t>& got() const { return got_; }

  // Products of one element of the result, at most.
  double terms() const {
    const ConvProblem& p = case_.problem;
    const auto product = [](const Axes& x) { return static_cast<double>(x[0] * x[1] * x[2]); };
    if (operation_ == kFilter) return static_cast<double>(p.batch) * product(p.output());
    const std::int64_t channels = operation_ == kForward ? p.channels : p.filters;
    return static_cast<double>(channels / p.groups * p.taps());
  }

  void expect_right(const std::string& kernel, double gain = 1) {
    const Tensor& d = host_.d();
    const double k = terms(), u = std::ldexp(1.0, -24);
    const bool is_double = case_.compute == DType::f64;
    // Tensor cores cut the last bit of each instruction's sum; others round each product. The CPU's
    // chains of 256.
    const double share = is_double                    ? 2 * (k + 4) * std::ldexp(1.0, -53)
                         : case_.compute == DType::i8 ? 0
                                                      : (std::min(256.0, k) + k / 256 + k + 8) * u;
    const double unit = gemm_case::unit_roundoff(d.type);
    std::vector<bool> inside(got_.size() / static_cast<std::size_t>(base::bytes(d.type)));
    for (std::int64_t n = 0; n < d.outer; ++n) {
      for_each(d.extent, [&](const Axes& at) {
        for (std::int64_t ch = 0; ch < d.channels; ++ch) {
          const std::int64_t i = d.at(n, at, ch);
          inside[static_cast<std::size_t>(i)] = true;
          const double expected = read(expected_.data(), d.type, i);
          const double addend = case_.beta == 0 ? 0 : std::fabs(case_.beta * host_.c(n, at, ch));
          double tolerance = gain * (std::fabs(case_.alpha) * (*magnitudes_)(n, at, ch) * share +
                                     8 * u * (addend + std::fabs(expected)));
          if (d.type == DType::i32) tolerance = 0;
          if (d.type == DType::f64) tolerance = gain * (*magnitudes_)(n, at, ch) * (share + 1e-15);
          if (d.type != DType::f64 && d.type != DType::i32)
            tolerance += 2 * unit * std::fabs(expected) + 2 * gemm_case::smallest_half_step(d.type);
          ASSERT_LE(std::fabs(read(got_.data(), d.type, i) - expected), tolerance)
              << kernel << ": " << describe(case_, operation_) << " at " << n << ", " << at[0]
              << ", " << at[1] << ", " << at[2] << ", " << ch << ": got "
              << read(got_.data(), d.type, i) << ", expected " << expected;
        }
      });
      if (testing::Test::HasFatalFailure()) return;
    }
    const auto size = static_cast<std::size_t>(base::bytes(d.type));
    for (std::size_t i = 0; i < inside.size(); ++i) {
      if (inside[i]) continue;
      ASSERT_TRUE(std::equal(got_.begin() + static_cast<long>(i * size),
                             got_.begin() + static_cast<long>((i + 1) * size),
                             untouched_.begin() + static_cast<long>(i * size)))
          << kernel << ": " << describe(case_, operation_) << " wrote element " << i << " beside D";
    }
  }

 private:
  static void upload(Bytes& to, const Tensor& from) {
    to = Bytes(from.bytes.size());
    CUDA_CHECK(cudaMemcpy(to.data(), from.bytes.data(), from.bytes.size(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  Bytes& result_bytes() {
    return operation_ == kForward ? output_ : operation_ == kFilter ? filter_ : activation_;
  }

  Case case_;
  ConvOperation operation_;
  Sample host_;
  std::vector<std::uint8_t> untouched_, expected_, got_;
  std::optional<Tensor> magnitudes_;
  Bytes activation_, filter_, output_, c_;
};

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
        c.in = c.out = c.compute = DType::f32;
        c.problem.flip = true;
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

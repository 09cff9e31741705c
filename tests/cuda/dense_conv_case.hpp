// A dense convolution on the device beside the same on the CPU, and how far apart they may be.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/cuda/conv/conv.hpp"
#include "tests/gemm_core/conv_oracle.hpp"

namespace conv_case {

using gemm_core::Activation;
using gemm_core::cuda::ConvPlan;
using Bytes = base::cuda::Buffer<std::uint8_t>;

inline constexpr ConvOperation kForward = ConvOperation::forward,
                               kActivation = ConvOperation::activation_gradient,
                               kFilter = ConvOperation::filter_gradient;
inline constexpr ConvOperation kOperations[] = {kForward, kActivation, kFilter};

inline std::string describe(const Case& c, ConvOperation op) {
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
    CUDA_CHECK(cudaDeviceSynchronize());  // streams of their own do not wait for the copy
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

}  // namespace conv_case

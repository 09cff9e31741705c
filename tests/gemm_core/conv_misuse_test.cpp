// The im2col view as a layout, and what a convolution refuses.
#include <gtest/gtest.h>

#include "gemm_core/layout/algebra.hpp"
#include "tests/gemm_core/conv_oracle.hpp"

namespace {

using namespace conv_case;  // NOLINT: a test file

// im2col is a layout: ((N,Z,P,Q),(C,T,R,S)) with these strides, a base, and a range test.
TEST(Im2col, IsALayoutWithABaseAndARangeTest) {
  const ConvProblem p{.axes = 3,
                      .batch = 2,
                      .channels = 3,
                      .filters = 1,
                      .input = {4, 5, 6},
                      .kernel = {2, 3, 2},
                      .lower = {1, 2, 0},
                      .upper = {0, 1, 1},
                      .stride = {2, 1, 3},
                      .dilation = {1, 2, 2}};
  const Axes out = p.output();
  const std::int64_t w = p.channels, h = p.input[2] * w, d = p.input[1] * h, n = p.input[0] * d;
  const layout::LayoutTree view(
      {{p.batch, out[0], out[1], out[2]}, {p.channels, p.kernel[0], p.kernel[1], p.kernel[2]}},
      {{n, p.stride[0] * d, p.stride[1] * h, p.stride[2] * w},
       {1, p.dilation[0] * d, p.dilation[1] * h, p.dilation[2] * w}});
  const std::int64_t base = -(p.lower[0] * d + p.lower[1] * h + p.lower[2] * w);
  const std::int64_t rows = p.batch * out[0] * out[1] * out[2];
  std::int64_t seen = 0;
  for_each_product(p, [&](auto batch, const Axes& o, const Axes& in, const Axes& tap, auto, auto c,
                          auto) {
    const std::int64_t row = batch + p.batch * (o[0] + out[0] * (o[1] + out[1] * o[2]));
    const std::int64_t column =
        c + p.channels * (tap[0] + p.kernel[0] * (tap[1] + p.kernel[1] * tap[2]));
    EXPECT_EQ(base + view(row + rows * column), batch * n + in[0] * d + in[1] * h + in[2] * w + c);
    ++seen;
  });
  EXPECT_GT(seen, 600);
}

// The gradient of the activation reads dy through one, too: ((N,D,H,W),(K,T,R,S)), whose taps step
// backwards, where strides are 1. (The gradient of the filter reads x through the first.)
TEST(Im2col, OfAnActivationGradientIsALayoutThatStepsBackwards) {
  const ConvProblem p{.axes = 3,
                      .batch = 2,
                      .channels = 1,
                      .filters = 3,
                      .input = {4, 5, 6},
                      .kernel = {2, 3, 2},
                      .lower = {1, 2, 0},
                      .upper = {0, 1, 1},
                      .dilation = {1, 2, 2}};
  const Axes out = p.output();
  const std::int64_t w = p.filters, h = out[2] * w, d = out[1] * h, n = out[0] * d;
  const layout::LayoutTree view(
      {{p.batch, p.input[0], p.input[1], p.input[2]},
       {p.filters, p.kernel[0], p.kernel[1], p.kernel[2]}},
      {{n, d, h, w}, {1, -p.dilation[0] * d, -p.dilation[1] * h, -p.dilation[2] * w}});
  const std::int64_t base = p.lower[0] * d + p.lower[1] * h + p.lower[2] * w;
  const std::int64_t rows = p.batch * p.input[0] * p.input[1] * p.input[2];
  std::int64_t seen = 0;
  for_each_product(p, [&](auto batch, const Axes& o, const Axes& in, const Axes& tap, auto k, auto,
                          auto) {
    const std::int64_t row = batch + p.batch * (in[0] + p.input[0] * (in[1] + p.input[1] * in[2]));
    const std::int64_t column =
        k + p.filters * (tap[0] + p.kernel[0] * (tap[1] + p.kernel[1] * tap[2]));
    EXPECT_EQ(base + view(row + rows * column), batch * n + o[0] * d + o[1] * h + o[2] * w + k);
    ++seen;
  });
  EXPECT_GT(seen, 600);
}

TEST(Conv, RefusesWhatDoesNotFitAndNamesIt) {
  using Code = GemmStatus::Code;
  const auto refusal = [](auto spoil) {
    Sample r({.problem = {.axes = 2,
                          .batch = 1,
                          .channels = 4,
                          .filters = 4,
                          .input = {1, 5, 5},
                          .kernel = {1, 3, 3}}},
             ConvOperation::forward);
    ConvArguments g = r.arguments();
    spoil(g);
    const auto before = r.output.bytes;
    Conv conv;
    std::vector<std::uint8_t> workspace(1 << 20);
    const GemmStatus status = conv.initialize(g, workspace.data(), workspace.size());
    EXPECT_EQ(conv.run().code, Code::not_initialized);
    EXPECT_EQ(before, r.output.bytes);
    EXPECT_EQ(Conv::workspace_size(g), 0u);
    return status;
  };
  const auto expect = [&](Code code, const char* words, auto spoil) {
    const GemmStatus s = refusal(spoil);
    EXPECT_EQ(s.code, code) << s.message;
    EXPECT_NE(s.message.find(words), std::string::npos) << s.message;
  };
  expect(Code::invalid_extent, "groups 0", [](auto& g) { g.problem.groups = 0; });
  expect(Code::invalid_extent, "no multiples of 3 groups", [](auto& g) { g.problem.groups = 3; });
  expect(Code::invalid_extent, "axis 1: a kernel of 9", [](auto& g) { g.problem.kernel[1] = 9; });
  expect(Code::invalid_extent, "axis 2", [](auto& g) { g.problem.stride[2] = 0; });
  expect(Code::invalid_extent, "axis 2", [](auto& g) { g.problem.lower[2] = -1; });
  expect(Code::invalid_extent, "axis 0 is not used", [](auto& g) { g.problem.input[0] = 2; });
  expect(Code::null_operand, "operand B", [](auto& g) { g.b.data = nullptr; });
  expect(Code::null_operand, "beta is 2", [](auto& g) { g.beta = 2, g.c.data = nullptr; });
  expect(Code::misaligned, "operand A",
         [](auto& g) { g.a.data = static_cast<char*>(g.a.data) + 2; });
  expect(Code::overlap, "D overlaps operand A", [](auto& g) { g.d.data = g.a.data; });
  expect(Code::overlap, "D overlaps operand C",
         [](auto& g) { g.beta = 1, g.c.data = static_cast<float*>(g.d.data) + 1; });
  expect(Code::unsupported, "D overlaps itself", [](auto& g) {
    g.d.axis_strides = {0, 0, 4}, g.d.channel_stride = 1, g.d.outer_stride = 36;
  });
  expect(Code::overlap, "D overlaps epilogue node 0", [](auto& g) {
    g.epilogue.add({static_cast<float*>(g.d.data) + 1, DType::f32, {}, {9, 4}, {4, 1}});
  });
  expect(Code::overlap, "D overlaps epilogue node 1", [](auto& g) {
    g.epilogue.activate(gemm_core::Activation::relu)
        .scale_shift(nullptr, static_cast<float*>(g.d.data));
  });
  expect(Code::misaligned, "epilogue node 0", [](auto& g) {
    g.epilogue.scale_shift(reinterpret_cast<const float*>(static_cast<char*>(g.a.data) + 1),
                           nullptr);
  });
  expect(Code::unsupported, "conv: A float32 x B float64", [](auto& g) { g.b.dtype = DType::f64; });
  expect(Code::unsupported, "gathered path", [](auto& g) { g.path = Path::gathered, g.alpha = 2; });
}

}  // namespace

// Dense convolution against explicit loops.
#include "gemm_core/device/conv.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "gemm_core/base/parallel.hpp"
#include "tests/gemm_core/conv_oracle.hpp"

namespace {

using namespace conv_case;  // NOLINT: a test file

constexpr ConvOperation kOperations[] = {ConvOperation::forward, ConvOperation::activation_gradient,
                                         ConvOperation::filter_gradient};

std::string describe(const Case& c, ConvOperation op) {
  const ConvProblem& p = c.problem;
  const auto text = [](const Axes& a) { return base::concat(a[0], "x", a[1], "x", a[2]); };
  return base::concat("operation ", static_cast<int>(op), " batch ", p.batch, " C ", p.channels,
                      " K ", p.filters, " groups ", p.groups, " input ", text(p.input), " kernel ",
                      text(p.kernel), " lower ", text(p.lower), " upper ", text(p.upper),
                      " stride ", text(p.stride), " dilation ", text(p.dilation), " flip ", p.flip,
                      " ", base::name(c.in), " -> ", base::name(c.out), " path ",
                      static_cast<int>(c.path));
}

void check(const Case& c, ConvOperation op) {
  Sample r(c, op);
  const GemmStatus status = run(r.arguments());
  ASSERT_TRUE(status.ok()) << describe(c, op) << ": " << status.message;
  Tensor& d = r.d();
  std::vector<double> sum(d.bytes.size()), magnitude(d.bytes.size());
  for_each_product(c.problem, [&](auto n, const Axes& out, const Axes& in, const Axes& tap, auto k,
                                  auto cg, auto ch) {
    std::int64_t at = 0;
    double product = 0;
    switch (op) {
      case ConvOperation::forward:
        at = d.at(n, out, k), product = r.activation(n, in, ch) * r.filter(k, tap, cg);
        break;
      case ConvOperation::activation_gradient:
        at = d.at(n, in, ch), product = r.output(n, out, k) * r.filter(k, tap, cg);
        break;
      default:
        at = d.at(k, tap, cg), product = r.output(n, out, k) * r.activation(n, in, ch);
        break;
    }
    sum[static_cast<std::size_t>(at)] += product;
    magnitude[static_cast<std::size_t>(at)] += std::fabs(product);
  });
  const double u = c.compute == DType::f64 ? 1e-15 : c.compute == DType::i8 ? 0 : 1e-6;
  const double store = c.out == DType::f16 ? 1e-3 : c.out == DType::bf16 ? 8e-3 : 0;
  for (std::int64_t n = 0; n < d.outer; ++n) {
    for_each(d.extent, [&](const Axes& at) {
      for (std::int64_t ch = 0; ch < d.channels; ++ch) {
        const auto i = static_cast<std::size_t>(d.at(n, at, ch));
        const double addend = c.beta == 0 ? 0 : c.beta * r.c(n, at, ch);
        const double expected = c.alpha * sum[i] + addend;
        const double tolerance = 4 * u * (std::fabs(c.alpha) * magnitude[i] + std::fabs(addend)) +
                                 store * std::fabs(expected) + 1e-12;
        ASSERT_LE(std::fabs(d(n, at, ch) - expected), tolerance)
            << describe(c, op) << " at " << n << ", " << at[0] << ", " << at[1] << ", " << at[2]
            << ", " << ch;
      }
    });
  }
}

void check_all(const Case& c) {
  for (const ConvOperation op : kOperations) {
    for (const Path path : {Path::automatic, Path::general}) {
      Case with = c;
      with.path = path;
      check(with, op);
    }
  }
}

// The worked example: x = 1..5, w = 1, 10, 100, padding 1 and 2, stride 2.
TEST(Conv, TheExampleInOneDimensionComesOutAsByHand) {
  ConvProblem p{.axes = 1,
                .input = {1, 1, 5},
                .kernel = {1, 1, 3},
                .lower = {0, 0, 1},
                .upper = {0, 0, 2},
                .stride = {1, 1, 2}};
  ASSERT_EQ(p.output(), (Axes{1, 1, 3}));
  std::vector<float> x{1, 2, 3, 4, 5}, w{1, 10, 100}, ones(3, 1), y(3), dx(5), dw(3);
  for (const Path path : {Path::automatic, Path::general}) {
    ASSERT_TRUE(
        run({.problem = p, .a = {x.data()}, .b = {w.data()}, .d = {y.data()}, .path = path}).ok());
    EXPECT_EQ(y, (std::vector<float>{210, 432, 54}));
    ASSERT_TRUE(run({.operation = ConvOperation::activation_gradient,
                     .problem = p,
                     .a = {ones.data()},
                     .b = {w.data()},
                     .d = {dx.data()},
                     .path = path})
                    .ok());
    EXPECT_EQ(dx, (std::vector<float>{10, 101, 10, 101, 10}));
    ASSERT_TRUE(run({.operation = ConvOperation::filter_gradient,
                     .problem = p,
                     .a = {ones.data()},
                     .b = {x.data()},
                     .d = {dw.data()},
                     .path = path})
                    .ok());
    EXPECT_EQ(dw, (std::vector<float>{6, 9, 6}));
  }
}

TEST(Conv, EqualsTheLoopsForEveryPaddingStrideAndDilation) {
  for (const std::int64_t kernel : {1, 2, 3}) {
    for (const std::int64_t lower : {0, 1, 2}) {
      for (const std::int64_t upper : {0, 2}) {
        for (const std::int64_t stride : {1, 2, 3}) {
          for (const std::int64_t dilation : {1, 2}) {
            ConvProblem p{.axes = 2,
                          .batch = 2,
                          .channels = 3,
                          .filters = 5,
                          .input = {1, 6, 7},
                          .kernel = {1, kernel, 3},
                          .lower = {0, lower, 1},
                          .upper = {0, upper, 1},
                          .stride = {1, stride, 2},
                          .dilation = {1, dilation, 1}};
            p.flip = stride == 2;
            check_all({.problem = p});
          }
        }
      }
    }
  }
}

TEST(Conv, EqualsTheLoopsInOneAndThreeDimensions) {
  check_all({.problem = {.axes = 1,
                         .batch = 3,
                         .channels = 17,
                         .filters = 9,
                         .input = {1, 1, 40},
                         .kernel = {1, 1, 5},
                         .lower = {0, 0, 3},
                         .upper = {0, 0, 1},
                         .stride = {1, 1, 3},
                         .dilation = {1, 1, 2}}});
  check_all({.problem = {.axes = 3,
                         .batch = 2,
                         .channels = 6,
                         .filters = 10,
                         .input = {4, 5, 6},
                         .kernel = {3, 2, 3},
                         .lower = {1, 0, 2},
                         .upper = {0, 1, 1},
                         .stride = {2, 1, 3},
                         .dilation = {1, 2, 1},
                         .flip = true}});
  check_all({.problem = {.axes = 3,
                         .batch = 1,
                         .channels = 33,
                         .filters = 34,
                         .input = {5, 5, 5},
                         .kernel = {3, 3, 3},
                         .lower = {1, 1, 1},
                         .upper = {1, 1, 1}}});
}

TEST(Conv, EqualsTheLoopsForGroupsAndDepthwise) {
  for (const std::int64_t groups : {2, 3, 6}) {
    for (const std::int64_t filters : {6, 12}) {
      for (const std::int64_t stride : {1, 2}) {
        check_all({.problem = {.axes = 2,
                               .batch = 2,
                               .channels = 6,
                               .filters = filters,
                               .groups = groups,
                               .input = {1, 5, 6},
                               .kernel = {1, 3, 3},
                               .lower = {0, 1, 1},
                               .upper = {0, 1, 0},
                               .stride = {1, stride, stride}}});
      }
    }
  }
}

TEST(Conv, EqualsTheLoopsForEveryTypeStrideAndScale) {
  const ConvProblem p{.axes = 2,
                      .batch = 2,
                      .channels = 10,
                      .filters = 7,
                      .input = {1, 6, 5},
                      .kernel = {1, 3, 2},
                      .lower = {0, 1, 0},
                      .upper = {0, 0, 1},
                      .stride = {1, 2, 1}};
  for (const std::int64_t gap : {0, 3}) {
    check_all({.problem = p, .gap = gap, .alpha = 0.5, .beta = 2});
    check_all({.problem = p, .in = DType::f16, .out = DType::f32, .gap = gap});
    check_all({.problem = p, .in = DType::bf16, .out = DType::bf16, .gap = gap, .beta = 1});
    check_all({.problem = p, .in = DType::e4m3, .out = DType::f16, .gap = gap});
    check_all({.problem = p,
               .in = DType::f64,
               .out = DType::f64,
               .compute = DType::f64,
               .gap = gap,
               .beta = 1});
    check_all({.problem = p, .in = DType::i8, .out = DType::i32, .compute = DType::i8, .gap = gap});
  }
}

TEST(Conv, EqualsTheLoopsForManyChannels) {
  check_all({.problem = {.axes = 2,
                         .batch = 1,
                         .channels = 70,
                         .filters = 130,
                         .input = {1, 9, 11},
                         .kernel = {1, 3, 3},
                         .lower = {0, 1, 1},
                         .upper = {0, 1, 1}}});
}

TEST(Conv, AnEmptyBatchWritesNothingAndItsFilterGradientIsZero) {
  const ConvProblem p{
      .axes = 2, .batch = 0, .channels = 4, .filters = 4, .input = {1, 4, 4}, .kernel = {1, 3, 3}};
  std::vector<float> x(4), w(144, 5), y(4, 7);
  EXPECT_TRUE(run({.problem = p, .a = {x.data()}, .b = {w.data()}, .d = {y.data()}}).ok());
  EXPECT_EQ(y, std::vector<float>(4, 7));
  ASSERT_TRUE(run({.operation = ConvOperation::filter_gradient,
                   .problem = p,
                   .a = {y.data()},
                   .b = {x.data()},
                   .d = {w.data()}})
                  .ok());
  EXPECT_EQ(w, std::vector<float>(144, 0));
}

TEST(Conv, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const ConvOperation op : kOperations) {
    for (const Path path : {Path::automatic, Path::general}) {
      Sample r({.problem = {.axes = 2,
                            .batch = 2,
                            .channels = 24,
                            .filters = 20,
                            .input = {1, 30, 31},
                            .kernel = {1, 3, 3},
                            .lower = {0, 1, 1},
                            .upper = {0, 1, 1}},
                .path = path},
               op);
      const ConvArguments g = r.arguments();
      base::Threads(1).run([&] { ASSERT_TRUE(run(g).ok()); });
      const auto once = r.d().bytes;
      for (const int threads : {2, 5}) {
        base::Threads(threads).run([&] { ASSERT_TRUE(run(g).ok()); });
        EXPECT_EQ(r.d().bytes, once) << static_cast<int>(op) << " threads " << threads;
      }
    }
  }
}

TEST(Conv, RunsTheEpilogueOnEveryPath) {
  const ConvProblem p{.axes = 2,
                      .batch = 1,
                      .channels = 12,
                      .filters = 9,
                      .input = {1, 6, 6},
                      .kernel = {1, 3, 3},
                      .lower = {0, 1, 1},
                      .upper = {0, 1, 1}};
  Sample plain({.problem = p}, ConvOperation::forward);
  ASSERT_TRUE(run(plain.arguments()).ok());
  std::vector<float> shift(9), residual(36 * 9);
  std::iota(shift.begin(), shift.end(), -4.0f);
  std::iota(residual.begin(), residual.end(), -100.0f);
  for (const Path path : {Path::automatic, Path::general}) {
    Sample r({.problem = p, .path = path}, ConvOperation::forward);
    ConvArguments g = r.arguments();
    g.epilogue.scale_shift(nullptr, shift.data())
        .add({residual.data(), DType::f32, {}, {36, 9}, {9, 1}})
        .activate(gemm_core::Activation::relu);
    ASSERT_TRUE(run(g).ok());
    for_each(p.output(), [&](const Axes& at) {
      for (std::int64_t k = 0; k < 9; ++k) {
        const std::int64_t row = at[1] * 6 + at[2];
        const double expected =
            std::max(0.0, plain.output(0, at, k) + shift[static_cast<std::size_t>(k)] +
                              residual[static_cast<std::size_t>(row * 9 + k)]);
        EXPECT_NEAR(r.output(0, at, k), expected, 1e-4);
      }
    });
  }
}

}  // namespace

// Reductions of strided tensors against plain loops.
#include "gemm_core/device/reduction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "gemm_core/base/numeric.hpp"
#include "gemm_core/base/parallel.hpp"

namespace {

using base::DType;
using gemm_core::GemmStatus;
using gemm_core::ReductionArguments;
using gemm_core::ReductionMode;
using Kind = gemm_core::visitor::Reduction;

GemmStatus run(const ReductionArguments& g) {
  gemm_core::Reduction op;
  if (auto s = op.initialize(g); !s.ok()) return s;
  return op.run();
}

double reduced(Kind kind, double a, double b) {
  switch (kind) {
    case Kind::sum:
      return a + b;
    case Kind::minimum:
      return std::min(a, b);
    case Kind::maximum:
      return std::max(a, b);
    default:
      return std::max(a, std::fabs(b));
  }
}

double start(Kind kind) {
  const double inf = std::numeric_limits<double>::infinity();
  return kind == Kind::maximum ? -inf : kind == Kind::minimum ? inf : 0;
}

// [a, b, c] with gaps, any of the modes kept, the output in the reversed order of modes.
template <class In, class Out>
void check(Kind kind, int kept, const std::array<std::int64_t, 3>& extent) {
  std::mt19937 random(8);
  const std::array<std::int64_t, 3> in{1, extent[0] + 2, (extent[0] + 2) * (extent[1] + 1)};
  std::vector<In> x(static_cast<std::size_t>(in[2] * (extent[2] + 1)) + 1);
  for (auto& v : x)
    v = In(static_cast<float>(static_cast<int>(random() % 2001) - 1000) /
           (std::is_integral_v<In> ? 1.0f : 64.0f));
  std::array<std::int64_t, 3> out{0, 0, 0};
  std::int64_t size = 1;
  for (int i = 2; i >= 0; --i) {
    if (!(kept >> i & 1)) continue;
    out[static_cast<std::size_t>(i)] = size;
    size *= std::max<std::int64_t>(1, extent[static_cast<std::size_t>(i)]);
  }
  std::vector<Out> y(static_cast<std::size_t>(size), Out(77));
  ReductionArguments g{.input = {x.data(), base::dtype_v<In>},
                       .output = {y.data(), base::dtype_v<Out>},
                       .reduction = kind};
  for (std::size_t i = 0; i < 3; ++i)
    g.modes.push_back(
        {.extent = extent[i], .in = in[i], .out = out[i], .kept = (kept >> i & 1) != 0});
  const GemmStatus status = run(g);
  ASSERT_TRUE(status.ok()) << status.message;
  std::vector<double> expected(y.size(), start(kind));
  for (std::int64_t c = 0; c < extent[2]; ++c)
    for (std::int64_t b = 0; b < extent[1]; ++b)
      for (std::int64_t a = 0; a < extent[0]; ++a) {
        auto& e = expected[static_cast<std::size_t>(a * out[0] + b * out[1] + c * out[2])];
        e = reduced(kind, e,
                    static_cast<double>(static_cast<float>(
                        x[static_cast<std::size_t>(a * in[0] + b * in[1] + c * in[2])])));
      }
  for (std::size_t i = 0; i < 3; ++i) {
    if (!(kept >> i & 1) || extent[i] != 0) continue;
    EXPECT_EQ(y, std::vector<Out>(y.size(), Out(77))) << "no results, yet something was written";
    return;
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (std::isinf(expected[i])) continue;
    const double tolerance = std::is_same<Out, base::half_t>::value ? 2e-3
                             : std::is_integral_v<Out>              ? 0
                                                                    : 1e-5;
    ASSERT_NEAR(static_cast<double>(static_cast<float>(y[i])), expected[i],
                tolerance * (1 + std::fabs(expected[i])))
        << static_cast<int>(kind) << " kept " << kept << " at " << i;
  }
}

TEST(Reduction, EqualsTheLoopsOverAnyModesTypesAndKinds) {
  for (const Kind kind : {Kind::sum, Kind::maximum, Kind::minimum, Kind::amax}) {
    for (int kept = 0; kept < 8; ++kept) {
      for (const auto& extent :
           {std::array<std::int64_t, 3>{5, 7, 3}, {1, 1, 1}, {100, 50, 2}, {3, 0, 4}}) {
        check<float, float>(kind, kept, extent);
        check<double, double>(kind, kept, extent);
        check<base::bf16_t, base::half_t>(kind, kept, extent);
        check<std::int32_t, std::int32_t>(kind, kept, extent);
      }
    }
  }
}

TEST(Reduction, GivesTheSameBitsForAnyNumberOfThreadsAndPassesNanOn) {
  std::vector<float> x(100000);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (auto& v : x) v = normal(random);
  float first = 0, again = 0;
  ReductionArguments g{
      .modes = {{.extent = 100000, .in = 1}}, .input = {x.data()}, .output = {&first}};
  base::Threads(1).run([&] { ASSERT_TRUE(run(g).ok()); });
  g.output.data = &again;
  for (const int threads : {2, 3, 5}) {
    base::Threads(threads).run([&] { ASSERT_TRUE(run(g).ok()); });
    EXPECT_EQ(first, again);
  }
  x[77777] = std::nanf("");
  for (const Kind kind : {Kind::sum, Kind::maximum, Kind::minimum, Kind::amax}) {
    g.reduction = kind;
    ASSERT_TRUE(run(g).ok());
    EXPECT_TRUE(std::isnan(again));
  }
}

TEST(Reduction, RefusesWhatDoesNotFitAndNamesIt) {
  using Code = GemmStatus::Code;
  std::vector<float> x(12), y(12);
  const auto expect = [&](Code code, const char* words, auto spoil) {
    ReductionArguments g{
        .modes = {{.extent = 3, .in = 4, .out = 1, .kept = true}, {.extent = 4, .in = 1}},
        .input = {x.data()},
        .output = {y.data()}};
    ASSERT_TRUE(gemm_core::Reduction::can_implement(g).ok());
    spoil(g);
    const GemmStatus s = gemm_core::Reduction::can_implement(g);
    EXPECT_EQ(s.code, code) << s.message;
    EXPECT_NE(s.message.find(words), std::string::npos) << s.message;
  };
  expect(Code::invalid_extent, "mode 1 has extent -1", [](auto& g) { g.modes[1].extent = -1; });
  expect(Code::invalid_extent, "2^59", [](auto& g) { g.modes[1].extent = std::int64_t{1} << 60; });
  expect(Code::unsupported, "mode 1 is reduced", [](auto& g) { g.modes[1].out = 1; });
  expect(Code::unsupported, "overlaps itself", [](auto& g) { g.modes[0].out = 0; });
  expect(Code::unsupported, "float32 to int64", [](auto& g) { g.output.dtype = DType::i64; });
  expect(Code::null_operand, "input", [](auto& g) { g.input.data = nullptr; });
  expect(Code::misaligned, "output",
         [](auto& g) { g.output.data = static_cast<char*>(g.output.data) + 2; });
  expect(Code::overlap, "overlaps the input", [](auto& g) { g.output.data = g.input.data; });
}

}  // namespace

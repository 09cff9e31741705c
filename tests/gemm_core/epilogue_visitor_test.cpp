// Every node and alias against the same arithmetic on an unfused product.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "gemm_core/base/convert.hpp"
#include "gemm_core/base/error.hpp"
#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "gemm_core/device/gemm.hpp"
#include "gemm_core/epilogue/visitor_aliases.hpp"
#include "gemm_core/epilogue/visitor_graph.hpp"

namespace {

using namespace gemm_core::visitor;
using base::DType;
using gemm_core::ElementwiseOp;
using gemm_core::Gemm;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;

// Residue tiles in both directions.
constexpr std::int64_t kM = 301, kN = 401, kK = 37;

std::vector<float> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = normal(random);
  return values;
}

struct Setting {
  std::vector<float> a = random_values(kM * kK, 1), b = random_values(kK * kN, 2),
                     c = random_values(kM * kN, 3);
  std::vector<float> aux = random_values(kM * kN, 4), row = random_values(kN, 5),
                     column = random_values(kM, 6);
  std::vector<float> column2 = random_values(kM, 7), column3 = random_values(kM, 8);
  std::vector<float> plain = run(nullptr);

  GemmArguments arguments(std::vector<float>& d, gemm_core::TileEpilogue* visitor) const {
    GemmArguments g{.m = kM, .n = kN, .k = kK};
    g.a = {a.data(), DType::f32, kK};
    g.b = {b.data(), DType::f32, kN};
    g.d = {d.data(), DType::f32, kN};
    g.visitor = visitor;
    return g;
  }
  std::vector<float> run(gemm_core::TileEpilogue* visitor) const {
    std::vector<float> d(static_cast<std::size_t>(kM * kN), -77.0f);
    const GemmArguments g = arguments(d, visitor);
    std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
    Gemm gemm;
    const GemmStatus status = gemm.initialize(g, workspace.data(), workspace.size());
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_TRUE(gemm.run().ok());
    return d;
  }
  MatrixLoad source() const { return {.name = "C", .matrix = {c.data(), DType::f32, kN, 1}}; }
  MatrixLoad auxiliary() const { return {.matrix = {aux.data(), DType::f32, kN, 1}}; }
};

const Setting& setting() {
  static const Setting made;
  return made;
}

std::size_t at(std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(i * kN + j); }

using Expected =
    std::function<float(std::int64_t, std::int64_t, float)>;  // row, column, accumulator

// Bit for bit unless a tolerance is given.
template <class Root>
void expect_values(Root root, const Expected& expected, float tolerance = 0) {
  VisitorEpilogue<Root> epilogue(std::move(root));
  const auto d = setting().run(&epilogue);
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) {
      const float want = expected(i, j, setting().plain[at(i, j)]);
      const float got = d[at(i, j)];
      if (std::isnan(want) && std::isnan(got)) continue;
      ASSERT_LE(std::fabs(got - want), tolerance * (1 + std::fabs(want)))
          << i << ", " << j << ": " << got << " " << want;
    }
  }
}

Compute compute(ElementwiseOp op, float first = 0, float second = 0) {
  return {.op = op, .parameters = {first, second}};
}

TEST(EpilogueVisitor, LoadsBroadcastAsNamed) {
  const Setting& s = setting();
  expect_values(tree(Accumulator{}), [](auto, auto, float acc) { return acc; });
  expect_values(tree(s.source()), [&](auto i, auto j, float) { return s.c[at(i, j)]; });
  expect_values(tree(RowLoad{s.row.data()}),
                [&](auto, auto j, float) { return s.row[static_cast<std::size_t>(j)]; });
  expect_values(tree(ColumnLoad{s.column.data()}),
                [&](auto i, auto, float) { return s.column[static_cast<std::size_t>(i)]; });
  const float pointed = 3;
  expect_values(tree(Scalar({{2.0f, nullptr}, {5.0f, &pointed}})),
                [](auto, auto, float) { return 6.0f; });
}

TEST(EpilogueVisitor, NullLoadsGiveTheirDefault) {
  expect_values(tree(MatrixLoad{.null_default = 2}), [](auto, auto, float) { return 2.0f; });
  expect_values(tree(RowLoad{.null_default = 3}), [](auto, auto, float) { return 3.0f; });
  expect_values(tree(ColumnLoad{}), [](auto, auto, float) { return 0.0f; });
}

TEST(EpilogueVisitor, LoadsMatricesOfAnyTypeAndStride) {
  const Setting& s = setting();
  std::vector<base::half_t> halves;
  std::vector<base::bf16_t> brains;
  for (const float v : s.aux) halves.push_back(base::half_t(v)), brains.push_back(base::bf16_t(v));
  expect_values(tree(MatrixLoad{.matrix = {halves.data(), DType::f16, kN, 1}}),
                [&](auto i, auto j, float) { return float(halves[at(i, j)]); });
  expect_values(
      tree(MatrixLoad{.matrix = {brains.data(), DType::bf16, 1, kM}}),
      [&](auto i, auto j, float) { return float(brains[static_cast<std::size_t>(i + j * kM)]); });
}

TEST(EpilogueVisitor, ComputesEveryFunction) {
  const Setting& s = setting();
  const auto two = [&](ElementwiseOp op, auto reference) {
    expect_values(tree(compute(op), Accumulator{}, s.auxiliary()),
                  [&](auto i, auto j, float acc) { return reference(acc, s.aux[at(i, j)]); });
  };
  two(ElementwiseOp::plus, [](float a, float b) { return a + b; });
  two(ElementwiseOp::minus, [](float a, float b) { return a - b; });
  two(ElementwiseOp::multiplies, [](float a, float b) { return a * b; });
  two(ElementwiseOp::divides, [](float a, float b) { return a / b; });
  two(ElementwiseOp::maximum, [](float a, float b) { return std::max(a, b); });
  two(ElementwiseOp::minimum, [](float a, float b) { return std::min(a, b); });
  two(ElementwiseOp::d_relu, [](float a, float b) { return b > 0 ? a : 0.0f; });
  expect_values(
      tree(compute(ElementwiseOp::multiply_add), Accumulator{}, s.auxiliary(), s.source()),
      [&](auto i, auto j, float acc) { return std::fma(acc, s.aux[at(i, j)], s.c[at(i, j)]); });
  const auto one = [&](Compute node, auto reference, float tolerance) {
    expect_values(
        tree(node, Accumulator{}),
        [&](auto, auto, float acc) { return static_cast<float>(reference(double(acc))); },
        tolerance);
  };
  one(
      compute(ElementwiseOp::identity), [](double x) { return x; }, 0);
  one(
      compute(ElementwiseOp::relu), [](double x) { return std::max(x, 0.0); }, 0);
  one(
      compute(ElementwiseOp::absolute), [](double x) { return std::fabs(x); }, 0);
  one(
      compute(ElementwiseOp::clamp, -1, 2),
      [](double x) { return std::min(std::max(x, -1.0), 2.0); }, 0);
  one(
      compute(ElementwiseOp::leaky_relu, 0.25f), [](double x) { return x < 0 ? 0.25 * x : x; }, 0);
  // The vector exponential errs by at most 2 units in the last place; one division and product
  // follow.
  one(
      compute(ElementwiseOp::sigmoid), [](double x) { return 1 / (1 + std::exp(-x)); }, 1e-6f);
  one(
      compute(ElementwiseOp::silu), [](double x) { return x / (1 + std::exp(-x)); }, 1e-6f);
  one(
      compute(ElementwiseOp::tanh), [](double x) { return std::tanh(x); }, 1e-6f);
  one(
      compute(ElementwiseOp::gelu),
      [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, 1e-6f);
  expect_values(
      tree(ComputeWith{[](float a, float b) { return a * a - b; }}, Accumulator{},
           RowLoad{s.row.data()}),
      [&](auto, auto j, float acc) { return acc * acc - s.row[static_cast<std::size_t>(j)]; },
      1e-6f);
}

TEST(EpilogueVisitor, RoundsBetweenNodesWhereAsked) {
  expect_values(tree(Compute{.op = ElementwiseOp::identity, .output = DType::bf16}, Accumulator{}),
                [](auto, auto, float acc) { return float(base::bf16_t(acc)); });
  expect_values(tree(Quantise{DType::e4m3, 4.0f}, Accumulator{}),
                [](auto, auto, float acc) { return float(base::convert<base::e4m3_t>(4 * acc)); });
  expect_values(tree(Quantise{DType::i8, 100.0f}, Accumulator{}),
                [](auto, auto, float acc) { return float(base::convert<std::int8_t>(100 * acc)); });
}

TEST(EpilogueVisitor, WithBetaZeroNeverTouchesC) {
  std::vector<float> nan(static_cast<std::size_t>(kM * kN), std::nanf(""));
  MatrixLoad poisoned{.name = "C", .matrix = {nan.data(), DType::f32, kN, 1}};
  const float zero = 0;
  expect_values(linear_combination(2.0f, Scalar({{1.0f, &zero}}), poisoned),
                [](auto, auto, float acc) { return 2 * acc; });
  expect_values(linear_combination(2.0f, 0.0f, {}), [](auto, auto, float acc) { return 2 * acc; });
}

TEST(EpilogueVisitor, AliasesEqualTheUnfusedArithmetic) {
  const Setting& s = setting();
  const auto m = [](const std::vector<float>& v, std::int64_t i) {
    return v[static_cast<std::size_t>(i)];
  };
  const auto z = [&](auto i, auto j, float acc) {
    return std::fma(0.5f, s.c[at(i, j)], std::fma(1.5f, acc, m(s.column, i)));
  };
  const auto relu = [](float x) { return x < 0 ? 0.0f : x; };
  const ColumnLoad bias{s.column.data()};
  const Compute act = compute(ElementwiseOp::relu);
  expect_values(scaled_accumulator(1.5f), [](auto, auto, float acc) { return 1.5f * acc; });
  expect_values(linear_combination(1.5f, 0.5f, s.source()), [&](auto i, auto j, float acc) {
    return std::fma(0.5f, s.c[at(i, j)], 1.5f * acc);
  });
  expect_values(
      linear_combination_activation(act, 1.5f, 0.5f, s.source()),
      [&](auto i, auto j, float acc) { return relu(std::fma(0.5f, s.c[at(i, j)], 1.5f * acc)); });
  expect_values(linear_combination_row_bias(1.5f, 0.5f, s.source(), bias), z);
  expect_values(linear_combination_row_bias_activation(act, 1.5f, 0.5f, s.source(), bias),
                [&](auto i, auto j, float acc) { return relu(z(i, j, acc)); });
  expect_values(per_row_linear_combination_row_bias_activation(
                    act, {s.column2.data()}, {s.column3.data()}, s.source(), bias),
                [&](auto i, auto j, float acc) {
                  return relu(std::fma(m(s.column3, i), s.c[at(i, j)],
                                       std::fma(m(s.column2, i), acc, m(s.column, i))));
                });
  expect_values(scaled_linear_combination_row_bias_activation(act, Scalar({{3.0f}, {0.5f}}), 0.5f,
                                                              s.source(), bias, 0.25f),
                [&](auto i, auto j, float acc) { return 0.25f * relu(z(i, j, acc)); });
  expect_values(
      linear_combination_gradient(compute(ElementwiseOp::d_relu), 1.5f, 0.0f, {}, s.auxiliary()),
      [&](auto i, auto j, float acc) { return s.aux[at(i, j)] > 0 ? 1.5f * acc : 0.0f; });
}

TEST(EpilogueVisitor, StoresAuxiliaryOutputsUnchangedOnTheWay) {
  const Setting& s = setting();
  std::vector<float> stored(static_cast<std::size_t>(kM * (kN + 5)), -1.0f);
  MatrixStore store{.data = stored.data(), .row_stride = kN + 5};
  expect_values(linear_combination_row_bias_activation_aux(compute(ElementwiseOp::relu), 1.5f, 0.0f,
                                                           {}, {s.column.data()}, store),
                [&](auto i, auto, float acc) {
                  return std::max(0.0f, std::fma(1.5f, acc, s.column[static_cast<std::size_t>(i)]));
                });
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN + 5; ++j) {
      const float want =
          j < kN ? std::fma(1.5f, s.plain[at(i, j)], s.column[static_cast<std::size_t>(i)]) : -1.0f;
      ASSERT_EQ(stored[static_cast<std::size_t>(i * (kN + 5) + j)], want) << i << ", " << j;
    }
  }
  std::vector<base::e4m3_t> narrow(static_cast<std::size_t>(kM * kN));
  MatrixStore quantised{
      .data = narrow.data(), .dtype = DType::e4m3, .row_stride = 1, .column_stride = kM};
  expect_values(tree(quantised, Accumulator{}), [](auto, auto, float acc) { return acc; });
  for (std::int64_t i = 0; i < kM; ++i) {
    EXPECT_EQ(narrow[static_cast<std::size_t>(i + 7 * kM)].bits,
              base::convert<base::e4m3_t>(s.plain[at(i, 7)]).bits);
  }
}

TEST(EpilogueVisitor, ReducesOverRowsColumnsAndAll) {
  const Setting& s = setting();
  std::vector<float> over_rows(kN), over_columns(kM);
  float all = 0, amax = 0, least = 0;
  auto root = tree(
      Reduce{.axis = ReductionAxis::rows, .out = over_rows.data()},
      tree(
          Reduce{.axis = ReductionAxis::columns,
                 .reduction = Reduction::maximum,
                 .out = over_columns.data()},
          tree(Reduce{.out = &all},
               tree(Reduce{.reduction = Reduction::amax, .out = &amax},
                    tree(Reduce{.reduction = Reduction::minimum, .out = &least}, Accumulator{})))));
  expect_values(root, [](auto, auto, float acc) { return acc; });
  double sum = 0, magnitude = 0, largest = 0, smallest = 0;
  for (std::int64_t i = 0; i < kM; ++i) {
    float row_most = -std::numeric_limits<float>::infinity();
    for (std::int64_t j = 0; j < kN; ++j) {
      const float v = s.plain[at(i, j)];
      row_most = std::max(row_most, v);
      sum += v;
      magnitude += std::fabs(v);
      largest = std::max(largest, std::fabs(double(v)));
      smallest = std::min(smallest, double(v));
    }
    EXPECT_EQ(over_columns[static_cast<std::size_t>(i)], row_most);
  }
  EXPECT_EQ(amax, static_cast<float>(largest));
  EXPECT_EQ(least, static_cast<float>(smallest));
  EXPECT_NEAR(all, sum, kM * kN * std::ldexp(1.0, -24) * magnitude);
  for (std::int64_t j = 0; j < kN; ++j) {
    double column_sum = 0, column_magnitude = 0;
    for (std::int64_t i = 0; i < kM; ++i) {
      column_sum += s.plain[at(i, j)];
      column_magnitude += std::fabs(s.plain[at(i, j)]);
    }
    EXPECT_NEAR(over_rows[static_cast<std::size_t>(j)], column_sum,
                kM * std::ldexp(1.0, -24) * column_magnitude);
  }
}

TEST(EpilogueVisitor, ReductionsPassNanOnAndHaveTheSameBitsForAnyNumberOfThreads) {
  std::vector<float> once(kN), again(kN);
  float amax = 0;
  const auto run_with = [&](int threads, std::vector<float>& out) {
    VisitorEpilogue epilogue(
        tree(Reduce{.axis = ReductionAxis::rows, .out = out.data()}, Accumulator{}));
    base::Threads(threads).run([&] { setting().run(&epilogue); });
  };
  run_with(1, once);
  for (const int threads : {2, 3, 6}) {
    run_with(threads, again);
    EXPECT_EQ(once, again) << threads << " threads";
  }
  VisitorEpilogue poisoned(
      tree(Reduce{.reduction = Reduction::amax, .out = &amax},
           tree(ComputeWith{[](float x, float r) { return r > 1 ? std::nanf("") : x; }},
                Accumulator{}, RowLoad{setting().row.data()})));
  setting().run(&poisoned);
  EXPECT_TRUE(std::isnan(amax));
}

TEST(EpilogueVisitor, SplitGivesAllOutputsTheCommonValue) {
  const Setting& s = setting();
  std::vector<float> aux(static_cast<std::size_t>(kM * kN));
  AmaxAux out{.scale_d = 0.5f, .scale_aux = 2.0f};
  float amax_d = 0, amax_aux = 0;
  out.amax_d = {.reduction = Reduction::amax, .out = &amax_d};
  out.amax_aux = {.reduction = Reduction::amax, .out = &amax_aux};
  out.aux = {.data = aux.data(), .row_stride = kN};
  expect_values(scaled_linear_combination_row_bias_activation_amax_aux(
                    compute(ElementwiseOp::relu), 1.5f, 0.0f, {}, {s.column.data()}, out),
                [&](auto i, auto, float acc) {
                  return 0.5f *
                         std::max(0.0f, std::fma(1.5f, acc, s.column[static_cast<std::size_t>(i)]));
                });
  float want_d = 0, want_aux = 0;
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t j = 0; j < kN; ++j) {
      const float z = std::fma(1.5f, s.plain[at(i, j)], s.column[static_cast<std::size_t>(i)]);
      want_d = std::max(want_d, z);
      want_aux = std::max(want_aux, std::fabs(z));
      ASSERT_EQ(aux[at(i, j)], 2 * z);
    }
  }
  EXPECT_EQ(amax_d, want_d);
  EXPECT_EQ(amax_aux, want_aux);
}

TEST(EpilogueVisitor, GradientsAlsoGiveTheBiasGradient) {
  const Setting& s = setting();
  std::vector<float> sums(kM);
  expect_values(linear_combination_gradient_row_bias(compute(ElementwiseOp::d_relu), 1.0f, 0.0f, {},
                                                     s.auxiliary(), sums.data()),
                [&](auto i, auto j, float acc) { return s.aux[at(i, j)] > 0 ? acc : 0.0f; });
  for (std::int64_t i = 0; i < kM; ++i) {
    double sum = 0, magnitude = 0;
    for (std::int64_t j = 0; j < kN; ++j) {
      if (s.aux[at(i, j)] <= 0) continue;
      sum += s.plain[at(i, j)];
      magnitude += std::fabs(s.plain[at(i, j)]);
    }
    EXPECT_NEAR(sums[static_cast<std::size_t>(i)], sum, kN * std::ldexp(1.0, -24) * magnitude);
  }
}

TEST(EpilogueVisitor, GraphsShareVerticesAtCompileTimeAndAtRunTime) {
  const Setting& s = setting();
  // d = relu(acc + row) * (acc + row)
  const auto expected = [&](auto, auto j, float acc) {
    const float x = acc + s.row[static_cast<std::size_t>(j)];
    return (x < 0 ? 0.0f : x) * x;
  };
  expect_values(
      graph(vertex(Accumulator{}), vertex(RowLoad{s.row.data()}),
            vertex<0, 1>(compute(ElementwiseOp::plus)), vertex<2>(compute(ElementwiseOp::relu)),
            vertex<3, 2>(compute(ElementwiseOp::multiplies))),
      expected);
  RuntimeGraph built;
  const int acc = built.add(Accumulator{});
  const int row = built.add(RowLoad{s.row.data()});
  const int sum = built.add(compute(ElementwiseOp::plus), {acc, row});
  const int positive = built.add(compute(ElementwiseOp::relu), {sum});
  built.add(compute(ElementwiseOp::multiplies), {positive, sum});
  expect_values(built, expected);
  EXPECT_THROW(built.add(compute(ElementwiseOp::plus), {acc}), base::Error);
  EXPECT_THROW(built.add(compute(ElementwiseOp::relu), {99}), base::Error);
}

TEST(EpilogueVisitor, TheRunTimeProgramIsOneOfItsGraphs) {
  const Setting& s = setting();
  gemm_core::Epilogue program;
  program.scale_shift(s.row.data(), s.row.data())
      .add({s.aux.data(), DType::f32, {}, {kM, kN}, {kN, 1}});
  program.scale_shift(s.row.data(), nullptr).activate(gemm_core::Activation::leaky_relu, 0.2f);
  program.scale_shift(nullptr, s.row.data()).activate(gemm_core::Activation::silu);
  std::vector<float> direct(static_cast<std::size_t>(kM * kN));
  GemmArguments g = s.arguments(direct, nullptr);
  g.epilogue = program;
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
  Gemm gemm;
  ASSERT_TRUE(gemm.initialize(g, workspace.data(), workspace.size()).ok());
  ASSERT_TRUE(gemm.run().ok());
  VisitorEpilogue epilogue(graph_of(program));
  EXPECT_EQ(s.run(&epilogue), direct);
}

TEST(EpilogueVisitor, RefusesByNodeName) {
  std::vector<float> d(static_cast<std::size_t>(kM * kN), 5.0f);
  const auto message_of = [&](auto root) {
    VisitorEpilogue epilogue(std::move(root));
    const GemmStatus status = Gemm::can_implement(setting().arguments(d, &epilogue));
    EXPECT_FALSE(status.ok());
    return status.message;
  };
  EXPECT_NE(
      message_of(linear_combination(1.0f, 2.0f, {.name = "C"})).find("node C: null, but beta is 2"),
      std::string::npos);
  EXPECT_NE(message_of(tree(MatrixLoad{.name = "mask", .matrix = {d.data(), DType::i32, kN, 1}}))
                .find("node mask"),
            std::string::npos);
  EXPECT_NE(message_of(
                tree(MatrixStore{.name = "copy", .data = d.data(), .row_stride = 3}, Accumulator{}))
                .find("node copy"),
            std::string::npos);
  EXPECT_NE(message_of(tree(Quantise{DType::i32, 1.0f}, Accumulator{})).find("quantise"),
            std::string::npos);
  EXPECT_EQ(d[0], 5.0f);
}

// Records the order of visits and how often each element was seen.
struct Recorder {
  std::vector<int>* seen;
  std::string* order;
  char name;
  Fragment visit(Piece& piece, Inputs inputs) const {
    order->push_back(name);
    for (std::int64_t i = 0; i < piece.rows; ++i) {
      for (std::int64_t j = 0; j < piece.columns; ++j)
        ++(*seen)[at(piece.place.m0 + i, piece.place.n0 + j)];
    }
    return inputs.empty() ? piece.accumulator : inputs[0];
  }
};

TEST(EpilogueVisitor, VisitsChildrenFirstLeftToRightAndEachElementOnce) {
  std::vector<int> seen(static_cast<std::size_t>(kM * kN)), other(seen), top(seen);
  std::string order;
  VisitorEpilogue epilogue(tree(Recorder{&top, &order, 'c'}, Recorder{&seen, &order, 'a'},
                                Recorder{&other, &order, 'b'}));
  base::Threads(1).run([&] { setting().run(&epilogue); });
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], 1) << i;
    ASSERT_EQ(top[i], 1) << i;
  }
  for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], "abc"[i % 3]);
}

TEST(EpilogueVisitor, ServesTheGatheredConvolutionToo) {
  const std::int64_t rows = 1000, channels = 20, taps = 3;
  const auto x = random_values(rows * channels, 11), w = random_values(24 * taps * channels, 12);
  std::vector<std::int32_t> neighbours;
  for (std::int64_t i = 0; i < taps * rows; ++i)
    neighbours.push_back(i % 4 == 0 ? -1 : static_cast<std::int32_t>(i % rows));
  const auto weights =
      gemm_core::pack_conv_weights({.weight = w.data(), .cout = 24, .taps = taps, .cin = channels});
  std::vector<float> plain(static_cast<std::size_t>(rows * 24)), fused(plain), sums(24),
      sums_again(24);
  gemm_core::GatherConvArguments arguments{
      .input = {x.data(), DType::f32, {}, {rows, channels}, {channels, 1}},
      .neighbours = neighbours.data(),
      .rows = rows,
      .weights = &weights};
  arguments.output = {plain.data(), DType::f32, {}, {rows, 24}, {24, 1}};
  gemm_core::gather_conv(arguments);
  const auto run_fused = [&](std::vector<float>& out, int threads) {
    VisitorEpilogue epilogue(
        tree(compute(ElementwiseOp::relu),
             tree(Reduce{.axis = ReductionAxis::rows, .out = out.data()}, Accumulator{})));
    arguments.visitor = &epilogue;
    arguments.output.data = fused.data();
    base::Threads(threads).run([&] { gemm_core::gather_conv(arguments); });
  };
  run_fused(sums, 1);
  run_fused(sums_again, 4);
  EXPECT_EQ(sums, sums_again);
  std::vector<double> want(24, 0.0);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(fused[i], plain[i] < 0 ? 0.0f : plain[i]);
    want[i % 24] += plain[i];
  }
  for (std::size_t n = 0; n < 24; ++n) EXPECT_NEAR(sums[n], want[n], 1e-2);
}

}  // namespace

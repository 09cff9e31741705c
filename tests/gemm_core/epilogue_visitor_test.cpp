// Every node and alias against the same arithmetic on an unfused product.
#include "tests/gemm_core/epilogue_setting.hpp"

namespace {

using namespace epilogue_case;  // NOLINT: a test file

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

TEST(EpilogueVisitor, FunctionsOfTheCallersOwnTakeAnyNumberOfInputs) {
  const Setting& s = setting();
  expect_values(tree(ComputeWith{[](float a, float b, float c, float d, float e) {
                       return a - b + c - d + e;
                     }},
                     Accumulator{}, s.auxiliary(), s.source(), RowLoad{s.row.data()},
                     ColumnLoad{s.column.data()}),
                [&](auto i, auto j, float acc) {
                  return acc - s.aux[at(i, j)] + s.c[at(i, j)] -
                         s.row[static_cast<std::size_t>(j)] + s.column[static_cast<std::size_t>(i)];
                });
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

TEST(EpilogueVisitor, ReductionsThatAreNotFinalLeaveTheirPartsToTheCaller) {
  const Setting& s = setting();
  std::vector<float> parts, sums(kN);
  expect_values(tree(Reduce{.axis = ReductionAxis::rows, .parts = &parts},
                     tree(Reduce{.axis = ReductionAxis::rows, .out = sums.data()}, Accumulator{})),
                [](auto, auto, float acc) { return acc; });
  ASSERT_EQ(parts.size() % kN, 0u);
  const std::size_t slots = parts.size() / kN;
  ASSERT_GT(slots, 1u) << "rows of several tiles";
  for (std::size_t j = 0; j < kN; ++j) {
    double sum = 0, magnitude = 0;
    float in_order = 0;
    for (std::size_t slot = 0; slot < slots; ++slot) in_order += parts[slot * kN + j];
    EXPECT_EQ(in_order, sums[j]) << j;
    for (std::int64_t i = 0; i < kM; ++i) {
      sum += s.plain[at(i, static_cast<std::int64_t>(j))];
      magnitude += std::fabs(s.plain[at(i, static_cast<std::int64_t>(j))]);
    }
    EXPECT_NEAR(in_order, sum, kM * std::ldexp(1.0, -24) * magnitude);
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

}  // namespace

// Visitor graphs on the device: every node, alias and path against the same arithmetic on unfused
// sums.
#include "tests/cuda/require_device.hpp"
#include "tests/cuda/visitor_case.hpp"

namespace {

using namespace visitor_case;  // NOLINT: a test file

TEST(CudaVisitor, LoadsBroadcastAsNamed) {
  REQUIRE_DEVICE();
  Both<float> factor({5.0f});
  for_each_setting([&](Setting& s) {
    expect_values(s, describe(tree(Accumulator{})), [](auto, auto, float acc) { return acc; });
    expect_values(s, describe(tree(s.source())),
                  [&](auto i, auto j, float) { return s.c.host[s.at(i, j)]; });
    expect_values(s, describe(tree(s.residual())),
                  [&](auto i, auto j, float) { return float(s.half.host[s.at(i, j)]); });
    expect_values(s, describe(tree(RowLoad{s.row.data()})),
                  [&](auto, auto j, float) { return s.row.host[static_cast<std::size_t>(j)]; });
    expect_values(s, describe(tree(ColumnLoad{s.column.data()})),
                  [&](auto i, auto, float) { return s.column.host[static_cast<std::size_t>(i)]; });
    expect_values(s, describe(tree(Scalar({{2.0f, nullptr}, {7.0f, factor.data()}}))),
                  [](auto, auto, float) { return 10.0f; });
    // A matrix that is read along its columns.
    MatrixLoad turned{.matrix = {s.aux.data(), DType::f32, 1, s.m}};
    expect_values(s, describe(tree(turned)), [&](auto i, auto j, float) {
      return s.aux.host[static_cast<std::size_t>(i + j * s.m)];
    });
  });
}

TEST(CudaVisitor, NullLoadsGiveTheirDefaultAndNullStoresDoNothing) {
  REQUIRE_DEVICE();
  Setting s(408, DType::f16, DType::f16);
  expect_values(s, describe(tree(MatrixLoad{.null_default = 2})),
                [](auto, auto, float) { return 2.0f; });
  expect_values(s, describe(tree(RowLoad{.null_default = 3})),
                [](auto, auto, float) { return 3.0f; });
  expect_values(s, describe(tree(compute(ElementwiseOp::plus), ColumnLoad{}, Accumulator{})),
                [](auto, auto, float acc) { return acc; });
  expect_values(
      s, describe(tree(compute(ElementwiseOp::d_relu), Accumulator{}, MaskLoad{.null_default = 1})),
      [](auto, auto, float acc) { return acc; });
  expect_values(s, describe(tree(Reduce{}, tree(MaskStore{}, tree(MatrixStore{}, Accumulator{})))),
                [](auto, auto, float acc) { return acc; });
}

TEST(CudaVisitor, ComputesEveryFunction) {
  REQUIRE_DEVICE();
  for_each_setting([&](Setting& s) {
    const auto two = [&](ElementwiseOp op, auto reference) {
      expect_values(
          s, describe(tree(compute(op), Accumulator{}, s.auxiliary())),
          [&](auto i, auto j, float acc) { return reference(acc, s.aux.host[s.at(i, j)]); });
    };
    two(ElementwiseOp::plus, [](float a, float b) { return a + b; });
    two(ElementwiseOp::minus, [](float a, float b) { return a - b; });
    two(ElementwiseOp::multiplies, [](float a, float b) { return a * b; });
    two(ElementwiseOp::divides, [](float a, float b) { return a / b; });
    two(ElementwiseOp::maximum, [](float a, float b) { return std::max(a, b); });
    two(ElementwiseOp::minimum, [](float a, float b) { return std::min(a, b); });
    two(ElementwiseOp::d_relu, [](float a, float b) { return b > 0 ? a : 0.0f; });
    expect_values(s,
                  describe(tree(compute(ElementwiseOp::multiply_add), Accumulator{}, s.auxiliary(),
                                s.source())),
                  [&](auto i, auto j, float acc) {
                    return std::fma(acc, s.aux.host[s.at(i, j)], s.c.host[s.at(i, j)]);
                  });
    const auto one = [&](Compute node, auto reference, float tolerance) {
      // Sums around 0, where functions bend.
      expect_values(
          s, describe(tree(node, tree(compute(ElementwiseOp::multiplies), 0.0625f, Accumulator{}))),
          [&](auto, auto, float acc) {
            return static_cast<float>(reference(double(acc) * 0.0625));
          },
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
        compute(ElementwiseOp::leaky_relu, 0.25f), [](double x) { return x < 0 ? 0.25 * x : x; },
        0);
    // (|x| + 8) * 2^-24 of the exponential, |x| at most 41 here; a product rounds once more.
    one(
        compute(ElementwiseOp::sigmoid), [](double x) { return 1 / (1 + std::exp(-x)); }, 3e-6f);
    one(
        compute(ElementwiseOp::silu), [](double x) { return x / (1 + std::exp(-x)); }, 3e-6f);
    one(
        compute(ElementwiseOp::tanh), [](double x) { return std::tanh(x); }, 1e-6f);
    one(
        compute(ElementwiseOp::gelu),
        [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, 2e-6f);
  });
}

TEST(CudaVisitor, RoundsBetweenNodesWhereAsked) {
  REQUIRE_DEVICE();
  for_each_setting([&](Setting& s) {
    expect_values(s,
                  describe(tree(Compute{.op = ElementwiseOp::multiplies, .output = DType::bf16},
                                Accumulator{}, s.auxiliary())),
                  [&](auto i, auto j, float acc) {
                    return float(base::bf16_t(acc * s.aux.host[s.at(i, j)]));
                  });
    expect_values(s,
                  describe(tree(Compute{.op = ElementwiseOp::multiplies, .output = DType::tf32},
                                Accumulator{}, s.auxiliary())),
                  [&](auto i, auto j, float acc) {
                    return base::round_to_tf32(acc * s.aux.host[s.at(i, j)]);
                  });
    expect_values(
        s, describe(tree(Quantise{DType::e4m3, 0.37f}, Accumulator{})),
        [](auto, auto, float acc) { return float(base::convert<base::e4m3_t>(0.37f * acc)); });
    expect_values(
        s, describe(tree(Quantise{DType::e5m2, 0.37f}, Accumulator{})),
        [](auto, auto, float acc) { return float(base::convert<base::e5m2_t>(0.37f * acc)); });
    expect_values(
        s, describe(tree(Quantise{DType::i8, 1.5f}, Accumulator{})),
        [](auto, auto, float acc) { return float(base::convert<std::int8_t>(1.5f * acc)); });
  });
}

TEST(CudaVisitor, StoresMatricesOnTheWay) {
  REQUIRE_DEVICE();
  for_each_setting([&](Setting& s) {
    Both<float> wide(std::vector<float>(static_cast<std::size_t>(s.m * (s.n + 5)), -1.0f));
    MatrixStore store{.data = wide.data(), .row_stride = s.n + 5};
    expect_values(
        s,
        describe(tree(
            compute(ElementwiseOp::relu),
            tree(store, tree(compute(ElementwiseOp::plus), Accumulator{}, RowLoad{s.row.data()})))),
        [&](auto, auto j, float acc) {
          return std::max(0.0f, acc + s.row.host[static_cast<std::size_t>(j)]);
        },
        0,
        [&] {
          wide.download();
          for (std::int64_t i = 0; i < s.m; ++i) {
            for (std::int64_t j = 0; j < s.n + 5; ++j) {
              const float want =
                  j < s.n ? s.plain[s.at(i, j)] + s.row.host[static_cast<std::size_t>(j)] : -1.0f;
              ASSERT_EQ(wide.host[static_cast<std::size_t>(i * (s.n + 5) + j)], want)
                  << i << ", " << j;
            }
          }
        });
    Both<base::e4m3_t> turned(std::vector<base::e4m3_t>(static_cast<std::size_t>(s.m * s.n)));
    MatrixStore quantised{
        .data = turned.data(), .dtype = DType::e4m3, .row_stride = 1, .column_stride = s.m};
    expect_values(
        s, describe(tree(quantised, Accumulator{})), [](auto, auto, float acc) { return acc; }, 0,
        [&] {
          turned.download();
          for (std::int64_t i = 0; i < s.m; ++i) {
            for (std::int64_t j = 0; j < s.n; ++j)
              ASSERT_EQ(turned.host[static_cast<std::size_t>(i + j * s.m)].bits,
                        base::convert<base::e4m3_t>(s.plain[s.at(i, j)]).bits)
                  << i << ", " << j;
          }
        });
  });
}

TEST(CudaVisitor, MasksHoldABitAnElementAndTheGradientReadsThem) {
  REQUIRE_DEVICE();
  for_each_setting([&](Setting& s) {
    const std::int64_t pitch = (s.n + 7) / 8 + 1;
    Both<std::uint8_t> mask(std::vector<std::uint8_t>(static_cast<std::size_t>(s.m * pitch), 0xa5));
    const auto z = [&](auto i, float acc) {
      return std::fma(2.0f, acc, s.column.host[static_cast<std::size_t>(i)]);
    };
    expect_values(
        s,
        describe(linear_combination_row_bias_relu_mask(2.0f, 0.0f, {}, {s.column.data()},
                                                       {.data = mask.data(), .row_stride = pitch})),
        [&](auto i, auto, float acc) { return std::max(0.0f, z(i, acc)); }, 0,
        [&] {
          mask.download();
          for (std::int64_t i = 0; i < s.m; ++i) {
            for (std::int64_t j = 0; j < s.n; ++j) {
              const bool bit =
                  mask.host[static_cast<std::size_t>(i * pitch + j / 8)] >> (j % 8) & 1;
              ASSERT_EQ(bit, z(i, s.plain[s.at(i, j)]) >= 0) << i << ", " << j;
            }
            ASSERT_EQ(mask.host[static_cast<std::size_t>(i * pitch + pitch - 1)], 0xa5);
          }
        });
    expect_values(s,
                  describe(linear_combination_relu_mask_gradient(
                      1.0f, 0.0f, {}, {.data = mask.data(), .row_stride = pitch})),
                  [&](auto i, auto, float acc) { return z(i, acc) >= 0 ? acc : 0.0f; });
  });
}

// Sums are integers: exact in any order.
TEST(CudaVisitor, ReducesOverRowsColumnsAndAll) {
  REQUIRE_DEVICE();
  for_each_setting([&](Setting& s) {
    Both<float> rows(std::vector<float>(static_cast<std::size_t>(s.n))),
        columns(std::vector<float>(static_cast<std::size_t>(s.m))), all({0.f, 0.f, 0.f, 0.f}),
        most(std::vector<float>(static_cast<std::size_t>(s.m)));
    const auto root = tree(
        Reduce{.axis = ReductionAxis::rows, .out = rows.data()},
        tree(Reduce{.axis = ReductionAxis::columns, .out = columns.data()},
             tree(Reduce{.axis = ReductionAxis::columns,
                         .reduction = Reduction::maximum,
                         .out = most.data()},
                  tree(Reduce{.out = all.data()},
                       tree(Reduce{.reduction = Reduction::amax, .out = all.data() + 1},
                            tree(Reduce{.reduction = Reduction::minimum, .out = all.data() + 2},
                                 Accumulator{}))))));
    expect_values(
        s, describe(root), [](auto, auto, float acc) { return acc; }, 0,
        [&] {
          for (auto* x : {&rows, &columns, &all, &most}) x->download();
          std::vector<float> sum_n(static_cast<std::size_t>(s.n)),
              sum_m(static_cast<std::size_t>(s.m));
          float sum = 0, amax = 0, least = 0;
          for (std::int64_t i = 0; i < s.m; ++i) {
            float row_most = -1e30f;
            for (std::int64_t j = 0; j < s.n; ++j) {
              const float v = s.plain[s.at(i, j)];
              sum_n[static_cast<std::size_t>(j)] += v;
              sum_m[static_cast<std::size_t>(i)] += v;
              sum += v;
              amax = std::max(amax, std::fabs(v));
              least = std::min(least, v);
              row_most = std::max(row_most, v);
            }
            ASSERT_EQ(most.host[static_cast<std::size_t>(i)], row_most) << i;
          }
          ASSERT_EQ(rows.host, sum_n);
          ASSERT_EQ(columns.host, sum_m);
          ASSERT_EQ(all.host[0], sum);
          ASSERT_EQ(all.host[1], amax);
          ASSERT_EQ(all.host[2], least);
        });
  });
}

TEST(CudaVisitor, AmaxPassesNanOn) {
  REQUIRE_DEVICE();
  Setting s(408, DType::f16, DType::f16);
  s.row.host[5] = std::nanf("");
  s.row.upload();
  Both<float> amax({0.f});
  const auto root = tree(Reduce{.reduction = Reduction::amax, .out = amax.data()},
                         tree(compute(ElementwiseOp::plus), Accumulator{}, RowLoad{s.row.data()}));
  expect_values(
      s, describe(root),
      [&](auto, auto j, float acc) { return acc + s.row.host[static_cast<std::size_t>(j)]; }, 0,
      [&] {
        amax.download();
        ASSERT_TRUE(std::isnan(amax.host[0]));
        amax.host[0] = 0;
        amax.upload();
      });
}

TEST(CudaVisitor, AliasesEqualTheUnfusedArithmetic) {
  REQUIRE_DEVICE();
  for_each_setting([&](Setting& s) {
    const auto m = [&](std::int64_t i) { return s.column.host[static_cast<std::size_t>(i)]; };
    const auto m2 = [&](std::int64_t i) { return s.column2.host[static_cast<std::size_t>(i)]; };
    const auto z = [&](auto i, auto j, float acc) {
      return std::fma(0.5f, s.c.host[s.at(i, j)], std::fma(1.5f, acc, m(i)));
    };
    const auto relu = [](float x) { return x < 0 ? 0.0f : x; };
    const ColumnLoad bias{s.column.data()};
    const Compute act = compute(ElementwiseOp::relu);
    expect_values(s, describe(scaled_accumulator(1.5f)),
                  [](auto, auto, float acc) { return 1.5f * acc; });
    expect_values(s, describe(linear_combination(1.5f, 0.5f, s.source())),
                  [&](auto i, auto j, float acc) {
                    return std::fma(0.5f, s.c.host[s.at(i, j)], 1.5f * acc);
                  });
    expect_values(s, describe(linear_combination_activation(act, 1.5f, 0.5f, s.source())),
                  [&](auto i, auto j, float acc) {
                    return relu(std::fma(0.5f, s.c.host[s.at(i, j)], 1.5f * acc));
                  });
    expect_values(s, describe(linear_combination_row_bias(1.5f, 0.5f, s.source(), bias)), z);
    expect_values(
        s, describe(linear_combination_row_bias_activation(act, 1.5f, 0.5f, s.source(), bias)),
        [&](auto i, auto j, float acc) { return relu(z(i, j, acc)); });
    expect_values(s,
                  describe(per_row_linear_combination_row_bias_activation(
                      act, {s.column2.data()}, {s.column.data()}, s.source(), bias)),
                  [&](auto i, auto j, float acc) {
                    return relu(std::fma(m(i), s.c.host[s.at(i, j)], std::fma(m2(i), acc, m(i))));
                  });
    expect_values(s,
                  describe(scaled_linear_combination_row_bias_activation(
                      act, Scalar({{3.0f}, {0.5f}}), 0.5f, s.source(), bias, 0.25f)),
                  [&](auto i, auto j, float acc) { return 0.25f * relu(z(i, j, acc)); });
    expect_values(
        s,
        describe(linear_combination_gradient(compute(ElementwiseOp::d_relu), 1.5f, 0.0f, {},
                                             s.auxiliary())),
        [&](auto i, auto j, float acc) { return s.aux.host[s.at(i, j)] > 0 ? 1.5f * acc : 0.0f; });
    Both<float> sums(std::vector<float>(static_cast<std::size_t>(s.m)));
    expect_values(
        s,
        describe(linear_combination_gradient_row_bias(compute(ElementwiseOp::d_relu), 1.0f, 0.0f,
                                                      {}, s.auxiliary(), sums.data())),
        [&](auto i, auto j, float acc) { return s.aux.host[s.at(i, j)] > 0 ? acc : 0.0f; }, 0,
        [&] {
          sums.download();
          for (std::int64_t i = 0; i < s.m; ++i) {
            float sum = 0;
            for (std::int64_t j = 0; j < s.n; ++j)
              sum += s.aux.host[s.at(i, j)] > 0 ? s.plain[s.at(i, j)] : 0.0f;
            ASSERT_EQ(sums.host[static_cast<std::size_t>(i)], sum) << i;
          }
        });
  });
}

TEST(CudaVisitor, SplitsGiveAllOutputsTheCommonValue) {
  REQUIRE_DEVICE();
  for_each_setting([&](Setting& s) {
    Both<float> aux(std::vector<float>(static_cast<std::size_t>(s.m * s.n))), amax({0.f, 0.f});
    AmaxAux out{.scale_d = 0.5f, .scale_aux = 2.0f};
    out.amax_d = {.reduction = Reduction::amax, .out = amax.data()};
    out.amax_aux = {.reduction = Reduction::amax, .out = amax.data() + 1};
    out.aux = {.data = aux.data(), .row_stride = s.n};
    const auto z = [&](auto i, float acc) {
      return std::fma(1.5f, acc, s.column.host[static_cast<std::size_t>(i)]);
    };
    expect_values(
        s,
        describe(scaled_linear_combination_row_bias_activation_amax_aux(
            compute(ElementwiseOp::relu), 1.5f, 0.0f, {}, {s.column.data()}, out)),
        [&](auto i, auto, float acc) { return 0.5f * std::max(0.0f, z(i, acc)); }, 0,
        [&] {
          aux.download();
          amax.download();
          float want_d = 0, want_aux = 0;
          for (std::int64_t i = 0; i < s.m; ++i) {
            for (std::int64_t j = 0; j < s.n; ++j) {
              const float v = z(i, s.plain[s.at(i, j)]);
              want_d = std::max(want_d, v);
              want_aux = std::max(want_aux, std::fabs(v));
              ASSERT_EQ(aux.host[s.at(i, j)], 2 * v) << i << ", " << j;
            }
          }
          ASSERT_EQ(amax.host[0], want_d);
          ASSERT_EQ(amax.host[1], want_aux);
        });
  });
}

TEST(CudaVisitor, GraphsShareVertices) {
  REQUIRE_DEVICE();
  for_each_setting([&](Setting& s) {
    // d = relu(acc + row) * (acc + row)
    expect_values(s,
                  describe(graph(vertex(Accumulator{}), vertex(RowLoad{s.row.data()}),
                                 vertex<0, 1>(compute(ElementwiseOp::plus)),
                                 vertex<2>(compute(ElementwiseOp::relu)),
                                 vertex<3, 2>(compute(ElementwiseOp::multiplies)))),
                  [&](auto, auto j, float acc) {
                    const float x = acc + s.row.host[static_cast<std::size_t>(j)];
                    return (x < 0 ? 0.0f : x) * x;
                  });
  });
}

}  // namespace

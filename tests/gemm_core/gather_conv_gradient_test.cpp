// Weight gradients against plain loops in double, and input gradients as convolutions with weights
// whose channels have changed places.
#include "gemm_core/device/gather_conv_gradient.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "gemm_core/base/parallel.hpp"
#include "gemm_core/collective/cpu_weight_gradient.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "tests/gemm_core/gather_conv_oracle.hpp"

namespace {

using base::DType;
using gemm_core_test::constant;
using gemm_core_test::ConvCase;
using gemm_core_test::ConvProblem;
using gemm_core_test::element;
using gemm_core_test::set_element;

std::string describe(const ConvCase& c) {
  return base::concat("rows ", c.rows_in, " -> ", c.rows, " cin ", c.cin, " cout ", c.cout,
                      " taps ", c.taps, " groups ", c.groups, " ", base::name(c.in));
}

// The problem's output holds the gradient of the output.
ConvProblem with_gradient(const ConvCase& c, unsigned seed = 1) {
  ConvProblem p(c, seed);
  std::mt19937 random(seed + 100);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.cout; ++j) set_element(p.output.view, i, j, normal(random));
  }
  return p;
}

std::vector<float> weight_gradient(const ConvProblem& p) {
  std::vector<float> result(p.weight.size(), -1.0f);
  gemm_core::gather_conv_weight_gradient({.input = constant(p.input.view),
                                          .gradient = constant(p.output.view),
                                          .neighbours = p.neighbours.data(),
                                          .rows = p.c.rows,
                                          .taps = p.c.taps,
                                          .groups = p.c.groups,
                                          .weight_gradient = result.data()});
  return result;
}

ConvProblem::Sum expected(const ConvProblem& p, std::int64_t n, std::int64_t tap, std::int64_t k) {
  const std::int64_t group = n / (p.c.cout / p.c.groups), group_in = p.c.cin / p.c.groups;
  ConvProblem::Sum sum;
  for (std::int64_t row = 0; row < p.c.rows; ++row) {
    const std::int64_t from = p.neighbours[static_cast<std::size_t>(tap * p.c.rows + row)];
    if (from < 0) continue;
    const double product = double(element(constant(p.input.view), from, group * group_in + k)) *
                           element(constant(p.output.view), row, n);
    sum.value += product;
    sum.magnitude += std::fabs(product);
  }
  return sum;
}

void expect_equal_to_loops(const ConvCase& c) {
  SCOPED_TRACE(describe(c));
  const ConvProblem p = with_gradient(c);
  const auto got = weight_gradient(p);
  const std::int64_t group_in = c.cin / c.groups;
  // Chains of at most 256 products, then an addition a chain: far fewer than 512 in these cases.
  const double relative = 512 * std::ldexp(1.0, -24);
  for (std::int64_t n = 0; n < c.cout; ++n) {
    for (std::int64_t tap = 0; tap < c.taps; ++tap) {
      for (std::int64_t k = 0; k < group_in; ++k) {
        const auto sum = expected(p, n, tap, k);
        ASSERT_NEAR(got[static_cast<std::size_t>((n * c.taps + tap) * group_in + k)], sum.value,
                    relative * sum.magnitude + 1e-30)
            << "weight " << n << " tap " << tap << " channel " << k;
      }
    }
  }
}

TEST(WeightGradient, EqualsPlainLoopsForAnyNumberOfChannels) {
  const std::int64_t counts[] = {1, 3, 5, 6, 17, 18, 33, 96, 130};
  for (std::size_t i = 0; i < std::size(counts); ++i) {
    expect_equal_to_loops({.rows_in = 90,
                           .rows = 75,
                           .cin = counts[i],
                           .cout = counts[(i + 4) % std::size(counts)],
                           .taps = 3});
  }
  expect_equal_to_loops({.rows_in = 30, .rows = 30, .cin = 160, .cout = 200, .taps = 2});
}

TEST(WeightGradient, EqualsPlainLoopsForManyRows) {
  expect_equal_to_loops({.rows_in = 9000, .rows = 13000, .cin = 7, .cout = 9, .taps = 2});
}

TEST(WeightGradient, EqualsPlainLoopsForGroupsAndDepthwise) {
  expect_equal_to_loops({.cin = 8, .cout = 12, .taps = 27, .groups = 4});
  expect_equal_to_loops({.cin = 33, .cout = 33, .taps = 5, .groups = 33});
  expect_equal_to_loops(
      {.rows_in = 5000, .rows = 9000, .cin = 4, .cout = 4, .taps = 2, .groups = 4});
}

TEST(WeightGradient, EqualsPlainLoopsForHalfPrecisionOperands) {
  for (const DType type : {DType::f16, DType::bf16})
    expect_equal_to_loops({.cin = 20, .cout = 36, .taps = 5, .in = type, .out = type});
}

// Behaviour 23: sums beyond the range of fp16 are sums of fp32.
TEST(WeightGradient, AccumulatesHalfPrecisionOperandsInSinglePrecision) {
  ConvProblem p = with_gradient({.rows_in = 400,
                                 .rows = 400,
                                 .cin = 4,
                                 .cout = 4,
                                 .taps = 1,
                                 .in = DType::f16,
                                 .out = DType::f16});
  for (std::int64_t i = 0; i < 400; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      set_element(p.input.view, i, j, 64.0f);
      set_element(p.output.view, i, j, 32.0f);
    }
    p.neighbours[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
  }
  for (const float value : weight_gradient(p)) EXPECT_EQ(value, 400 * 64.0f * 32.0f);
}

TEST(WeightGradient, IsTheSameForAnyNumberOfThreads) {
  const ConvProblem p =
      with_gradient({.rows_in = 9000, .rows = 20000, .cin = 20, .cout = 24, .taps = 4});
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    std::vector<float> got;
    base::Threads(threads).run([&] { got = weight_gradient(p); });
    if (first.empty()) first = got;
    EXPECT_EQ(std::memcmp(first.data(), got.data(), got.size() * sizeof(float)), 0) << threads;
  }
}

TEST(WeightGradient, IsZeroWithoutRowsOrPairs) {
  for (const auto& c : {ConvCase{.rows_in = 0, .rows = 0, .cin = 3, .cout = 5, .taps = 4},
                        ConvCase{.rows_in = 0, .rows = 6, .cin = 3, .cout = 5, .taps = 4},
                        ConvCase{.rows_in = 9, .rows = 0, .cin = 3, .cout = 5, .taps = 4}}) {
    for (const float value : weight_gradient(with_gradient(c))) ASSERT_EQ(value, 0.0f);
  }
}

TEST(WeightGradient, NamesWhatIsWrong) {
  ConvProblem p = with_gradient({.cin = 8, .cout = 8, .taps = 27});
  std::vector<float> to(p.weight.size());
  gemm_core::WeightGradientArguments a{.input = constant(p.input.view),
                                       .gradient = constant(p.output.view),
                                       .rows = p.c.rows,
                                       .taps = 27,
                                       .weight_gradient = to.data()};
  EXPECT_THROW(gemm_core::gather_conv_weight_gradient(a), base::Error);  // taps without a table
  a.neighbours = p.neighbours.data();
  a.groups = 3;
  EXPECT_THROW(gemm_core::gather_conv_weight_gradient(a), base::Error);
  a.groups = 1;
  a.rows = 7;
  EXPECT_THROW(gemm_core::gather_conv_weight_gradient(a), base::Error);
}

// The products of every instruction set against the definition, with rows that end where memory
// that must not be read begins.
TEST(WeightGradient, AtomsOfEveryInstructionSetAgreeWithTheDefinition) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (const gemm_core::CpuAtoms* atoms : gemm_core::supported_cpu_atoms()) {
    for (const std::int64_t rows : {1, 5, 6, 19}) {
      for (const std::int64_t columns : {1, 7, 16, 33, 64, 90}) {
        const std::int64_t pairs = 50, ldc = (columns + 15) / 16 * 16;
        std::vector<float> a(static_cast<std::size_t>(pairs * rows)),
            b(static_cast<std::size_t>(pairs * columns)),
            c(static_cast<std::size_t>(rows * ldc), 0.0f);
        for (float& v : a) v = normal(random);
        for (float& v : b) v = normal(random);
        std::vector<std::int32_t> source, target;
        for (std::int32_t i = 0; i < pairs; ++i) {
          source.push_back((i * 7) % static_cast<std::int32_t>(pairs));
          target.push_back(static_cast<std::int32_t>(pairs) - 1 - i);
        }
        atoms->multiply_row_pairs({.a = a.data(),
                                   .pitch_a = rows,
                                   .source = source.data(),
                                   .b = b.data(),
                                   .pitch_b = columns,
                                   .target = target.data(),
                                   .pairs = pairs,
                                   .block = 16,
                                   .rows = rows,
                                   .columns = columns,
                                   .c = c.data(),
                                   .ldc = ldc});
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (std::size_t p = 0; p < static_cast<std::size_t>(pairs); ++p) {
              sum += double(a[static_cast<std::size_t>(source[p] * rows + i)]) *
                     b[static_cast<std::size_t>(target[p] * columns + j)];
            }
            ASSERT_NEAR(c[static_cast<std::size_t>(i * ldc + j)], sum, 1e-4)
                << atoms->name << " " << rows << " x " << columns << " at " << i << ", " << j;
          }
        }
      }
    }
  }
}

// dx[i][k] = sum over (row m, tap r) with neighbours[r][m] = i of sum over n of w[n][r][k]
// dy[m][n]: the convolution over the inverse table.
TEST(InputGradient, IsAConvolutionWithTransposedWeightsOverTheInverseTable) {
  for (const ConvCase& c :
       {ConvCase{.rows_in = 60, .rows = 40, .cin = 5, .cout = 12, .taps = 3},
        ConvCase{.rows_in = 60, .rows = 40, .cin = 32, .cout = 6, .taps = 3},
        ConvCase{.rows_in = 60, .rows = 40, .cin = 8, .cout = 12, .groups = 4},
        ConvCase{.rows_in = 60, .rows = 40, .cin = 9, .cout = 9, .groups = 9}}) {
    for (const bool reversed : {false, true}) {
      SCOPED_TRACE(describe(c));
      ConvProblem p = with_gradient(c);
      // Per tap each input row occurs at most once, as in a kernel map.
      std::fill(p.neighbours.begin(), p.neighbours.end(), -1);
      std::vector<std::int32_t> inverse(static_cast<std::size_t>(c.taps * c.rows_in), -1);
      for (std::int64_t tap = 0; tap < c.taps; ++tap) {
        const std::int64_t of_inverse = reversed ? c.taps - 1 - tap : tap;
        for (std::int64_t row = tap % 3; row < c.rows; row += 2) {
          const std::int64_t in = (row * 7 + tap) % c.rows_in;
          p.neighbours[static_cast<std::size_t>(tap * c.rows + row)] =
              static_cast<std::int32_t>(in);
          inverse[static_cast<std::size_t>(of_inverse * c.rows_in + in)] =
              static_cast<std::int32_t>(row);
        }
      }
      const auto weights = gemm_core::pack_conv_weights({.weight = p.weight.data(),
                                                         .cout = c.cin,
                                                         .taps = c.taps,
                                                         .cin = c.cout,
                                                         .groups = c.groups,
                                                         .is_transposed = true,
                                                         .has_reversed_taps = reversed});
      std::vector<float> dx(static_cast<std::size_t>(c.rows_in * c.cin));
      gemm_core::gather_conv(
          {.input = constant(p.output.view),
           .neighbours = inverse.data(),
           .rows = c.rows_in,
           .weights = &weights,
           .output = {dx.data(), DType::f32, {}, {c.rows_in, c.cin}, {c.cin, 1}}});
      std::vector<double> expected_dx(dx.size(), 0.0);
      const std::int64_t group_in = c.cin / c.groups, group_out = c.cout / c.groups;
      for (std::int64_t tap = 0; tap < c.taps; ++tap) {
        for (std::int64_t row = 0; row < c.rows; ++row) {
          const std::int64_t in = p.neighbours[static_cast<std::size_t>(tap * c.rows + row)];
          if (in < 0) continue;
          for (std::int64_t n = 0; n < c.cout; ++n) {
            for (std::int64_t k = 0; k < group_in; ++k) {
              expected_dx[static_cast<std::size_t>(in * c.cin + n / group_out * group_in + k)] +=
                  double(p.weight[static_cast<std::size_t>((n * c.taps + tap) * group_in + k)]) *
                  element(constant(p.output.view), row, n);
            }
          }
        }
      }
      for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], expected_dx[i], 2e-4) << i;
    }
  }
}

}  // namespace

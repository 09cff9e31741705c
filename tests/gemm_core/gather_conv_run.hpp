// How the tests of the gathered convolution pack and run a problem, and hold it to the oracle.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "gemm_core/collective/cpu_packed_weights.hpp"
#include "gemm_core/device/gather_conv.hpp"
#include "tests/gemm_core/gather_conv_oracle.hpp"

namespace gemm_core_test {

inline std::string describe(const ConvCase& c) {
  return base::concat("rows ", c.rows, " cin ", c.cin, " cout ", c.cout, " taps ", c.taps,
                      " groups ", c.groups, " ", base::name(c.in), " -> ", base::name(c.compute),
                      " -> ", base::name(c.out));
}

inline gemm_core::PackedConvWeights pack(
    const ConvProblem& p, const gemm_core::CpuAtoms& atoms = gemm_core::cpu_atoms()) {
  return gemm_core::pack_conv_weights_for(atoms, {.weight = p.weight.data(),
                                                  .cout = p.c.cout,
                                                  .taps = p.c.taps,
                                                  .cin = p.c.cin,
                                                  .groups = p.c.groups,
                                                  .compute = p.c.compute});
}

inline void run(const ConvProblem& p, const gemm_core::PackedConvWeights& weights,
                const gemm_core::Epilogue& epilogue = {}) {
  gemm_core::gather_conv({.input = constant(p.input.view),
                          .neighbours = p.neighbours.data(),
                          .rows = p.c.rows,
                          .weights = &weights,
                          .epilogue = epilogue,
                          .output = p.output.view});
}

inline void expect_equal_to_oracle(const ConvProblem& p, const std::string& what) {
  double worst = 0;
  for (std::int64_t i = 0; i < p.c.rows; ++i) {
    for (std::int64_t n = 0; n < p.c.cout; ++n) {
      const auto sum = p.expected(i, n);
      const double got = element(constant(p.output.view), i, n);
      worst = std::max(worst, std::fabs(got - sum.value) / p.tolerance(sum));
      ASSERT_LE(std::fabs(got - sum.value), p.tolerance(sum))
          << what << ": row " << i << " channel " << n << " got " << got << " expected "
          << sum.value;
    }
  }
  ::testing::Test::RecordProperty("worst_share_of_tolerance", std::to_string(worst));
}

inline void check(const ConvCase& c) {
  const ConvProblem p(c);
  run(p, pack(p));
  expect_equal_to_oracle(p, describe(c));
}

}  // namespace gemm_core_test

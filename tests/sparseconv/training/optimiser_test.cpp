// Schedules and updates against their equations.
#include "sparseconv/training/optimiser.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "sparseconv/training/tape.hpp"
#include "tests/support/make_inputs.hpp"

namespace {

using namespace sparseconv;
using namespace sparseconv::training;

// -----------------------------------------------------------------------

TEST(Schedule, CosineRisesOverTheWarmUpAndFallsToItsEnd) {
  const ScheduleOptions s{.rate = 2, .steps = 101, .warmup_steps = 4, .final_fraction = 0.25};
  EXPECT_DOUBLE_EQ(learning_rate(s, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 3), 2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 52), 0.5 + 1.5 / 2);
  EXPECT_DOUBLE_EQ(learning_rate(s, 100), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(s, 1000), 0.5);
}

TEST(Schedule, OneCycleRisesAndFalls) {
  const ScheduleOptions s{.kind = ScheduleOptions::Kind::one_cycle,
                          .rate = 1,
                          .steps = 101,
                          .final_fraction = 0,
                          .rise = 0.5};
  EXPECT_NEAR(learning_rate(s, 0), 0.04, 1e-15);
  EXPECT_NEAR(learning_rate(s, 25), 0.52, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(s, 50), 1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 75), 0.5);
  EXPECT_NEAR(learning_rate(s, 100), 0, 1e-15);
  const ScheduleOptions one{.steps = 1};
  EXPECT_DOUBLE_EQ(learning_rate(one, 0), one.rate);
}

// Two steps of a single weight, worked out in double.
TEST(Optimiser, FollowsItsEquations) {
  Model model = test_support::random_model(
      R"({"name":"out","op":"linear","inputs":["input"],"out_channels":1,"bias":true})", 1);
  validate(model);
  const Tape tape(model);
  for (const bool nesterov : {false, true}) {
    Parameters p = tape.parameters();
    const auto w = static_cast<std::size_t>(p.entry(0, "weight").offset),
               b = static_cast<std::size_t>(p.entry(0, "bias").offset);
    p.values[w] = 1;
    p.values[b] = 1;
    Optimiser sgd({.kind = OptimiserOptions::Kind::sgd,
                   .momentum = 0.5,
                   .nesterov = nesterov,
                   .weight_decay = 0.25},
                  p);
    p.gradients[w] = p.gradients[b] = 4;
    sgd.step(p, 0.125, 0.5);  // g = 2 + 0.25, v = 2.25
    EXPECT_FLOAT_EQ(p.values[w], nesterov ? 1 - 0.125f * (2.25f + 1.125f) : 1 - 0.125f * 2.25f);
    EXPECT_FLOAT_EQ(p.values[b], nesterov ? 1 - 0.125f * 3 : 1 - 0.125f * 2);
    const float before = p.values[b];
    sgd.step(p, 0.125, 0.5);  // v = 1 + 2
    EXPECT_FLOAT_EQ(p.values[b], before - 0.125f * (nesterov ? 2 + 1.5f : 3));
  }
  Parameters p = tape.parameters();
  const auto w = static_cast<std::size_t>(p.entry(0, "weight").offset);
  p.values[w] = 2;
  Optimiser adamw({.weight_decay = 0.1}, p);
  double m = 0, v = 0, x = 2;
  for (int i = 1; i <= 3; ++i) {
    const double g = i;
    p.gradients[w] = static_cast<float>(g);
    adamw.step(p, 0.01, 1);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    x = x * (1 - 0.01 * 0.1) -
        0.01 * m / (1 - std::pow(0.9, i)) / (std::sqrt(v / (1 - std::pow(0.999, i))) + 1e-8);
    EXPECT_NEAR(p.values[w], x, 1e-6);
  }
}

TEST(Norm, IsTheSquareRootOfTheSumOfSquares) {
  EXPECT_EQ(norm({}), 0);
  const std::vector<float> values{3, 4, 12};
  EXPECT_DOUBLE_EQ(norm(values), 13);
}

}  // namespace

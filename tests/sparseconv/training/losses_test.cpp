// Losses against numbers worked out by hand, and their gradients against difference quotients.
#include "sparseconv/training/losses.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "sparseconv/training/batch.hpp"
#include "tests/support/make_inputs.hpp"

namespace {

using namespace sparseconv::training;
using base::ConstTensorView;
using base::DType;

struct Matrix {
  std::vector<float> values;
  std::int64_t rows, columns;
  Matrix(std::int64_t r, std::int64_t c)
      : values(static_cast<std::size_t>(r * c)), rows(r), columns(c) {}
  Matrix(std::int64_t r, std::int64_t c, std::vector<float> v)
      : values(std::move(v)), rows(r), columns(c) {}
  base::TensorView view() { return {values.data(), DType::f32, {}, {rows, columns}, {columns, 1}}; }
  ConstTensorView constant() const {
    return {values.data(), DType::f32, {}, {rows, columns}, {columns, 1}};
  }
};

ClassLoss loss_of(const LossOptions& options, const Matrix& logits,
                  const std::vector<std::int32_t>& labels) {
  Matrix gradient(logits.rows, logits.columns);
  return class_loss(options, logits.constant(), labels, gradient.view());
}

void expect_gradient(Matrix at, const Matrix& gradient, const std::function<double(Matrix&)>& loss,
                     float step, double tolerance) {
  for (std::size_t i = 0; i < at.values.size(); ++i) {
    const float before = at.values[i];
    at.values[i] = before + step;
    const double above = loss(at);
    at.values[i] = before - step;
    const double below = loss(at);
    at.values[i] = before;
    EXPECT_NEAR(gradient.values[i], (above - below) / (2.0 * step), tolerance) << i;
  }
}

Matrix random_logits(std::int64_t rows, std::int64_t classes) {
  Matrix m(rows, classes);
  test_support::Random random(4);
  for (float& v : m.values) v = 3 * random.value();
  return m;
}

const std::vector<std::int32_t> kLabels{0, 2, 1, kIgnore, 2, 0, 2, kIgnore, 1, 0, 0, 2};

TEST(ClassLoss, OfEqualLogitsIsTheLogarithmOfTheClasses) {
  const auto result = loss_of({}, Matrix(3, 4), {0, 3, kIgnore});
  EXPECT_NEAR(result.loss, std::log(4.0), 1e-12);
  EXPECT_EQ(result.labelled, 2);
  EXPECT_EQ(result.correct, 1);  // ties go to the lowest class
  EXPECT_EQ(result.predictions, (std::vector<std::int32_t>{0, 0, 0}));
}

TEST(ClassLoss, WeighsClasses) {
  // -log p of the label: log 2 for the first row, log(1 + e^2) - 2 for the second.
  const Matrix logits(2, 2, {0, 0, 0, 2});
  const auto result = loss_of({.class_weights = {3, 1}}, logits, {0, 1});
  EXPECT_NEAR(result.loss, (3 * std::log(2.0) + std::log(1 + std::exp(-2.0))) / 4, 1e-7);
}

TEST(ClassLoss, GradientsEqualTheDifferenceQuotient) {
  const Matrix logits = random_logits(12, 3);
  for (const LossOptions& options :
       {LossOptions{}, LossOptions{.class_weights = {0.5f, 2, 1}},
        LossOptions{.label_smoothing = 0.2}, LossOptions{.focal_gamma = 2},
        LossOptions{.class_weights = {1, 0, 3}, .label_smoothing = 0.1, .focal_gamma = 1.5}}) {
    Matrix gradient(12, 3);
    class_loss(options, logits.constant(), kLabels, gradient.view());
    expect_gradient(
        logits, gradient, [&](Matrix& m) { return loss_of(options, m, kLabels).loss; }, 1.0f / 1024,
        1e-6);
  }
}

TEST(ClassLoss, OfNoLabelIsZero) {
  Matrix gradient(2, 3, {1, 2, 3, 4, 5, 6});
  const std::vector<std::int32_t> labels{kIgnore, kIgnore};
  const auto result =
      class_loss({.lovasz_weight = 1}, Matrix(2, 3).constant(), labels, gradient.view());
  EXPECT_EQ(result.loss, 0);
  EXPECT_EQ(result.labelled, 0);
  for (const float g : gradient.values) EXPECT_EQ(g, 0.0f);
}

TEST(ClassLoss, NamesTheRowOfALabelOutsideTheClasses) {
  try {
    loss_of({}, Matrix(3, 4), {0, 4, 1});
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_STREQ(error.what(),
                 "loss: label 4 of row 1 is neither one of 4 classes nor -1 (ignored)");
  }
  EXPECT_THROW(loss_of({}, Matrix(3, 4), {0, 1}), base::Error);
  EXPECT_THROW(loss_of({.class_weights = {1}}, Matrix(1, 4), {0}), base::Error);
  EXPECT_THROW(loss_of({.label_smoothing = 1}, Matrix(1, 4), {0}), base::Error);
}

TEST(LovaszSoftmax, IsZeroWhereAllIsRightAndOneWhereAllIsWrong) {
  Matrix right(2, 2, {50, 0, 0, 50}), gradient(2, 2);
  const std::vector<std::int32_t> labels{0, 1}, swapped{1, 0};
  EXPECT_NEAR(add_lovasz_softmax(1, right.constant(), labels, gradient.view()), 0, 1e-12);
  EXPECT_NEAR(add_lovasz_softmax(1, right.constant(), swapped, gradient.view()), 1, 1e-12);
}

// One class of one pixel each: errors of class 0 are 1 - p (its pixel) and q (the other), where p
// and q are its probabilities. With p = 0.8, q = 0.4, the larger error 0.4 is a false positive
// (Jaccard loss 1/2), then 0.2 (1/2 more): 0.4/2 + 0.2/2 = 0.3; class 1 mirrors it: errors 1 - 0.6
// and 0.2: 0.4 a miss (loss 1), then 0: 0.4.
TEST(LovaszSoftmax, EqualsANumberWorkedOutByHand) {
  const auto logit = [](double p) { return static_cast<float>(std::log(p / (1 - p))); };
  Matrix logits(2, 2, {logit(0.8), 0, logit(0.4), 0}), gradient(2, 2);
  const std::vector<std::int32_t> labels{0, 1};
  EXPECT_NEAR(add_lovasz_softmax(2, logits.constant(), labels, gradient.view()),
              2 * (0.3 + 0.4) / 2, 1e-6);
}

TEST(LovaszSoftmax, GradientsEqualTheDifferenceQuotient) {
  const Matrix logits = random_logits(12, 3);
  Matrix gradient(12, 3);
  const LossOptions options{.lovasz_weight = 1.5};
  class_loss(options, logits.constant(), kLabels, gradient.view());
  expect_gradient(
      logits, gradient, [&](Matrix& m) { return loss_of(options, m, kLabels).loss; }, 1.0f / 256,
      2e-4);
}

TEST(HeatmapLoss, EqualsItsDefinitionAndItsDifferenceQuotient) {
  Matrix logits = random_logits(5, 2);
  Matrix targets(5, 2, {1, 0, 0.5f, 0, 0, 0.25f, 1, 0, 0, 0.75f}), gradient(5, 2);
  const auto loss = [&](Matrix& m) {
    Matrix unused(5, 2);
    return heatmap_loss(m.constant(), targets.constant(), unused.view());
  };
  double expected = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    const double p = 1 / (1 + std::exp(-double(logits.values[i]))), y = targets.values[i];
    expected -=
        y == 1 ? std::pow(1 - p, 2) * std::log(p) : std::pow(1 - y, 4) * p * p * std::log(1 - p);
  }
  EXPECT_NEAR(heatmap_loss(logits.constant(), targets.constant(), gradient.view()), expected / 2,
              1e-9);
  expect_gradient(logits, gradient, loss, 1.0f / 1024, 1e-5);
}

TEST(L1Loss, IsTheMeanDistanceOverTheRowsOfTheMask) {
  Matrix values(3, 2, {1, 2, 3, 4, 5, 6}), targets(3, 2, {0, 4, 0, 0, 5, 7}), gradient(3, 2);
  const std::vector<std::uint8_t> mask{1, 0, 1};
  EXPECT_EQ(l1_loss(values.constant(), targets.constant(), mask, gradient.view()), (3 + 1) / 2.0);
  EXPECT_EQ(gradient.values, (std::vector<float>{0.5f, -0.5f, 0, 0, 0, -0.5f}));
  EXPECT_EQ(l1_loss(values.constant(), targets.constant(), {}, gradient.view()), (3 + 7 + 1) / 3.0);
  const std::vector<std::uint8_t> none{0, 0, 0};
  EXPECT_EQ(l1_loss(values.constant(), targets.constant(), none, gradient.view()), 0);
}

}  // namespace

#include "sparseconv/training/confusion.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "gemm_core/base/error.hpp"
#include "sparseconv/training/random.hpp"

namespace sparseconv::training {
namespace {

using Labels = std::vector<std::int32_t>;

TEST(Confusion, FiguresOfAnExampleCountedByHand) {
  Confusion confusion(3);
  //               right  right  0 as 1  1 as 0  dropped  ignored
  confusion.add(Labels{0, 1, 0, 1, 1, -1}, Labels{0, 1, 1, 0, -1, 2});
  EXPECT_EQ(confusion.count(0, 0), 1);
  EXPECT_EQ(confusion.count(1, -1), 1);
  EXPECT_EQ(confusion.truths(1), 3);
  EXPECT_EQ(confusion.predictions(0), 2);
  EXPECT_EQ(confusion.scored(), 5);
  EXPECT_EQ(confusion.ignored(), 1);
  EXPECT_DOUBLE_EQ(*confusion.iou(0), 1.0 / 3);  // one hit, one missed, one too many
  EXPECT_DOUBLE_EQ(*confusion.iou(1), 1.0 / 4);
  EXPECT_FALSE(confusion.iou(2));  // only predicted where the truth is ignored
  EXPECT_DOUBLE_EQ(confusion.mean_iou(), (1.0 / 3 + 1.0 / 4) / 2);
  EXPECT_DOUBLE_EQ(confusion.accuracy(), 2.0 / 5);
}

TEST(Confusion, AClassThatIsOnlyPredictedCountsWithIouZero) {
  Confusion confusion(2);
  confusion.add(Labels{0, 0}, Labels{0, 1});
  EXPECT_EQ(confusion.iou(1), 0.0);
  EXPECT_DOUBLE_EQ(confusion.mean_iou(), 0.25);
}

TEST(Confusion, PartsAddUpToTheWhole) {
  RandomStream random(3);
  Labels truth, predicted;
  for (int i = 0; i < 1000; ++i) {
    truth.push_back(static_cast<std::int32_t>(random.integer(5)) - 1);
    predicted.push_back(static_cast<std::int32_t>(random.integer(5)) - 1);
  }
  Confusion whole(4), parts(4), second(4);
  whole.add(truth, predicted);
  const auto begin = truth.begin();
  parts.add(Labels(begin, begin + 300), Labels(predicted.begin(), predicted.begin() + 300));
  second.add(Labels(begin + 300, truth.end()), Labels(predicted.begin() + 300, predicted.end()));
  parts.add(second);
  for (int t = 0; t < 4; ++t)
    for (int p = -1; p < 4; ++p) EXPECT_EQ(parts.count(t, p), whole.count(t, p));
  EXPECT_EQ(parts.ignored() + parts.scored(), 1000);
}

TEST(Confusion, NothingGivesZerosNotNan) {
  Confusion confusion(2);
  confusion.add(Labels{}, Labels{});
  EXPECT_EQ(confusion.mean_iou(), 0);
  EXPECT_EQ(confusion.accuracy(), 0);
}

TEST(Confusion, RefusesWhatCannotBeCounted) {
  Confusion confusion(2);
  EXPECT_THROW(confusion.add(Labels{0}, Labels{}), base::Error);
  EXPECT_THROW(confusion.add(Labels{2}, Labels{0}), base::Error);
  EXPECT_THROW(confusion.add(Labels{0}, Labels{-2}), base::Error);
  EXPECT_THROW(confusion.add(Confusion(3)), base::Error);
  EXPECT_THROW(Confusion(0), base::Error);
}

}  // namespace
}  // namespace sparseconv::training

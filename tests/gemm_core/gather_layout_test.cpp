// Gathered rows as a composed layout: slots, an index buffer, holes.
#include <gtest/gtest.h>

#include "gemm_core/layout/gather.hpp"
#include "gemm_core/layout/print.hpp"

namespace {

using namespace layout;  // NOLINT: a test file

TEST(GatherLayout, IsOperandAOfASparseConvolution) {
  constexpr Index kRows = 3, kChannels = 4, kTaps = 2;
  const std::int32_t neighbour[kRows][kTaps] = {{0, 2}, {-1, 1}, {2, -1}};
  const LayoutTree slots({3, {4, 2}}, {kTaps, {0, 1}}), dense({3, {4, 2}}, {0, {1, 0}});
  const auto a = make_gather_layout(slots, dense, &neighbour[0][0], kRows * kTaps, kChannels);
  for (Index m = 0; m < kRows; ++m)
    for (Index c = 0; c < kChannels; ++c)
      for (Index r = 0; r < kTaps; ++r) {
        const Index i = m + kRows * (c + kChannels * r);
        const bool present = neighbour[m][r] >= 0;
        EXPECT_EQ(a.exists(i), present);
        EXPECT_EQ(a(i), present ? neighbour[m][r] * kChannels + c : kHole);
      }
}

TEST(GatherLayout, TakesLayoutsThatAreTypesAndRowPitchesPastInt) {
  const std::int64_t index[2] = {3'000'000'000, -1};
  const auto slots = make_layout(Tuple(Int<2>{}, Int<8>{}), Tuple(Int<1>{}, Int<0>{}));
  const auto dense = make_layout(Tuple(Int<2>{}, Int<8>{}), Tuple(Int<0>{}, Int<1>{}));
  const GatherLayout a{slots, dense, index, Index(64)};
  EXPECT_EQ(a(Tuple(0, 5)), 192'000'000'005);
  EXPECT_EQ(a(Tuple(1, 5)), kHole);
}

TEST(GatherLayout, AddsOffsetsInsideTheGather) {
  const std::int32_t index[4] = {7, 5, 3, 1};
  auto a = make_gather_layout(LayoutTree(2, 1), LayoutTree(2, 0), index, 4, 10);
  a.slot_offset = 2;
  a.dense_offset = 4;
  EXPECT_EQ(a(0), 34);
  EXPECT_EQ(a(1), 14);
}

TEST(GatherLayout, IsReadInVectorsAlongItsDenseStrideOneRunOnly) {
  const std::int32_t index[6] = {};
  const auto width = [&](const LayoutTree& slots, const LayoutTree& dense) {
    return max_vector(make_gather_layout(slots, dense, index, 6, 8));
  };
  EXPECT_EQ(width(LayoutTree({{4, 2}, 3}, {{0, 0}, 2}), LayoutTree({{4, 2}, 3}, {{1, 4}, 0})), 8);
  EXPECT_EQ(width(LayoutTree({{4, 2}, 3}, {{0, 1}, 2}), LayoutTree({{4, 2}, 3}, {{1, 0}, 0})), 4);
  EXPECT_EQ(width(LayoutTree({3, 4}, {1, 0}), LayoutTree({3, 4}, {0, 1})), 1) << "rows run fastest";
}

TEST(GatherLayout, RefusesAShortIndexBufferAndTwoShapes) {
  const std::int32_t index[3] = {0, 1, 2};
  EXPECT_THROW(make_gather_layout(LayoutTree(4, 1), LayoutTree(4, 0), index, 3, 1), base::Error);
  EXPECT_THROW(make_gather_layout(LayoutTree(3, 1), LayoutTree({3, 1}, {1, 0}), index, 3, 1),
               base::Error);
}

}  // namespace

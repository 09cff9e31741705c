// Laws of the layout algebra over thousands of generated layouts, each against values found from
// the definition.
#include <gtest/gtest.h>

#include <bit>

#include "tests/gemm_core/layout_generator.hpp"

namespace {

using namespace layout_test;  // NOLINT: a test file
using layout::print;

constexpr int kRounds = 4000;

// The answer, or nothing where the operation refuses.
template <class Operation>
std::optional<LayoutTree> answer_of(Operation operation) {
  try {
    return operation();
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

TEST(Coalesce, KeepsTheFunctionAndIsShortest) {
  Generator random(1);
  for (int round = 0; round < kRounds; ++round) {
    const LayoutTree a = random.layout(), r = coalesce(a);
    ASSERT_EQ(table(a), table(r)) << print(a);
    ASSERT_LE(depth(r), 1);
    const Modes modes = leaves(r);
    for (std::size_t k = 0; k + 1 < modes.size(); ++k)
      ASSERT_NE(modes[k].size.value() * modes[k].stride.value(), modes[k + 1].stride.value())
          << print(r);
    for (const Mode& m : modes) ASSERT_TRUE(m.size.value() > 1 || size(a).value() == 1) << print(r);
  }
}

TEST(Filter, KeepsTheImage) {
  Generator random(2);
  for (int round = 0; round < kRounds; ++round) {
    const LayoutTree a = random.layout();
    ASSERT_EQ(image(a), image(filter(a))) << print(a);
  }
}

TEST(Coordinates, OfAnIndexGiveBackTheIndexUnderCompactStrides) {
  Generator random(3);
  for (int round = 0; round < kRounds; ++round) {
    const LayoutTree a = random.layout();
    for (Index i = 0; i < size(a).value(); ++i)
      ASSERT_EQ(a(i), crd2idx(layout::idx2crd(i, shape(a)), a)) << print(a) << " at " << i;
  }
}

TEST(Composition, EqualsApplyingBThenAAndIsRefusedOnlyWhereNoLayoutHasTheValues) {
  Generator random(4);
  int answered = 0, refused = 0, refused_though_possible = 0;
  for (int round = 0; round < 10 * kRounds; ++round) {
    const LayoutTree a = random.layout(), b = random.layout(3, 24);
    std::vector<Index> values;
    for (Index i = 0; i < size(b).value(); ++i) values.push_back(a(b(i)));
    const auto r = answer_of([&] { return composition(a, b); });
    if (r) {
      ++answered;
      ASSERT_EQ(table(*r), values) << print(a) << " o " << print(b) << " = " << print(*r);
    } else {
      ++refused;
      refused_though_possible += refinement_exists(b, values);
    }
  }
  EXPECT_GT(answered, kRounds);
  EXPECT_GT(refused, kRounds / 2);
  // Simultaneous carries whose effects cancel (composition.hpp): rare among layouts with arbitrary
  // strides.
  EXPECT_LE(refused_though_possible, refused / 1000);
}

TEST(Composition, RefusesWhereCarriesMakeTheUsualRulesWrong) {
  EXPECT_FALSE(answer_of([] {
    return composition(LayoutTree({4, 2}, {1, 10}), LayoutTree(6, 1));
  }));
  EXPECT_FALSE(answer_of([] {
    return composition(LayoutTree({4, 4}, {1, 100}), LayoutTree({3, 2}, {1, 2}));
  }));
  EXPECT_EQ(print(composition(LayoutTree({4, 4}, {1, 100}), LayoutTree(3, 5))), "3:101");
  EXPECT_EQ(print(composition(LayoutTree({3, 7, 2}, {1, 5, 37}), LayoutTree(6, 1))), "(3,2):(1,5)");
}

TEST(Composition, ByModeKeepsModesThatTheTilerDoesNotName) {
  const LayoutTree a({8, 6, 5}, {30, 5, 1});
  EXPECT_EQ(print(composition(a, layout::Tiler{LayoutTree(4, 2), {}})), "(4,6,5):(60,5,1)");
}

// The definition, number by number: the complement must take the smallest number not yet covered.
std::optional<std::vector<Index>> complement_by_definition(const LayoutTree& a, Index target) {
  std::vector<Mode> modes;
  Index period = 1;
  for (const Mode& m : leaves(a)) {
    if (m.size.value() == 1 || m.stride.value() == 0) continue;
    modes.push_back(m);
    period = std::max(period, m.size.value() * m.stride.value());
  }
  const auto values = table(layout::from_modes(modes));
  if (std::set<Index>(values.begin(), values.end()).size() != values.size()) return std::nullopt;
  const Index end = period * std::max<Index>(1, (target + period - 1) / period);
  std::vector<bool> covered(static_cast<std::size_t>(end));
  std::vector<Index> result;
  for (Index next = 0; next < end; ++next) {
    if (covered[static_cast<std::size_t>(next)]) continue;
    result.push_back(next);
    for (Index v : values) {
      if (next + v >= end || covered[static_cast<std::size_t>(next + v)]) return std::nullopt;
      covered[static_cast<std::size_t>(next + v)] = true;
    }
  }
  return result;
}

TEST(Complement, IsTheOneOfTheDefinitionOrRefused) {
  Generator random(5);
  int refused = 0;
  for (int round = 0; round < 5 * kRounds; ++round) {
    const LayoutTree a = random.layout(3, 24);
    const Index target = random.pick(0, 100);
    const auto expected = complement_by_definition(a, target);
    const auto r = answer_of([&] { return layout::complement(a, target); });
    ASSERT_EQ(expected.has_value(), r.has_value()) << print(a) << " to " << target;
    refused += !r;
    if (r) {
      ASSERT_EQ(table(*r), *expected) << print(a) << " to " << target;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(LogicalDivide, RunsInsideATileThenOverTiles) {
  Generator random(6);
  int answered = 0;
  for (int round = 0; round < 5 * kRounds; ++round) {
    const LayoutTree a = random.layout(), tiler = random.layout(2, 12);
    const auto r = answer_of([&] { return logical_divide(a, tiler); });
    if (!r) continue;
    ++answered;
    const LayoutTree rest = layout::complement(tiler, size(a).value());
    ASSERT_EQ(rank(*r), 2);
    const Index tile = size(tiler).value();
    ASSERT_EQ(size(mode(*r, 0)).value(), tile);
    for (Index j = 0; j < size(rest).value(); ++j)
      for (Index i = 0; i < tile; ++i)
        ASSERT_EQ((*r)(i + tile * j), a(tiler(i) + rest(j))) << print(a) << " / " << print(tiler);
  }
  EXPECT_GT(answered, kRounds / 2);
}

TEST(Divides, AreTheSameValuesRegrouped) {
  const LayoutTree a({9, {4, 8}}, {59, {13, 1}});
  const layout::Tiler tiler{LayoutTree(3, 3), LayoutTree({2, 4}, {1, 8})};
  EXPECT_EQ(print(logical_divide(a, tiler)), "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))");
  const LayoutTree zipped = zipped_divide(a, tiler);
  EXPECT_EQ(print(zipped), "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))");
  EXPECT_EQ(table(zipped), table(tiled_divide(a, tiler)));
  EXPECT_EQ(table(zipped), table(flat_divide(a, tiler)));
  EXPECT_EQ(rank(tiled_divide(a, tiler)), 3);
  EXPECT_EQ(rank(flat_divide(a, tiler)), 4);
}

TEST(Divides, OfANestedModeWithARaggedTileCoverEveryElement) {
  const LayoutTree a({{2, 8}}, {{1, 2}});
  const LayoutTree r = logical_divide(a, layout::Tiler{LayoutTree(7, 1)});
  EXPECT_EQ(size(mode(mode(r, 0), 1)).value(), 3);  // ceil(16 / 7)
}

TEST(LogicalProduct, HasDisjointCopiesInTheOrderOfB) {
  Generator random(7);
  int answered = 0;
  for (int round = 0; round < kRounds; ++round) {
    const LayoutTree a = random.compact(3, 16), b = random.compact(3, 12);
    const auto r = answer_of([&] { return logical_product(a, b); });
    if (!r) continue;
    ++answered;
    ASSERT_EQ(table(mode(*r, 0)), table(a));
    ASSERT_EQ(image(*r).size(), table(*r).size()) << print(a) << " x " << print(b);
    const LayoutTree room = layout::complement(a, size(a).value() * cosize(b).value());
    for (Index j = 0; j < size(b).value(); ++j) ASSERT_EQ(mode(*r, 1)(j), room(b(j)));
  }
  EXPECT_EQ(answered, kRounds);
}

TEST(Products, PlaceBlocksTogetherOrDealThemOut) {
  const LayoutTree a({2, 5}, {5, 1}), b({3, 4}, {1, 3});
  EXPECT_EQ(print(coalesce_by_mode(blocked_product(a, b))), "(6,(5,4)):(5,(1,30))");
  EXPECT_EQ(print(raked_product(a, b)), "((3,2),(4,5)):((10,5),(30,1))");
}

TEST(RightInverse, UndoesALayoutFromTheRightForAllValuesThatAnInjectiveOneReachesWithoutGap) {
  Generator random(8);
  for (int round = 0; round < kRounds; ++round) {
    const LayoutTree a = random.layout(), r = right_inverse(a);
    for (Index i = 0; i < size(r).value(); ++i)
      ASSERT_EQ(a(r(i)), i) << print(a) << " with " << print(r);
    const auto values = image(a);
    if (values.size() != table(a).size()) continue;
    Index reached = 0;
    while (values.contains(reached)) ++reached;
    // Gap-free prefixes that end inside a mode are no layout of that size; whole ones must be
    // found.
    Modes sorted = leaves(coalesce(a));
    std::sort(sorted.begin(), sorted.end(),
              [](auto& x, auto& y) { return x.stride.value() < y.stride.value(); });
    bool nested = true;
    for (std::size_t k = 0; k + 1 < sorted.size(); ++k)
      nested = nested &&
               sorted[k].size.value() * sorted[k].stride.value() <= sorted[k + 1].stride.value();
    if (nested) {
      ASSERT_EQ(size(r).value(), reached) << print(a);
    }
  }
}

TEST(LeftInverse, UndoesEveryInjectiveLayoutOrRefuses) {
  Generator random(9);
  int answered = 0;
  for (int round = 0; round < kRounds; ++round) {
    const LayoutTree a = random.layout();
    const bool injective = image(a).size() == table(a).size();
    const auto r = answer_of([&] { return left_inverse(a); });
    if (!injective) {
      ASSERT_FALSE(r) << print(a) << " is not injective";
    }
    if (!r) continue;
    ++answered;
    for (Index i = 0; i < size(a).value(); ++i)
      ASSERT_EQ((*r)(a(i)), i) << print(a) << " with " << print(*r);
  }
  EXPECT_GT(answered, kRounds / 2);
}

TEST(LeftInverse, ExistsForEveryCompactLayout) {
  Generator random(10);
  for (int round = 0; round < kRounds; ++round) {
    const LayoutTree a = random.compact(), r = left_inverse(a);
    for (Index i = 0; i < size(a).value(); ++i) ASSERT_EQ(r(a(i)), i) << print(a);
  }
}

TEST(LeftInverse, OfASwizzledLayoutUndoesSwizzleAndOffset) {
  Generator random(12);
  for (int round = 0; round < kRounds; ++round) {
    const layout::ComposedTree a{{2, 1, 3}, random.pick(0, 50), random.compact()};
    const layout::ComposedInverse r = left_inverse(a);
    for (Index i = 0; i < size(a.inner).value(); ++i) ASSERT_EQ(r(a(i)), i) << print(a);
  }
}

// The rule of docs/layout_algebra.md decides, and whatever it decides the values stay.
TEST(Slice, OfASwizzledLayoutKeepsItsValuesAndIsPlainWheneverTheBitRuleHolds) {
  Generator random(13);
  int plain = 0, swizzled = 0;
  for (int round = 0; round < kRounds; ++round) {
    const int bits = static_cast<int>(random.pick(0, 3));
    const int shift =
        static_cast<int>(random.pick(std::max(bits, 1), 5)) * (random.chance(30) ? -1 : 1);
    const layout::ComposedTree a{
        layout::make_swizzle(bits, static_cast<int>(random.pick(0, 3)), shift),
        random.chance(30) ? random.pick(1, 40) : 0, random.layout()};
    layout::SliceCoord coord;
    std::vector<Index> fixed;
    for (int k = 0; k < rank(a.inner); ++k) {
      const bool keep = random.chance(50);
      fixed.push_back(keep ? -1 : random.pick(0, size(mode(a.inner, k)).value() - 1));
      coord.push_back(keep ? std::nullopt : std::optional<IntTree>(fixed.back()));
    }
    const layout::Slice got = slice(a, coord);
    ++(got.is_plain ? plain : swizzled);
    Index kept_index = 0;
    for (Index i = 0; i < size(a.inner).value(); ++i) {  // kept coordinates run in the same order
      Index rest = i;
      bool inside = true;
      for (int k = 0; k < rank(a.inner); ++k) {
        const Index n = size(mode(a.inner, k)).value();
        inside = inside && (fixed[static_cast<std::size_t>(k)] < 0 ||
                            fixed[static_cast<std::size_t>(k)] == rest % n);
        rest /= n;
      }
      if (inside) {
        ASSERT_EQ(got(kept_index++), a(i)) << print(a) << " at " << i;
      }
    }
    const LayoutTree& kept = got.swizzled.inner;
    const Index active = active_bits(kept);
    const bool all_combinations = static_cast<Index>(image(kept).size()) ==
                                      Index(1) << std::popcount(static_cast<unsigned>(active)) &&
                                  image(filter(kept)).size() == table(filter(kept)).size();
    if (all_combinations && (got.swizzled.offset & active) == 0 &&
        collision(a.swizzle, active) == 0) {
      ASSERT_TRUE(got.is_plain) << print(a);
    }
  }
  EXPECT_GT(plain, 500);
  EXPECT_GT(swizzled, 100);
}

TEST(MaxCommonVector, IsTheLongestSharedRun) {
  Generator random(11);
  int longer_than_one = 0;
  for (int round = 0; round < kRounds; ++round) {
    const LayoutTree a = random.compact(4, 32), b = random.compact(4, 32);
    const Index end = std::min(size(a).value(), size(b).value());
    Index expected = 0;
    for (bool found = true; found; expected += found) {
      found = false;
      for (Index i = 0; i < end; ++i) found = found || (a(i) == expected && b(i) == expected);
    }
    const LayoutTree r = max_common_vector(a, b);
    ASSERT_EQ(size(r).value(), expected) << print(a) << " and " << print(b);
    for (Index i = 0; i < expected; ++i) ASSERT_TRUE(a(r(i)) == i && b(r(i)) == i);
    longer_than_one += expected > 1;
  }
  EXPECT_GT(longer_than_one, 100);
}

TEST(OrderedLayout, IsCompactInTheGivenOrder) {
  EXPECT_EQ(print(layout::ordered_layout({3, 4, 5}, {2, 0, 1})), "(3,4,5):(20,1,4)");
  EXPECT_EQ(print(layout::ordered_layout({3, 4}, {1, 1})), "(3,4):(1,3)");
}

TEST(LayoutTree, RefusesAShapeAndAStrideOfDifferentProfiles) {
  EXPECT_THROW(LayoutTree({4, {2, 3}}, {1, 4}), base::Error);
  EXPECT_THROW(LayoutTree({4, 0}, {1, 4}), base::Error);
  EXPECT_THROW(layout::crd2idx({0, 0, 0}, LayoutTree({4, 2}, {1, 4})), base::Error);
}

}  // namespace

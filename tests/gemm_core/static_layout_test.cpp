// Layouts that are types: what the compiler knows, what stays at run time, and agreement with the
// run-time form.
#include <gtest/gtest.h>

#include "gemm_core/layout/composed_layout.hpp"
#include "gemm_core/layout/static_algebra.hpp"

namespace {

using namespace layout;  // NOLINT: a test file

template <class T, class U>
constexpr bool same(const T&, const U&) {
  return std::is_same_v<T, U>;
}
template <Index... N>
using Sizes = Tuple<Int<N>...>;

template <Index N, Index D>
using Line = Layout<Int<N>, Int<D>>;
template <class S, class D>
constexpr auto layout_of() {
  return Layout<S, D>{};
}

// ---- worked examples, in the compiler
// -----------------------------------------------------------------------------
using A62 = Layout<Sizes<6, 2>, Sizes<8, 2>>;
using B43 = Layout<Sizes<4, 3>, Sizes<3, 1>>;
static_assert(same(composition(A62{}, B43{}),
                   Layout<Tuple<Sizes<2, 2>, Int<3>>, Tuple<Sizes<24, 2>, Int<8>>>{}));
static_assert(same(complement(Line<4, 2>{}, Int<24>{}), Layout<Sizes<2, 3>, Sizes<1, 8>>{}));
static_assert(same(coalesce(Layout<Sizes<2, 1, 6>, Sizes<1, 6, 2>>{}), Line<12, 1>{}));
static_assert(same(right_inverse(Layout<Sizes<4, 8>, Sizes<8, 1>>{}),
                   Layout<Sizes<8, 4>, Sizes<4, 1>>{}));
static_assert(same(left_inverse(Line<4, 2>{}), Layout<Sizes<2, 4>, Sizes<0, 1>>{}));
static_assert(size(max_common_vector(Layout<Sizes<4, 2, 4>, Sizes<1, 4, 8>>{},
                                     Layout<Sizes<4, 2, 4>, Sizes<1, 16, 4>>{})) == 4);
static_assert(same(logical_product(Layout<Sizes<2, 2>, Sizes<4, 1>>{}, Line<6, 1>{}),
                   Layout<Tuple<Sizes<2, 2>, Sizes<2, 3>>, Tuple<Sizes<4, 1>, Sizes<2, 8>>>{}));
static_assert(same(filter(Layout<Sizes<4, 3>, Sizes<0, 1>>{}), Line<3, 1>{}));
static_assert(sizeof(A62) == 1 && std::is_empty_v<A62>,
              "a layout that the compiler knows takes no room");

// ---- values are int only where they fit
// ---------------------------------------------------------------------------
static_assert(std::is_same_v<A62::Value, int>);
static_assert(std::is_same_v<Line<2, 3'000'000'000>::Value, Index>);
static_assert(Line<2, 3'000'000'000>{}(1) == 3'000'000'000);

// ---- what must be refused
// -----------------------------------------------------------------------------------------
static_assert(!Composable<Layout<Sizes<4, 2>, Sizes<1, 10>>, Line<6, 1>>);
static_assert(!Composable<Layout<Sizes<4, 4>, Sizes<1, 100>>, Layout<Sizes<3, 2>, Sizes<1, 2>>>);
static_assert(Composable<Layout<Sizes<3, 7, 2>, Sizes<1, 5, 37>>, Line<6, 1>>);
static_assert(!HasComplement<Layout<Sizes<2, 2>, Sizes<1, 3>>>);
static_assert(!HasLeftInverse<Layout<Sizes<4, 2>, Sizes<1, 0>>>);
static_assert(!Divisible<Line<24, 1>, Layout<Sizes<2, 2>, Sizes<1, 3>>>);
static_assert(!Multipliable<Layout<Sizes<2, 2>, Sizes<1, 3>>, Line<2, 1>>);
static_assert(!SameProfile<Sizes<4, 2>, Int<1>>);
static_assert(!CoordinateOf<Tuple<int, int, int>, A62>);
static_assert(!CoordinateOf<Tuple<int, Tuple<int, int>>, A62>);
static_assert(!HasComplement<Layout<Sizes<2, 2>, Tuple<int, int>>>,
              "strides of unknown order have no complement");

TEST(StaticLayout, EvaluatesCoordinatesOfEveryDepthAlike) {
  constexpr auto a = layout_of<Tuple<Int<4>, Sizes<2, 3>>, Tuple<Int<2>, Sizes<1, 8>>>();
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 6; ++j) {
      EXPECT_EQ(a(i, j), a(i + 4 * j));
      EXPECT_EQ(a(i, j), a(i, Tuple(j % 2, j / 2)));
      EXPECT_EQ(a(i, j), a(idx2crd(i + 4 * j, a.shape)));
    }
}

TEST(StaticLayout, KeepsAlgebraicFormWithRunTimeSizesAndStrides) {
  const int rows = 1000;
  const Index pitch = 80;
  const auto a = make_layout(Tuple(rows, Int<64>{}), Tuple(pitch, Int<1>{}));
  const auto tiles = zipped_divide(a, Tuple(Int<128>{}, Int<32>{}));
  static_assert(std::is_same_v<decltype(mode<0>(tiles).shape), Sizes<128, 32>>);
  EXPECT_EQ(print(tiles), "((128,32),(8,2)):((80,1),(10240,32))");
  EXPECT_EQ(print(tiles),
            print(zipped_divide(to_tree(a), Tiler{LayoutTree(128, 1), LayoutTree(32, 1)})));
}

// The type form and the run-time form answer alike, whatever mix of numbers the compiler knows.
template <class A, class B>
void expect_same_composition(const A& a, const B& b) {
  const LayoutTree got = to_tree(composition(a, b));
  const LayoutTree want = composition(to_tree(a), to_tree(b));
  EXPECT_EQ(table(got), table(want)) << print(a) << " o " << print(b);
  EXPECT_EQ(print(coalesce(got)), print(coalesce(want)));
}

TEST(StaticLayout, ComposesAsTheRunTimeFormDoes) {
  expect_same_composition(make_layout(Tuple(6, 2), Tuple(8, 2)), B43{});
  expect_same_composition(make_layout(Tuple(Int<6>{}, 2), Tuple(8, Int<2>{})), B43{});
  expect_same_composition(A62{}, make_layout(Tuple(4, Int<3>{}), Tuple(3, 1)));
  expect_same_composition(make_layout(Tuple(6, 2), Tuple(8, 2)),
                          make_layout(Tuple(4, 3), Tuple(0, 2)));
  expect_same_composition(make_layout(20, 2), make_layout(Tuple(5, 4), Tuple(Int<4>{}, 1)));
  expect_same_composition(make_layout(Tuple(10, 2), Tuple(16, 4)),
                          make_layout(Tuple(5, 4), Tuple(1, 5)));
}

TEST(StaticLayout, OtherOperationsAgreeWithTheRunTimeForm) {
  const auto a = make_layout(Tuple(Int<9>{}, Tuple(4, Int<8>{})), Tuple(59, Tuple(13, 1)));
  const auto tiler = Tuple(Layout<Int<3>, Int<3>>{}, Layout<Sizes<2, 4>, Sizes<1, 8>>{});
  const Tiler run_time{LayoutTree(3, 3), LayoutTree({2, 4}, {1, 8})};
  EXPECT_EQ(table(to_tree(logical_divide(a, tiler))), table(logical_divide(to_tree(a), run_time)));
  EXPECT_EQ(table(to_tree(tiled_divide(a, tiler))), table(tiled_divide(to_tree(a), run_time)));
  EXPECT_EQ(table(to_tree(flat_divide(a, tiler))), table(flat_divide(to_tree(a), run_time)));
  EXPECT_EQ(table(to_tree(composition(a, Tuple(_, Layout<Int<4>, Int<1>>{})))),
            table(composition(to_tree(a), Tiler{{}, LayoutTree(4, 1)})));
  EXPECT_EQ(print(coalesce_by_mode(a)), print(a));
  const auto block = Layout<Sizes<2, 5>, Sizes<5, 1>>{};
  const auto copies = make_layout(Tuple(3, 4), Tuple(1, 3));
  EXPECT_EQ(table(to_tree(blocked_product(block, copies))),
            table(blocked_product(to_tree(block), to_tree(copies))));
  EXPECT_EQ(table(to_tree(raked_product(block, copies))),
            table(raked_product(to_tree(block), to_tree(copies))));
  EXPECT_EQ(print(complement(make_layout(4, 2), 24)), print(complement(LayoutTree(4, 2), 24)));
}

TEST(StaticLayout, RefusesRunTimeValuesThatHaveNoAnswer) {
  const auto b = make_layout(Int<6>{}, Int<1>{});
  EXPECT_NO_THROW(composition(make_layout(Tuple(3, Int<8>{}), Tuple(Int<1>{}, 10)), b));
  EXPECT_THROW(composition(make_layout(Tuple(4, Int<8>{}), Tuple(Int<1>{}, 10)), b), base::Error);
  const auto pair = make_layout(Tuple(Int<3>{}, Int<2>{}), Tuple(Int<1>{}, Int<2>{}));
  EXPECT_THROW(composition(make_layout(Tuple(4, Int<8>{}), Tuple(Int<1>{}, 100)), pair),
               base::Error);
}

TEST(ComposedLayout, SlicesToAnOrdinaryLayoutForEveryRunTimeCoordinateWhereThatIsSound) {
  const auto a = make_composed_layout<Swizzle{2, 0, 2}>(layout_of<Sizes<4, 4>, Sizes<4, 1>>());
  for (int fixed = 0; fixed < 4; ++fixed) {
    const auto row = slice(a, Tuple(fixed, _)), column = slice(a, Tuple(_, fixed));
    static_assert(requires { row.layout; });
    for (int k = 0; k < 4; ++k) {
      EXPECT_EQ(row(k), a(fixed, k));
      EXPECT_EQ(column(k), a(k, fixed));
    }
  }
  EXPECT_EQ(print(slice(a, Tuple(2, _)).layout), "((2,2)):((1,-2))");
  EXPECT_EQ(print(slice(a, Tuple(_, 1)).layout), "((2,2)):((3,10))");
}

TEST(ComposedLayout, KeepsTheSwizzleWhereBothSidesVary) {
  const auto a = make_composed_layout<Swizzle{2, 0, 2}>(layout_of<Sizes<4, 4>, Sizes<4, 1>>());
  const auto all = slice(a, Tuple(_, _));
  static_assert(requires { all.inner; });
  for (int i = 0; i < 16; ++i) EXPECT_EQ(all(i), a(i));
}

TEST(ComposedLayout, KeepsTheSwizzleWhereAnOffsetCouldCarry) {
  const auto a =
      make_composed_layout<Swizzle{1, 0, 2}>(layout_of<Sizes<4, 2>, Sizes<1, 4>>(), Int<1>{});
  const auto kept = slice(a, Tuple(_, Int<0>{}));
  static_assert(
      requires { kept.inner; }, "1, 2, 3, 5 is no layout");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(kept(i), a(i, 0));
}

TEST(ComposedLayout, PutsAColumnOfHalvesIntoEightBankGroups) {
  const auto a = make_composed_layout<Swizzle{3, 3, 3}>(layout_of<Sizes<8, 64>, Sizes<64, 1>>());
  unsigned groups = 0;
  for (int row = 0; row < 8; ++row) groups |= 1u << (a(row, 0) / 8 % 8);
  EXPECT_EQ(groups, 0xffu);
}

TEST(Swizzle, IsItsOwnInverseAndMergesWithOneOfTheSameShift) {
  for (const Swizzle s : {Swizzle{3, 3, 3}, Swizzle{1, 0, -2}, Swizzle{2, 1, -4}, Swizzle{0, 2, 1}})
    for (Index x = 0; x < 4096; ++x) ASSERT_EQ(s(s(x)), x);
  const auto merged = merge(Swizzle{1, 0, 3}, Swizzle{1, 1, 3});
  ASSERT_TRUE(merged);
  for (Index x = 0; x < 256; ++x) EXPECT_EQ((*merged)(x), (Swizzle{1, 0, 3}(Swizzle{1, 1, 3}(x))));
  EXPECT_FALSE(merge(Swizzle{1, 0, 3}, Swizzle{1, 2, 3})) << "their fields leave a gap";
  EXPECT_THROW(make_swizzle(3, 0, 2), base::Error);
}

}  // namespace

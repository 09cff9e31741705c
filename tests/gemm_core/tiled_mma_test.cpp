// Atoms and tiled operations: layouts cover their tiles, partitions cover their tensors, pieces
// multiply to the whole.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "gemm_core/atom/copy_atom.hpp"
#include "gemm_core/atom/cpu_mma_atoms.hpp"
#include "gemm_core/atom/cuda_mma_traits.hpp"
#include "gemm_core/base/convert.hpp"

namespace {

using namespace gemm_core;  // NOLINT: a test file
using layout::Index;
using layout::Int;
using layout::Layout;

template <class T>
T small_value(Index i) {
  return base::convert<T>(static_cast<float>(i * 7 % 11) - (std::is_unsigned_v<T> ? 0.0f : 5.0f));
}

double number(const auto& x) {
  if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(x)>>)
    return static_cast<double>(x);
  else
    return static_cast<double>(static_cast<float>(x));
}

const auto kMultiply = [](const auto& a, const auto& b, auto c) {
  return static_cast<decltype(c)>(number(c) + number(a) * number(b));
};

template <class Traits>
class AtomTest : public testing::Test {};
using Atoms =
    testing::Types<ScalarMma<float>, ScalarMma<double>, Avx2FmaF32, Avx512FmaF32, Avx512FmaF64,
                   Avx512Bf16Dot, Avx512VnniDot, AmxBf16Tile, AmxInt8Tile, Sm80Mma16x8x8Tf32,
                   Sm80Mma16x8x16<base::half_t>, Sm80Mma16x8x16<base::bf16_t>,
                   Sm80Mma16x8x32<std::int8_t, std::int8_t, std::int32_t>,
                   Sm80Mma16x8x32<base::e4m3_t, base::e5m2_t, float>, Sm80Mma8x8x4F64,
                   Sm90Wgmma64<base::half_t, 128>, Sm90Wgmma64<base::tf32_t, 32>>;
TYPED_TEST_SUITE(AtomTest, Atoms);

template <class L>
std::map<Index, int> holders(const L& l) {
  std::map<Index, int> count;
  for (Index t = 0; t < layout::size<0>(l); ++t)
    for (Index v = 0; v < layout::size<1>(l); ++v) ++count[l(t, v)];
  return count;
}

template <class L>
void expect_covers(const L& l, Index size) {
  const auto count = holders(l);
  EXPECT_EQ(static_cast<Index>(count.size()), size);
  EXPECT_EQ(count.begin()->first, 0);
  EXPECT_EQ(count.rbegin()->first, size - 1);
}

TYPED_TEST(AtomTest, LayoutsOfAAndBCoverTheirTilesAndThatOfCIsABijection) {
  using Atom = MmaAtom<TypeParam>;
  expect_covers(typename Atom::ALayout{}, Atom::kM * Atom::kK);
  expect_covers(typename Atom::BLayout{}, Atom::kN * Atom::kK);
  expect_covers(typename Atom::CLayout{}, Atom::kM * Atom::kN);
  for (const auto& [index, count] : holders(typename Atom::CLayout{})) EXPECT_EQ(count, 1) << index;
}

TYPED_TEST(AtomTest, ThePiecesMultiplyToTheTileProduct) {
  using Atom = MmaAtom<TypeParam>;
  using A = typename Atom::A;
  using B = typename Atom::B;
  using C = typename Atom::C;
  std::vector<A> a(Atom::kThreads * Atom::kValuesA);
  std::vector<B> b(Atom::kThreads * Atom::kValuesB);
  std::vector<C> c(Atom::kThreads * Atom::kValuesC), real;
  std::vector<double> expected(Atom::kM * Atom::kN);
  for (int m = 0; m < Atom::kM; ++m)
    for (int n = 0; n < Atom::kN; ++n)
      for (int k = 0; k < Atom::kK; ++k)
        expected[static_cast<std::size_t>(m + Atom::kM * n)] +=
            number(small_value<A>(m + Atom::kM * k)) * number(small_value<B>(n + Atom::kN * k + 3));
  const auto fill = [](auto& values, auto l, int count, Index shift) {
    using T = typename std::remove_reference_t<decltype(values)>::value_type;
    for (int t = 0; t < Atom::kThreads; ++t)
      for (int v = 0; v < count; ++v)
        values[static_cast<std::size_t>(t * count + v)] = small_value<T>(l(t, v) + shift);
  };
  fill(a, typename Atom::ALayout{}, Atom::kValuesA, 0);
  fill(b, typename Atom::BLayout{}, Atom::kValuesB, 3);
  const typename Atom::CLayout at;
  const auto check = [&](const std::vector<C>& got, const char* how) {
    for (int t = 0; t < Atom::kThreads; ++t)
      for (int v = 0; v < Atom::kValuesC; ++v)
        ASSERT_EQ(number(got[static_cast<std::size_t>(t * Atom::kValuesC + v)]),
                  expected[static_cast<std::size_t>(at(t, v))] + 1)
            << how << " thread " << t << " value " << v;
  };
  std::fill(c.begin(), c.end(), C(1));
  real = c;
  emulate_mma<Atom>(c.data(), a.data(), b.data(), kMultiply);
  check(c, "emulated");
  if constexpr (requires { Atom::call(real.data(), a.data(), b.data()); }) {
    if (!Atom::is_available())
      GTEST_SKIP() << "this machine lacks the instruction; its emulation passed";
    Atom::call(real.data(), a.data(), b.data());
    check(real, "executed");
  }
}

// ---- tiled ----

// Example 59's: 2 x 2 x 1 atoms of 16 x 8 x 8 tf32 over tiles of (32, 32, 8) are 128 threads.
using Example59 = TiledMma<MmaAtom<Sm80Mma16x8x8Tf32>, 2, 2, 1, Int<32>, Int<32>>;
static_assert(Example59::kThreads == 128);

template <class Part, class Body>
void for_each_element(const Part& part, const Body& body) {
  for (Index i = 0; i < layout::size(part.layout); ++i) body(part.data[part.layout(i)], i);
}

// The whole product through partitions of all threads, atom by atom.
template <class Mma, Index kM, Index kN, Index kK>
void check_tiled() {
  using Atom = typename Mma::Atom;
  std::vector<typename Atom::A> a(kM * kK);
  std::vector<typename Atom::B> b(kN * kK);
  std::vector<typename Atom::C> c(kM * kN);
  for (Index i = 0; i < kM * kK; ++i)
    a[static_cast<std::size_t>(i)] = small_value<typename Atom::A>(i);
  for (Index i = 0; i < kN * kK; ++i)
    b[static_cast<std::size_t>(i)] = small_value<typename Atom::B>(i + 2);
  const auto view_a = make_view(a.data(), Layout<Ints<kM, kK>, Ints<kK, 1>>{});  // row-major
  const auto view_b = make_view(b.data(), Layout<Ints<kN, kK>, Ints<1, kN>>{});  // column-major
  const auto view_c = make_view(c.data(), Layout<Ints<kM, kN>, Ints<kN, 1>>{});
  using PartC = decltype(Mma::partition_c(view_c, 0));
  std::vector<PartC> parts_c;
  std::set<const void*> owned_a, owned_b;
  std::map<const void*, int> owned_c;
  for (Index t = 0; t < Mma::kThreads; ++t) {
    parts_c.push_back(Mma::partition_c(view_c, t));
    for_each_element(Mma::partition_a(view_a, t), [&](auto& x, Index) { owned_a.insert(&x); });
    for_each_element(Mma::partition_b(view_b, t), [&](auto& x, Index) { owned_b.insert(&x); });
    for_each_element(parts_c.back(), [&](auto& x, Index) { ++owned_c[&x]; });
  }
  EXPECT_EQ(owned_a.size(), a.size());
  EXPECT_EQ(owned_b.size(), b.size());
  EXPECT_EQ(owned_c.size(), c.size());
  for (const auto& [where, count] : owned_c) EXPECT_EQ(count, 1);
  const auto& shape = parts_c[0].layout;
  EXPECT_EQ(layout::size<0>(shape), Atom::kValuesC);
  EXPECT_EQ(static_cast<Index>(decltype(Mma::partition_fragment_c(view_c))::kSize) * Mma::kThreads,
            kM * kN);
  const Index rest_m = layout::size<1>(shape), rest_n = layout::size<2>(shape);
  const Index rest_k = layout::size<2>(Mma::partition_a(view_a, 0).layout);
  for (Index warp = 0; warp < Mma::kThreads / Atom::kThreads; ++warp)
    for (Index m = 0; m < rest_m; ++m)
      for (Index n = 0; n < rest_n; ++n)
        for (Index k = 0; k < rest_k; ++k) {
          std::vector<typename Atom::A> fa(Atom::kThreads * Atom::kValuesA);
          std::vector<typename Atom::B> fb(Atom::kThreads * Atom::kValuesB);
          std::vector<typename Atom::C> fc(Atom::kThreads * Atom::kValuesC);
          for (Index lane = 0; lane < Atom::kThreads; ++lane) {
            const Index t = warp * Atom::kThreads + lane;
            const auto pa = Mma::partition_a(view_a, t);
            const auto pb = Mma::partition_b(view_b, t);
            for (Index v = 0; v < Atom::kValuesA; ++v)
              fa[static_cast<std::size_t>(lane * Atom::kValuesA + v)] = pa(v, m, k);
            for (Index v = 0; v < Atom::kValuesB; ++v)
              fb[static_cast<std::size_t>(lane * Atom::kValuesB + v)] = pb(v, n, k);
          }
          emulate_mma<Atom>(fc.data(), fa.data(), fb.data(), kMultiply);
          for (Index lane = 0; lane < Atom::kThreads; ++lane)
            for (Index v = 0; v < Atom::kValuesC; ++v)
              parts_c[static_cast<std::size_t>(warp * Atom::kThreads + lane)](v, m, n) +=
                  fc[static_cast<std::size_t>(lane * Atom::kValuesC + v)];
        }
  for (Index m = 0; m < kM; ++m)
    for (Index n = 0; n < kN; ++n) {
      double sum = 0;
      for (Index k = 0; k < kK; ++k) sum += number(view_a(m, k)) * number(view_b(n, k));
      ASSERT_EQ(number(view_c(m, n)), sum) << m << ", " << n;
    }
}

TEST(TiledMma, PartitionsCoverTheTensorsAndTheirProductsAreTheWhole) {
  check_tiled<Example59, 32, 32, 16>();
  check_tiled<Example59, 64, 32, 8>();
  check_tiled<TiledMma<MmaAtom<Sm80Mma16x8x16<base::half_t>>, 1, 4>, 32, 64, 32>();
  check_tiled<TiledMma<MmaAtom<Avx512FmaF32>, 6, 1>, 12, 64, 5>();
  check_tiled<TiledMma<MmaAtom<AmxBf16Tile>, 2, 2>, 32, 32, 64>();
  check_tiled<TiledMma<MmaAtom<Avx512VnniDot>, 2, 1>, 4, 32, 8>();
}

// Columns dealt out so that a thread's two columns of neighbouring atoms are four side by side.
TEST(TiledMma, APermutationOfTheTileChangesOwnersAndNoResult) {
  using Pairs = Layout<Ints<2, 4, 2>, Ints<1, 4, 2>>;
  using Mma = TiledMma<MmaAtom<Sm80Mma16x8x8Tf32>, 2, 1, 1, Int<32>, Pairs>;
  check_tiled<Mma, 32, 16, 8>();
  std::vector<float> c(32 * 16);
  const auto part = Mma::partition_c(make_view(c.data(), Layout<Ints<32, 16>, Ints<16, 1>>{}), 0);
  std::set<Index> columns;
  for (Index i = 0; i < layout::size(part.layout); ++i) columns.insert(part.layout(i) % 16);
  EXPECT_EQ(columns, (std::set<Index>{0, 1, 2, 3}));
}

// ---- copies ----

// 8 threads along M with 4 values each, 4 along N: tiles of 32 x 4, column-major.
using DownColumns = Layout<layout::Tuple<Ints<8, 4>, Int<4>>, layout::Tuple<Ints<4, 32>, Int<1>>>;

template <class Copy, class From, class To>
void check_copy(const From& from_layout, const To& to_layout, int alignment, int expected_width) {
  using T = typename Copy::Element;
  const Index size = layout::size(from_layout);
  std::vector<T> from(static_cast<std::size_t>(layout::cosize(from_layout))),
      to(static_cast<std::size_t>(layout::cosize(to_layout)));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i + 1);
  const auto source = make_view(static_cast<const T*>(from.data()), from_layout);
  const auto target = make_view(to.data(), to_layout);
  constexpr auto kFrom = decltype(Copy::partition(source, 0).layout){};
  constexpr auto kTo = decltype(Copy::partition(target, 0).layout){};
  const int width = vector_elements<typename Copy::Atom>(kFrom, kTo, alignment);
  EXPECT_EQ(width, expected_width);
  EXPECT_LE(width, layout::size(layout::max_common_vector(kFrom, kTo)));
  EXPECT_LE(width, alignment);
  for (Index t = 0; t < Copy::kThreads; ++t) {
    const auto mine = Copy::partition(source, t);
    const auto there = Copy::partition(target, t);
    switch (width) {
      case 4:
        copy<typename Copy::Atom, 4>(mine, there);
        break;
      case 2:
        copy<typename Copy::Atom, 2>(mine, there);
        break;
      default:
        copy<typename Copy::Atom, 1>(mine, there);
        break;
    }
  }
  for (Index i = 0; i < size; ++i)
    ASSERT_EQ(to[static_cast<std::size_t>(to_layout(i))],
              from[static_cast<std::size_t>(from_layout(i))])
        << i;
}

TEST(TiledCopy, IsTheIdentityOnElementsByVectorsNoWiderThanProven) {
  using Copy = TiledCopy<CopyAtom<CpuVectorCopy<float, 4>>, DownColumns, 32, 4>;
  const Layout<Ints<64, 8>, Ints<1, 64>> columns{};
  const Layout<Ints<64, 8>, Ints<1, 70>> padded{};
  const Layout<Ints<64, 8>, Ints<8, 1>> rows{};
  const Layout<layout::Tuple<Ints<2, 32>, Int<8>>, layout::Tuple<Ints<1, 20>, Int<2>>> pairs{};
  check_copy<Copy>(columns, padded, 4, 4);
  check_copy<Copy>(columns, padded, 2, 2);  // less aligned
  check_copy<Copy>(columns, rows, 4, 1);    // no shared run
  check_copy<Copy>(columns, pairs, 4, 2);   // runs of two in the target
}

TEST(CopyAtom, LoadMatrixHandsEachThreadTwoElementsOfEachMatrix) {
  using Atom = CopyAtom<Sm75LoadMatrix4<std::uint16_t>>;
  std::vector<std::uint16_t> from(256), to(256);
  for (std::size_t i = 0; i < 256; ++i)
    from[i] = static_cast<std::uint16_t>(i);  // row t: 8t .. 8t + 7
  emulate_copy<Atom>(to.data(), from.data());
  for (std::size_t t = 0; t < 32; ++t)
    for (std::size_t v = 0; v < 8; ++v)
      EXPECT_EQ(to[t * 8 + v], v / 2 * 64 + t / 4 * 8 + t % 4 * 2 + v % 2);
}

// A thread's accumulators of a 16 x 8 tile, stored in another order of the same elements.
TEST(TiledCopy, RetileReordersRegistersWithoutMovingData) {
  using Mma = Sm80Mma16x8x8Tf32::CLayout;  // values (2,2):(16,8)
  using Turned = Layout<layout::Tuple<Ints<4, 8>, Ints<2, 2>>,
                        layout::Tuple<Ints<32, 1>, Ints<8, 16>>>;  // rows first
  using Copy = TiledCopy<CopyAtom<CpuVectorCopy<float, 1>>, Turned, 16, 8>;
  const auto registers = Copy::retile(Mma{});
  EXPECT_EQ(layout::size(registers), 4);
  for (Index t = 0; t < 32; ++t)
    for (Index i = 0; i < 4; ++i)
      EXPECT_EQ(Mma{}(t, registers(i)), Turned{}(t, i)) << t << ", " << i;
}

}  // namespace

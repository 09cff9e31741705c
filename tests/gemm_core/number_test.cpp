// Number types beyond the case files: every code of the narrow types, arithmetic against wider
// arithmetic, fast division.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gemm_core/base/array.hpp"
#include "gemm_core/base/fast_divmod.hpp"

namespace {

using namespace base;  // NOLINT: a test file

static_assert(half_t(65519.0f).bits == 0x7bff && half_t(65520.0f).bits == 0x7c00);
static_assert(static_cast<float>(e4m3_t(1e9f)) == 448.0f &&
              static_cast<float>(e5m2_t(-1e9f)) == -57344.0f);
static_assert(convert<half_t>(std::int64_t(2049)).bits == half_t(2048.0f).bits, "ties to even");
static_assert(convert<std::int8_t>(300) == 127 && convert<std::uint8_t>(-3.0f) == 0);
static_assert(int4_t(100) == 7 && int4_t(-100) == -8 && int4_t(2.5f) == 2 && uint4_t(-1) == 0);
static_assert(round_to_tf32_away(1.00048828125f) == 1.0009765625f &&
              round_to_tf32(1.00048828125f) == 1.0f);

// Distance to the neighbours in a sorted list of all finite codes: an oracle that knows no formats'
// arithmetic.
template <class T>
void expect_nearest(int codes, std::uint32_t seed) {
  std::vector<std::pair<double, int>> finite;
  for (int code = 0; code < codes; ++code) {
    const float v = static_cast<float>(T::from_bits(static_cast<decltype(T::bits)>(code)));
    if (std::isfinite(v) && !(v == 0 && std::signbit(v))) finite.emplace_back(v, code);
  }
  std::sort(finite.begin(), finite.end());
  std::mt19937 random(seed);
  for (int round = 0; round < 20000; ++round) {
    const std::size_t i = random() % (finite.size() - 1);
    const double low = finite[i].first, high = finite[i + 1].first;
    const double part = round % 4 == 0 ? 0.5 : static_cast<double>(random() % 1001) / 1000.0;
    const double x = low + (high - low) * part;
    const bool even_is_low = finite[i].second % 2 == 0;
    const double to_low = x - low, to_high = high - x;
    const double want = to_low < to_high || (to_low == to_high && even_is_low) ? low : high;
    ASSERT_EQ(static_cast<double>(static_cast<float>(convert<T>(x))), want)
        << x << " between " << low << " and " << high;
  }
}

TEST(Conversion, PicksTheNearestOfAllCodes) {
  expect_nearest<half_t>(1 << 16, 1);
  expect_nearest<bf16_t>(1 << 16, 2);
  expect_nearest<e4m3_t>(1 << 8, 3);
  expect_nearest<e5m2_t>(1 << 8, 4);
}

template <class T>
void expect_round_trip(int codes) {
  for (int code = 0; code < codes; ++code) {
    const T x = T::from_bits(static_cast<decltype(T::bits)>(code));
    const float v = static_cast<float>(x);
    if (std::isnan(v)) continue;
    ASSERT_EQ(convert<float>(x), v);
    if (std::isinf(v)) continue;  // fp8 saturates
    ASSERT_EQ(T(v).bits, x.bits);
    ASSERT_EQ(convert<T>(static_cast<double>(v)).bits, x.bits);
  }
}

TEST(Conversion, OfEveryCodeToFloatAndBackIsTheIdentity) {
  expect_round_trip<half_t>(1 << 16);
  expect_round_trip<bf16_t>(1 << 16);
  expect_round_trip<e4m3_t>(1 << 8);
  expect_round_trip<e5m2_t>(1 << 8);
}

TEST(Conversion, ConstructorsAgreeWithTheGeneralPath) {
  for (std::uint64_t word = 0; word < (std::uint64_t(1) << 32); word += 9973) {
    const float x = base::bit_cast<float>(static_cast<std::uint32_t>(word));
    if (std::isnan(x)) continue;
    ASSERT_EQ(half_t(x).bits, convert<half_t>(x).bits) << x;
    ASSERT_EQ(bf16_t(x).bits, convert<bf16_t>(x).bits) << x;
    ASSERT_EQ(tf32_t(x).value, convert<tf32_t>(x).value) << x;
    ASSERT_EQ(round_to_tf32_away(x), (convert<tf32_t, Rounding::nearest_away>(x).value)) << x;
  }
}

TEST(Conversion, RoundsDoublesOnce) {
  // Just above the middle of two halves, by less than a float can tell: through float it would tie
  // and go down.
  const double x = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  EXPECT_EQ(static_cast<float>(convert<half_t>(x)), 1.0f + std::ldexp(1.0f, -10));
  EXPECT_EQ(static_cast<float>(convert<half_t>(static_cast<float>(x))), 1.0f);
}

template <class T>
void expect_fused(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> exponent(-6, 6);
  const auto draw = [&] { return T((random() % 2 ? 1.0f : -1.0f) * std::exp2(exponent(random))); };
  for (int round = 0; round < 50000; ++round) {
    const T a = draw(), b = draw(), c = draw();
    // 11-bit factors and exponents within 2^6: long double (64 bits) holds the sum exactly.
    const long double exact =
        static_cast<long double>(float(a)) * float(b) + static_cast<long double>(float(c));
    const T got = multiply_add{}(a, b, c);
    const long double error = std::abs(static_cast<long double>(float(got)) - exact);
    for (const int step : {-1, 1}) {
      const T other = T::from_bits(static_cast<decltype(T::bits)>(got.bits + step));
      const float v = static_cast<float>(other);
      if (!std::isfinite(v) || (float(got) == 0)) continue;
      ASSERT_LE(error, std::abs(static_cast<long double>(v) - exact))
          << float(a) << " " << float(b) << " " << float(c);
    }
  }
}

TEST(MultiplyAdd, RoundsOnceForNarrowFloats) {
  expect_fused<half_t>(1);
  expect_fused<bf16_t>(2);
  // 7 * 37 / 256 lies in the middle of two bf16; 2^-60 is past the bits of a double there, yet must
  // break the tie.
  const bf16_t seven(7.0f), part(37.0f / 256), below(-std::ldexp(1.0f, -60)),
      above(std::ldexp(1.0f, -60));
  EXPECT_EQ(float(multiply_add{}(seven, part, below)), 258.0f / 256);
  EXPECT_EQ(float(multiply_add{}(seven, part, above)), 260.0f / 256);
  // 1 * 1 + 2^-11 ties; a product that adds 2^-22 more must break the tie upwards.
  const half_t one(1.0f), tiny(std::ldexp(1.0f, -11)), factor(1.0f + std::ldexp(1.0f, -10));
  EXPECT_EQ(float(multiply_add{}(factor, tiny, one)), 1.0f + std::ldexp(1.0f, -10));
}

TEST(Functions, OfArraysEqualThoseOfScalars) {
  Array<half_t, 5> a, b;
  for (int i = 0; i < 5; ++i) {
    a.set(i, half_t(0.3f * static_cast<float>(i) - 0.7f));
    b.set(i, half_t(1.1f - 0.4f * static_cast<float>(i)));
  }
  const auto expect_same = [&](auto function) {
    const auto r = transform(function, a, b);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(r[i].bits, function(a[i], b[i]).bits);
  };
  expect_same(plus{});
  expect_same(minus{});
  expect_same(multiplies{});
  expect_same(divides{});
  expect_same(maximum{});
  expect_same(minimum{});
  const auto expect_same_unary = [&](auto function) {
    const auto r = transform(function, a);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(r[i].bits, function(a[i]).bits);
  };
  expect_same_unary(relu{});
  expect_same_unary(gelu{});
  expect_same_unary(silu{});
  expect_same_unary(sigmoid{});
  expect_same_unary(base::tanh{});
  const half_t low(-0.2f), high(0.2f);
  const auto clamped = transform(clamp{}, a, low, high), fused = transform(multiply_add{}, a, b, a);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(clamped[i].bits, std::clamp(float(a[i]), float(low), float(high)) == float(a[i])
                                   ? a[i].bits
                               : float(a[i]) < 0 ? low.bits
                                                 : high.bits);
    // One rounding: that of the exact value, which a double holds.
    EXPECT_EQ(fused[i].bits,
              convert<half_t>(static_cast<double>(float(a[i])) * static_cast<double>(float(b[i])) +
                              static_cast<double>(float(a[i])))
                  .bits);
  }
}

TEST(Functions, PropagateNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [a, b] : {std::pair(nan, 1.0f), std::pair(1.0f, nan)}) {
    EXPECT_TRUE(std::isnan(maximum{}(a, b)));
    EXPECT_TRUE(std::isnan(minimum{}(a, b)));
  }
  EXPECT_TRUE(std::isnan(relu{}(nan)));
  EXPECT_TRUE(std::isnan(float(relu{}(half_t(nan)))));
  EXPECT_TRUE(std::isnan(clamp{}(nan, 0.0f, 1.0f)));
  EXPECT_EQ(maximum{}(std::int64_t(-1), std::int64_t(1)), 1);
}

TEST(Functions, HaveTheirTextbookValues) {
  EXPECT_DOUBLE_EQ(sigmoid{}(0.0), 0.5);
  EXPECT_NEAR(sigmoid{}(-800.0), 0.0, 1e-300);
  EXPECT_DOUBLE_EQ(sigmoid{}(800.0), 1.0);
  EXPECT_NEAR(gelu{}(1.0), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(gelu{}(-10.0), -7.6198530241604e-23, 1e-33);
  EXPECT_NEAR(silu{}(2.0), 1.7615941559557649, 1e-15);
  EXPECT_NEAR(base::tanh{}(0.5), 0.46211715726000975, 1e-15);
  EXPECT_DOUBLE_EQ(base::tanh{}(-800.0), -1.0);
  EXPECT_EQ(relu{}(-2.0), 0.0);
  EXPECT_EQ(relu{}(3.5), 3.5);
  EXPECT_EQ(clamp{}(-2.0, -1.0, 1.0), -1.0);
  EXPECT_EQ(clamp{}(0.25, -1.0, 1.0), 0.25);
  EXPECT_EQ(plus{}(std::int8_t(100), std::int8_t(100)), 127);
  EXPECT_EQ(multiplies{}(int4_t(5), int4_t(-5)), -8);
}

TEST(Complex, MultipliesAndDividesBack) {
  const complex<double> a{3, -2}, b{1, 4};
  EXPECT_EQ(a * b, (complex<double>{11, 10}));
  EXPECT_EQ(a * b / b, a);
  const complex<double> huge{1e200, 1e200};
  EXPECT_EQ(huge / huge, (complex<double>{1, 0}));
  EXPECT_EQ(multiply_add{}(a, b, conj(a)), (complex<double>{14, 12}));
}

TEST(Packed, ElementsKeepApart) {
  std::uint8_t bytes[3] = {0xff, 0xff, 0xff};
  const PackedSpan<int2_t> span(bytes, 12);
  span.set(5, int2_t(1));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(span.get(i), i == 5 ? 1 : -1);
  Array<uint1_t, 11> bits;
  static_assert(sizeof(bits) == 2);
  bits.set(9, uint1_t(1));
  for (int i = 0; i < 11; ++i) EXPECT_EQ(bits.get(i), i == 9);
}

// ---- fast division
// ------------------------------------------------------------------------------------------------
bool is_exact(const FastDivMod& by, std::uint32_t n) {
  const auto [quotient, remainder] = by(n);
  return quotient == n / by.divisor() && remainder == n % by.divisor();
}

TEST(FastDivMod, IsExactNearEveryMultipleAndAtTheEnds) {
  std::mt19937 random(5);
  std::vector<std::uint32_t> divisors;
  for (std::uint32_t d = 1; d <= 300; ++d) divisors.push_back(d);
  for (int k = 1; k < 32; ++k)
    for (const int off : {-1, 0, 1})
      divisors.push_back((1u << k) + static_cast<std::uint32_t>(off));
  for (int i = 0; i < 300; ++i)
    divisors.push_back(static_cast<std::uint32_t>(random()) >> (random() % 28) | 1u);
  divisors.insert(divisors.end(), {0x7fffffffu, 0xfffffffeu, 0xffffffffu});
  for (const std::uint32_t d : divisors) {
    if (d == 0) continue;
    const FastDivMod by(d);
    for (const std::uint32_t n :
         {0u, 1u, 0x7ffffffeu, 0x7fffffffu, 0x80000000u, 0xfffffffeu, 0xffffffffu})
      ASSERT_TRUE(is_exact(by, n)) << n << " / " << d;
    // All multiples of large divisors, an even spread of those of small ones, each with its two
    // neighbours.
    const std::uint64_t count = 0xffffffffull / d, step = std::max<std::uint64_t>(1, count / 20000);
    for (std::uint64_t q = 1; q <= count; q += step) {
      const std::uint32_t multiple = static_cast<std::uint32_t>(q * d);
      const bool exact = is_exact(by, multiple - 1) && is_exact(by, multiple) &&
                         (multiple == 0xffffffffu || is_exact(by, multiple + 1));
      ASSERT_TRUE(exact) << "around " << multiple << " / " << d;
    }
  }
}

TEST(FastDivMod, IsExactForEveryNumeratorOfADivisorWhoseMultiplierNeeds33Bits) {
  const FastDivMod by_seven(7);
  std::uint32_t quotient = 0, remainder = 0;  // counted up, so the check divides nothing
  for (std::uint32_t n = 0;; ++n) {
    if (by_seven.divide(n) != quotient) FAIL() << n;
    if (++remainder == 7) {
      remainder = 0;
      ++quotient;
    }
    if (n == 0xffffffffu) break;
  }
}

TEST(FastDivMod, RefusesZero) { EXPECT_THROW(FastDivMod(0), base::Error); }

}  // namespace

// Products of narrow, quantised and complex numbers.
#include <complex>
#include <cstring>

#include "gemm_core/base/convert.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace {

using namespace gemm_case;  // NOLINT: a test file

constexpr DType kIntegers[] = {DType::i8, DType::u8, DType::i4, DType::u4,
                               DType::i2, DType::u2, DType::b1};

TEST(GemmTypes, MultipliesFp8InAllFourPairs) {
  for (const DType a : {DType::e4m3, DType::e5m2}) {
    for (const DType b : {DType::e4m3, DType::e5m2}) {
      for (const DType d : {DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e5m2}) {
        for (const bool rows : {true, false}) {
          check({.m = 13,
                 .n = 37,
                 .k = 150,
                 .a_rows = rows,
                 .b_rows = rows,
                 .a = a,
                 .b = b,
                 .c = DType::bf16,
                 .d = d,
                 .alpha = 0.25,
                 .beta = rows ? 1.0 : 0.0});
        }
      }
    }
  }
}

TEST(GemmTypes, SumsEveryPairOfSmallIntegersExactlyByEveryInstruction) {
  for (const DType a : kIntegers) {
    for (const DType b : kIntegers) {
      for (const bool rows : {true, false}) {
        for (const std::int64_t k : {1, 63, 1030}) {
          const Case c{.m = 9,
                       .n = 35,
                       .k = k,
                       .a_rows = rows,
                       .b_rows = !rows,
                       .a = a,
                       .b = b,
                       .c = DType::i32,
                       .d = DType::i32,
                       .compute = DType::i8,
                       .beta = 1};
          check(c);
          Problem dots(c), pairs(c);
          GemmArguments g = pairs.arguments();
          g.tiling.dot_products = false;
          ASSERT_TRUE(run(dots.arguments()).ok() && run(g).ok());
          ASSERT_EQ(dots.d.bytes, pairs.d.bytes) << describe(c);
        }
      }
    }
  }
}

TEST(GemmTypes, Int8AtItsLimitsWrapsNowhereBelow2To31) {
  constexpr std::int64_t kDepth = 4096;
  const std::vector<std::int8_t> low(kDepth, -128);
  std::int32_t d = 0;
  GemmArguments g{.m = 1, .n = 1, .k = kDepth, .compute = DType::i8};
  g.a = {low.data(), DType::i8, kDepth, 1};
  g.b = {low.data(), DType::i8, 1, kDepth};
  g.d = {&d, DType::i32, 1, 1};
  ASSERT_TRUE(run(g).ok());
  EXPECT_EQ(d, 128 * 128 * kDepth);
}

// One large product, then ones: a single fp32 chain loses all ones that follow, chains of 128 keep
// those of the later chains.
TEST(GemmTypes, PromotionKeepsWhatOneChainLoses) {
  constexpr std::int64_t kDepth = 8192;
  std::vector<base::e5m2_t> a(kDepth, base::e5m2_t(1.0f)), b(kDepth, base::e5m2_t(1.0f));
  a[0] = b[0] = base::e5m2_t(8192.0f);  // 2^26
  float d = 0;
  GemmArguments g{.m = 1, .n = 1, .k = kDepth};
  g.a = {a.data(), DType::e5m2, kDepth, 1};
  g.b = {b.data(), DType::e5m2, 1, kDepth};
  g.d = {&d, DType::f32, 1, 1};
  const auto result = [&](gemm_core::Accumulation accumulation) {
    g.accumulation = accumulation;
    EXPECT_TRUE(run(g).ok());
    return d;
  };
  const float large = std::ldexp(1.0f, 26);
  EXPECT_EQ(result(gemm_core::Accumulation::fast), large);
  EXPECT_EQ(result(gemm_core::Accumulation::promoted), large + kDepth - 128);
  EXPECT_EQ(result(gemm_core::Accumulation::blocked), large + kDepth - 256);
}

TEST(GemmTypes, PromotionHappensAtEveryDepthAroundTheInterval) {
  for (const auto accumulation :
       {gemm_core::Accumulation::promoted, gemm_core::Accumulation::fast}) {
    for (const std::int64_t k : {0, 1, 127, 128, 129, 255, 256, 385, 1000}) {
      const Case c{.m = 7, .n = 19, .k = k, .a = DType::e4m3, .b = DType::e5m2};
      Problem p(c);
      GemmArguments g = p.arguments();
      g.accumulation = accumulation;
      ASSERT_TRUE(run(g).ok());
      double worst = 0;
      for (std::int64_t i = 0; i < c.m; ++i) {
        for (std::int64_t j = 0; j < c.n; ++j) {
          double sum = 0, magnitude = 1e-30;
          for (std::int64_t x = 0; x < k; ++x) {
            sum += p.a(i, x) * p.b(x, j);
            magnitude += std::fabs(p.a(i, x) * p.b(x, j));
          }
          worst = std::max(worst, std::fabs(p.d(i, j) - sum) / magnitude);
        }
      }
      EXPECT_LE(worst, double(k + 8) * std::ldexp(1.0, -24)) << k;
    }
  }
}

// ---- quantised weights ----

struct Quantised {
  DType weight = DType::i4, wide = DType::f16;
  bool on_a = false, k_is_contiguous = true, has_scale = true, has_zero = true;
  std::int64_t group = 32;
};

struct Scales {
  std::int64_t lines, groups;
  std::vector<std::uint8_t> bytes;
  DType type;
  Scales(std::int64_t l, std::int64_t g, DType t, std::mt19937& random)
      : lines(l), groups(g), bytes(static_cast<std::size_t>(l * g * base::bytes(t))), type(t) {
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < l * g; ++i) write(bytes.data(), t, i, normal(random));
  }
  double at(std::int64_t line, std::int64_t group) const {
    return read(bytes.data(), type, line * groups + group);
  }
};

// Dequantise, then multiply: the mixed product must have the same bits.
void check_quantised(const Quantised& q) {
  const std::int64_t m = 11, n = 21, k = 96, lines = q.on_a ? m : n;
  std::mt19937 random(3);
  const DType scale_type = q.wide == DType::e4m3 || q.wide == DType::e5m2 ? DType::f16 : q.wide;
  const bool rows = q.on_a == q.k_is_contiguous;
  Matrix weight(q.on_a ? m : k, q.on_a ? k : n, q.weight, rows, 1, random);
  Matrix other(q.on_a ? k : m, q.on_a ? n : k, q.wide, true, 1, random);
  const std::int64_t groups = (k + q.group - 1) / q.group;
  const Scales scale(lines, groups, scale_type, random), zero(lines, groups, scale_type, random);
  Matrix wide(weight.rows, weight.columns, q.wide, true, 1, random);
  for (std::int64_t i = 0; i < weight.rows; ++i) {
    for (std::int64_t j = 0; j < weight.columns; ++j) {
      const std::int64_t line = q.on_a ? i : j, group = (q.on_a ? j : i) / q.group;
      double w = rounded(weight(i, j), q.wide);
      if (q.has_scale)
        w = rounded(static_cast<float>(scale.at(line, group)) * static_cast<float>(w), q.wide);
      if (q.has_zero)
        w = rounded(static_cast<float>(zero.at(line, group)) + static_cast<float>(w), q.wide);
      write(wide.bytes.data(), q.wide, wide.at(i, j, 0), w);
    }
  }
  std::vector<float> mixed(static_cast<std::size_t>(m * n)), plain(mixed);
  const auto product = [&](Matrix& w, std::vector<float>& d, bool is_quantised) {
    GemmArguments g{.m = m, .n = n, .k = k, .compute = q.wide};
    g.a = q.on_a ? w.operand() : other.operand();
    g.b = q.on_a ? other.operand() : w.operand();
    g.d = {d.data(), DType::f32, n, 1};
    auto& operand = q.on_a ? g.a : g.b;
    const auto values = [&](const Scales& s) {
      return q.on_a ? gemm_core::GroupedValues{s.bytes.data(), s.type, groups, 1, 1, q.group}
                    : gemm_core::GroupedValues{s.bytes.data(), s.type, 1, groups, q.group, 1};
    };
    if (is_quantised && q.has_scale) operand.scale = values(scale);
    if (is_quantised && q.has_zero) operand.zero = values(zero);
    const GemmStatus status = run(g);
    ASSERT_TRUE(status.ok()) << status.message;
  };
  product(weight, mixed, true);
  product(wide, plain, false);
  ASSERT_EQ(mixed, plain) << base::name(q.weight) << " x " << base::name(q.wide)
                          << (q.on_a ? " on A" : " on B")
                          << (q.k_is_contiguous ? ", K contiguous" : "") << ", groups of "
                          << q.group << (q.has_scale ? ", scale" : "")
                          << (q.has_zero ? ", zero" : "");
}

TEST(GemmTypes, MixedInputHasTheBitsOfDequantisingFirst) {
  constexpr DType kWeights[] = {DType::i8, DType::u8, DType::i4,   DType::u4,  DType::i2,
                                DType::u2, DType::b1, DType::e4m3, DType::e5m2};
  for (const DType wide : {DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e5m2}) {
    for (const DType weight : kWeights) {
      for (int bits = 0; bits < 16; ++bits) {
        const Quantised q{weight,          wide,           (bits & 1) != 0, (bits & 2) != 0,
                          (bits & 4) != 0, (bits & 8) != 0};
        for (const std::int64_t group : {96, 32, 7}) {
          Quantised with = q;
          with.group = group;
          check_quantised(with);
        }
      }
    }
  }
}

// ---- complex ----

template <class Real>
struct ComplexMatrix {
  std::int64_t row_stride, column_stride;
  std::vector<std::complex<Real>> values;
  ComplexMatrix(std::int64_t rows, std::int64_t columns, bool row_major, std::mt19937& random)
      : row_stride(row_major ? columns + 1 : 1),
        column_stride(row_major ? 1 : rows + 2),
        values(static_cast<std::size_t>((rows + 2) * (columns + 2))) {
    std::normal_distribution<double> normal;
    for (auto& v : values)
      v = {static_cast<Real>(normal(random)), static_cast<Real>(normal(random))};
  }
  std::complex<double> operator()(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * row_stride + j * column_stride)];
  }
};

template <class Real>
void check_complex(std::int64_t m, std::int64_t n, std::int64_t k, int bits) {
  constexpr DType kType = std::is_same_v<Real, float> ? DType::c64 : DType::c128;
  std::mt19937 random(9);
  ComplexMatrix<Real> a(m, k, bits & 1, random), b(k, n, bits & 2, random), c(m, n, true, random),
      d(m, n, bits & 4, random);
  const bool conj_a = (bits & 8) != 0, conj_b = (bits & 16) != 0;
  const std::complex<double> alpha{0.5, -1.5}, beta{bits & 32 ? 2.0 : 0.0, bits & 32 ? 0.25 : 0.0};
  GemmArguments g{.m = m, .n = n, .k = k, .compute = kType};
  g.a = {a.values.data(), kType, a.row_stride, a.column_stride};
  g.b = {b.values.data(), kType, b.row_stride, b.column_stride};
  g.c = {c.values.data(), kType, c.row_stride, c.column_stride};
  g.d = {d.values.data(), kType, d.row_stride, d.column_stride};
  g.a.conjugate = conj_a;
  g.b.conjugate = conj_b;
  g.alpha = alpha.real(), g.alpha_imag = alpha.imag(), g.beta = beta.real(),
  g.beta_imag = beta.imag();
  const GemmStatus status = run(g);
  ASSERT_TRUE(status.ok()) << status.message;
  const double u = std::is_same_v<Real, float> ? std::ldexp(1.0, -24) : std::ldexp(1.0, -53);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      std::complex<double> sum = 0;
      double magnitude = 1;
      for (std::int64_t x = 0; x < k; ++x) {
        const auto product =
            (conj_a ? std::conj(a(i, x)) : a(i, x)) * (conj_b ? std::conj(b(x, j)) : b(x, j));
        sum += product;
        magnitude += std::abs(a(i, x)) * std::abs(b(x, j));
      }
      const auto expected = alpha * sum + beta * c(i, j);
      ASSERT_LE(std::abs(d(i, j) - expected), u * double(2 * k + 20) * 4 * magnitude)
          << m << " x " << n << " x " << k << " bits " << bits << " at " << i << ", " << j;
    }
  }
}

TEST(GemmTypes, ComplexProductsEqualTheirDefinition) {
  for (int bits = 0; bits < 64; ++bits) {
    check_complex<float>(7, 19, 150, bits);
    check_complex<double>(7, 19, 150, bits);
  }
  for (const std::int64_t n : {1, 15, 16, 17, 300}) check_complex<float>(3, n, 5, 32);
  check_complex<float>(3, 4, 0, 32);
}

// ---- results of 8 bits ----

TEST(GemmTypes, Int8ResultsRoundAndSaturate) {
  const Case c{.m = 17,
               .n = 23,
               .k = 64,
               .a = DType::i8,
               .b = DType::i8,
               .d = DType::i8,
               .compute = DType::i8,
               .alpha = 0.002};
  Problem p(c);
  ASSERT_TRUE(run(p.arguments()).ok());
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < c.k; ++k)
        sum += static_cast<std::int64_t>(p.a(i, k) * p.b(k, j));
      const float scaled = 0.002f * static_cast<float>(sum);
      EXPECT_EQ(p.d(i, j), static_cast<double>(base::convert<std::int8_t>(scaled)));
    }
  }
}

}  // namespace

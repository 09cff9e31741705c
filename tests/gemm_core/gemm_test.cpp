#include "gemm_core/device/gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "gemm_core/base/numeric.hpp"
#include "gemm_core/base/parallel.hpp"

namespace {

using base::DType;
using gemm_core::Gemm;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;
using gemm_core::GroupedGemm;

double read(const void* data, DType type, std::int64_t at) {
  switch (type) {
    case DType::f64:
      return static_cast<const double*>(data)[at];
    case DType::f16:
      return static_cast<const base::half_t*>(data)[at];
    case DType::bf16:
      return static_cast<const base::bf16_t*>(data)[at];
    case DType::i8:
      return static_cast<const std::int8_t*>(data)[at];
    case DType::i32:
      return static_cast<const std::int32_t*>(data)[at];
    default:
      return static_cast<const float*>(data)[at];
  }
}

void write(void* data, DType type, std::int64_t at, double value) {
  switch (type) {
    case DType::f64:
      static_cast<double*>(data)[at] = value;
      return;
    case DType::f16:
      static_cast<base::half_t*>(data)[at] = base::half_t(static_cast<float>(value));
      return;
    case DType::bf16:
      static_cast<base::bf16_t*>(data)[at] = base::bf16_t(static_cast<float>(value));
      return;
    case DType::i8:
      static_cast<std::int8_t*>(data)[at] = static_cast<std::int8_t>(value);
      return;
    case DType::i32:
      static_cast<std::int32_t*>(data)[at] = static_cast<std::int32_t>(value);
      return;
    default:
      static_cast<float*>(data)[at] = static_cast<float>(value);
      return;
  }
}

double rounded(double value, DType compute) {
  switch (compute) {
    case DType::f16:
      return base::half_t(static_cast<float>(value));
    case DType::bf16:
      return base::bf16_t(static_cast<float>(value));
    case DType::tf32:
      return base::round_to_tf32(static_cast<float>(value));
    default:
      return value;
  }
}

double unit_roundoff(DType type) {
  switch (type) {
    case DType::f64:
      return std::ldexp(1.0, -53);
    case DType::f16:
      return std::ldexp(1.0, -11);
    case DType::bf16:
      return std::ldexp(1.0, -8);
    case DType::i32:
      return 0;
    default:
      return std::ldexp(1.0, -24);
  }
}

// rows x columns values inside one buffer per batch, row- or column-major, with a gap after each
// line.
struct Matrix {
  std::int64_t rows, columns, row_stride, column_stride, batch_stride;
  DType type;
  std::vector<std::uint8_t> bytes;
  Matrix(std::int64_t r, std::int64_t c, DType t, bool row_major, std::int64_t batch,
         std::mt19937& random)
      : rows(r),
        columns(c),
        row_stride(row_major ? c + 3 : 1),
        column_stride(row_major ? 1 : r + 3),
        batch_stride((r + 3) * (c + 3)),
        type(t),
        bytes(static_cast<std::size_t>(batch * batch_stride * base::bytes(t) + 8)) {
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < batch * batch_stride; ++i) {
      const bool integer = t == DType::i8 || t == DType::i32;
      write(bytes.data(), t, i,
            integer ? static_cast<double>(static_cast<int>(random() % 256) - 128) : normal(random));
    }
  }
  std::int64_t at(std::int64_t i, std::int64_t j, std::int64_t l) const {
    return i * row_stride + j * column_stride + l * batch_stride;
  }
  double operator()(std::int64_t i, std::int64_t j, std::int64_t l = 0) const {
    return read(bytes.data(), type, at(i, j, l));
  }
  gemm_core::GemmOperand operand() const {
    return {bytes.data(), type, row_stride, column_stride, batch_stride, nullptr};
  }
  gemm_core::GemmOutput output() {
    return {bytes.data(), type, row_stride, column_stride, batch_stride, nullptr};
  }
};

struct Case {
  std::int64_t m = 33, n = 20, k = 40, batch = 1;
  bool a_rows = true, b_rows = true, c_rows = true, d_rows = true;
  DType a = DType::f32, b = DType::f32, c = DType::f32, d = DType::f32, compute = DType::f32;
  double alpha = 1, beta = 0;
};

struct Problem {
  Case s;
  std::mt19937 random{5};
  Matrix a, b, c, d;
  explicit Problem(const Case& x)
      : s(x),
        a(x.m, x.k, x.a, x.a_rows, x.batch, random),
        b(x.k, x.n, x.b, x.b_rows, x.batch, random),
        c(x.m, x.n, x.c, x.c_rows, x.batch, random),
        d(x.m, x.n, x.d, x.d_rows, x.batch, random) {}
  GemmArguments arguments() {
    GemmArguments g{
        .m = s.m, .n = s.n, .k = s.k, .batch = s.batch, .a = a.operand(), .b = b.operand()};
    if (s.beta != 0) g.c = c.operand();
    g.d = d.output();
    g.compute = s.compute;
    g.alpha = s.alpha;
    g.beta = s.beta;
    return g;
  }
};

std::string describe(const Case& c) {
  return base::concat("m ", c.m, " n ", c.n, " k ", c.k, " batch ", c.batch, " layout ",
                      c.a_rows ? "T" : "N", c.b_rows ? "N" : "T", " ", base::name(c.a), " x ",
                      base::name(c.b), " -> ", base::name(c.d), " as ", base::name(c.compute),
                      " alpha ", c.alpha, " beta ", c.beta);
}

GemmStatus run(const GemmArguments& g) {
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
  Gemm gemm;
  if (auto s = gemm.initialize(g, workspace.data(), workspace.size()); !s.ok()) return s;
  return gemm.run();
}

// Sums of at most 256 products, then one addition a block: (256 + blocks + 4) roundings of the
// magnitudes' sum.
void expect_equal_to_oracle(const Problem& p, const Case& c) {
  const double chain = std::min<double>(256, double(c.k)) + double(c.k) / 256 + 4;
  const double u = c.compute == DType::f64 ? std::ldexp(1.0, -53) : std::ldexp(1.0, -24);
  const bool integer = c.d == DType::i32;
  for (std::int64_t l = 0; l < c.batch; ++l) {
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double sum = 0, magnitude = 0;
        for (std::int64_t k = 0; k < c.k; ++k) {
          const double product =
              rounded(p.a(i, k, l), c.compute) * rounded(p.b(k, j, l), c.compute);
          sum += product;
          magnitude += std::fabs(product);
        }
        const double addend = c.beta != 0 ? c.beta * p.c(i, j, l) : 0;
        const double expected = c.alpha * sum + addend;
        const double tolerance =
            integer ? 0
                    : chain * u * (std::fabs(c.alpha) * magnitude + std::fabs(addend)) +
                          unit_roundoff(c.d) * std::fabs(expected) + 1e-300 +
                          (c.d == DType::f16 ? std::ldexp(1.0, -25) : 0);
        ASSERT_LE(std::fabs(p.d(i, j, l) - expected), tolerance)
            << describe(c) << " at " << l << ", " << i << ", " << j << ": " << p.d(i, j, l)
            << " expected " << expected;
      }
    }
  }
}

void check(const Case& c) {
  Problem p(c);
  const GemmStatus status = run(p.arguments());
  ASSERT_TRUE(status.ok()) << describe(c) << ": " << status.message;
  expect_equal_to_oracle(p, c);
}

TEST(Gemm, EqualsTheDefinitionInEveryLayout) {
  for (int layout = 0; layout < 16; ++layout) {
    for (const double beta : {0.0, -0.5}) {
      check({.a_rows = (layout & 1) != 0,
             .b_rows = (layout & 2) != 0,
             .c_rows = (layout & 4) != 0,
             .d_rows = (layout & 8) != 0,
             .alpha = 1.5,
             .beta = beta});
    }
  }
}

TEST(Gemm, EqualsTheDefinitionForEveryRemainder) {
  for (const std::int64_t m : {1, 2, 5, 6, 7, 13, 95, 96, 97, 300}) {
    for (const std::int64_t n : {1, 7, 8, 9, 16, 17, 33, 511, 512, 513}) {
      for (const std::int64_t k : {1, 3, 257}) {
        if (m * n * k < 2'000'000) check({.m = m, .n = n, .k = k});
      }
    }
  }
  for (std::int64_t k = 0; k < 20; ++k) check({.m = 5, .n = 6, .k = k, .beta = 2});
  for (const std::int64_t k : {255, 256, 257, 512, 1000}) check({.m = 20, .n = 20, .k = k});
}

TEST(Gemm, EqualsTheDefinitionForEveryType) {
  const DType narrow[] = {DType::f32, DType::f16, DType::bf16};
  for (const DType a : narrow) {
    for (const DType b : narrow) {
      for (const DType d : narrow) {
        for (const DType compute : {DType::f32, DType::tf32, DType::f16, DType::bf16}) {
          check({.m = 15,
                 .n = 21,
                 .k = 300,
                 .a_rows = false,
                 .b_rows = true,
                 .a = a,
                 .b = b,
                 .c = d,
                 .d = d,
                 .compute = compute,
                 .alpha = 0.5,
                 .beta = 1});
          check({.m = 15,
                 .n = 21,
                 .k = 30,
                 .b_rows = false,
                 .a = a,
                 .b = b,
                 .d = d,
                 .compute = compute});
        }
      }
    }
  }
  for (const bool rows : {true, false}) {
    for (const std::int64_t m : {1, 7, 100}) {
      check({.m = m,
             .n = 45,
             .k = 270,
             .a_rows = rows,
             .b_rows = !rows,
             .a = DType::f64,
             .b = DType::f64,
             .c = DType::f64,
             .d = DType::f64,
             .compute = DType::f64,
             .alpha = 2,
             .beta = 3});
    }
  }
}

TEST(Gemm, SumsInt8Exactly) {
  for (const bool rows : {true, false}) {
    for (const std::int64_t k : {0, 1, 2, 3, 64, 511, 1025}) {
      for (const double beta : {0.0, 1.0}) {
        check({.m = 19,
               .n = 35,
               .k = k,
               .a_rows = rows,
               .b_rows = rows,
               .a = DType::i8,
               .b = DType::i8,
               .c = DType::i32,
               .d = DType::i32,
               .compute = DType::i8,
               .beta = beta});
      }
      check({.m = 19,
             .n = 35,
             .k = k,
             .a = DType::i8,
             .b = DType::i8,
             .d = DType::f32,
             .compute = DType::i8,
             .alpha = 0.01});
    }
  }
}

TEST(Gemm, BatchesByStrideAndByPointers) {
  const Case c{.m = 17, .n = 11, .k = 23, .batch = 5, .alpha = 2, .beta = 1};
  check(c);
  Problem strided(c), pointed(c);
  ASSERT_TRUE(run(strided.arguments()).ok());
  GemmArguments g = pointed.arguments();
  std::vector<const void*> a, b, cs;
  std::vector<void*> d;
  for (std::int64_t l = 0; l < c.batch; ++l) {
    a.push_back(reinterpret_cast<float*>(pointed.a.bytes.data()) + pointed.a.at(0, 0, l));
    b.push_back(reinterpret_cast<float*>(pointed.b.bytes.data()) + pointed.b.at(0, 0, l));
    cs.push_back(reinterpret_cast<float*>(pointed.c.bytes.data()) + pointed.c.at(0, 0, l));
    d.push_back(reinterpret_cast<float*>(pointed.d.bytes.data()) + pointed.d.at(0, 0, l));
  }
  g.a.pointers = a.data();
  g.b.pointers = b.data();
  g.c.pointers = cs.data();
  g.d.pointers = d.data();
  g.a.data = g.b.data = g.c.data = nullptr;
  g.d.data = nullptr;
  ASSERT_TRUE(run(g).ok());
  EXPECT_EQ(strided.d.bytes, pointed.d.bytes);
}

TEST(Gemm, GivesTheSameBitsForAnyNumberOfThreadsAndOnASecondRun) {
  Problem p({.m = 500, .n = 800, .k = 300});
  const GemmArguments g = p.arguments();
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
  Gemm gemm;
  ASSERT_TRUE(gemm.initialize(g, workspace.data(), workspace.size()).ok());
  base::Threads(1).run([&] { ASSERT_TRUE(gemm.run().ok()); });
  const auto once = p.d.bytes;
  for (const int threads : {1, 2, 5}) {
    std::memset(p.d.bytes.data(), 0xff, p.d.bytes.size());
    base::Threads(threads).run([&] { ASSERT_TRUE(gemm.run().ok()); });
    for (std::int64_t i = 0; i < 500; ++i) {
      for (std::int64_t j = 0; j < 800; ++j)
        ASSERT_EQ(p.d(i, j), read(once.data(), DType::f32, p.d.at(i, j, 0)));
    }
  }
}

TEST(Gemm, WithBetaZeroDoesNotReadC) {
  Problem p({});
  GemmArguments g = p.arguments();
  std::vector<float> nan(33 * 20, std::nanf(""));
  g.c = {nan.data(), DType::f32, 20};
  ASSERT_TRUE(run(g).ok());
  expect_equal_to_oracle(p, p.s);
}

TEST(Gemm, RunsTheEpilogueOnTheFp32Sum) {
  Problem p({.m = 200, .n = 21, .k = 9, .alpha = 2});
  Problem plain(p.s);
  ASSERT_TRUE(run(plain.arguments()).ok());
  std::vector<float> scale(21), shift(21);
  for (std::size_t j = 0; j < 21; ++j) {
    scale[j] = 0.1f * static_cast<float>(j) - 1;
    shift[j] = static_cast<float>(j) - 8;
  }
  GemmArguments g = p.arguments();
  g.epilogue.scale_shift(scale.data(), shift.data()).activate(gemm_core::Activation::relu);
  ASSERT_TRUE(run(g).ok());
  for (std::int64_t i = 0; i < 200; ++i) {
    for (std::int64_t j = 0; j < 21; ++j) {
      const auto n = static_cast<std::size_t>(j);
      const double expected = std::max(0.0, plain.d(i, j) * scale[n] + shift[n]);
      EXPECT_NEAR(p.d(i, j), expected, 1e-6 * (1 + std::fabs(expected)));
    }
  }
}

TEST(Gemm, UpdatesCInPlace) {
  Problem p({.beta = 1});
  Problem other(p.s);
  ASSERT_TRUE(run(other.arguments()).ok());
  GemmArguments g = p.arguments();
  g.d = p.c.output();
  ASSERT_TRUE(run(g).ok());
  for (std::int64_t i = 0; i < 33; ++i) {
    for (std::int64_t j = 0; j < 20; ++j) EXPECT_EQ(p.c(i, j), other.d(i, j));
  }
}

TEST(GroupedGemm, EqualsSeparateProductsBitForBit) {
  std::vector<Problem> together, apart;
  for (const std::int64_t m : {0, 1, 7, 200}) {
    for (const std::int64_t k : {0, 5, 300}) {
      const Case c{.m = m, .n = 3 * m + 2, .k = k, .alpha = 0.5, .beta = m == 7 ? 2.0 : 0.0};
      together.emplace_back(c);
      apart.emplace_back(c);
    }
  }
  std::vector<GemmArguments> groups;
  for (auto& p : together) groups.push_back(p.arguments());
  std::vector<std::uint8_t> workspace(GroupedGemm::workspace_size(groups));
  GroupedGemm grouped;
  ASSERT_TRUE(grouped.initialize(groups, workspace.data(), workspace.size()).ok());
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_TRUE(grouped.run().ok());
    for (std::size_t i = 0; i < apart.size(); ++i) {
      ASSERT_TRUE(run(apart[i].arguments()).ok());
      EXPECT_EQ(together[i].d.bytes, apart[i].d.bytes) << describe(apart[i].s);
    }
  }
  EXPECT_TRUE(GroupedGemm().initialize({}, nullptr, 0).ok());
}

struct Refusal {
  GemmStatus::Code code;
  std::vector<std::string> words;
  std::function<void(GemmArguments&)> spoil;
};

TEST(Gemm, RefusesMisuseByNameAndLeavesTheOutputAlone) {
  using Code = GemmStatus::Code;
  const std::vector<Refusal> refusals{
      {Code::invalid_extent, {"m -1", "negative"}, [](auto& g) { g.m = -1; }},
      {Code::invalid_extent, {"batch -3"}, [](auto& g) { g.batch = -3; }},
      {Code::invalid_extent,
       {"m 4611686018427387904", "2^63"},
       [](auto& g) { g.m = std::int64_t{1} << 62; }},
      {Code::invalid_extent, {"k ", "2^63"}, [](auto& g) { g.k = std::int64_t{1} << 60; }},
      {Code::invalid_extent,
       {"operand A", "strides"},
       [](auto& g) { g.a.row_stride = std::int64_t{1} << 59; }},
      {Code::null_operand, {"operand A"}, [](auto& g) { g.a.data = nullptr; }},
      {Code::null_operand, {"operand D"}, [](auto& g) { g.d.data = nullptr; }},
      {Code::null_operand, {"operand C", "beta is 2"}, [](auto& g) { g.beta = 2; }},
      {Code::misaligned,
       {"operand B", "4 bytes"},
       [](auto& g) { g.b.data = static_cast<const char*>(g.b.data) + 1; }},
      {Code::unsupported, {"float32", "float64"}, [](auto& g) { g.b.dtype = DType::f64; }},
      {Code::unsupported, {"int4"}, [](auto& g) { g.a.dtype = DType::i4; }},
      {Code::unsupported, {"D", "overlaps itself"}, [](auto& g) { g.d.row_stride = 5; }},
      {Code::unsupported,
       {"x 2", "batch stride 0", "overlaps itself"},
       [](auto& g) {
         g.batch = 2;
         g.d.batch_stride = 0;
       }},
      {Code::overlap, {"D overlaps operand A"}, [](auto& g) { g.a.data = g.d.data; }},
      {Code::overlap,
       {"D overlaps operand B"},
       [](auto& g) { g.b.data = static_cast<float*>(g.d.data) + 1; }},
      {Code::overlap,
       {"operand C"},
       [](auto& g) {
         g.beta = 1;
         g.c = {static_cast<float*>(g.d.data) + 1, DType::f32, g.d.row_stride};
       }},
  };
  for (const Refusal& refusal : refusals) {
    Problem p({});
    const auto before = p.d.bytes;
    GemmArguments g = p.arguments();
    refusal.spoil(g);
    std::vector<std::uint8_t> workspace(1 << 20);
    Gemm gemm;
    const GemmStatus status = gemm.initialize(g, workspace.data(), workspace.size());
    EXPECT_EQ(status.code, refusal.code) << status.message;
    for (const auto& word : refusal.words)
      EXPECT_NE(status.message.find(word), std::string::npos) << status.message;
    EXPECT_EQ(gemm.run().code, Code::not_initialized);
    EXPECT_EQ(p.d.bytes, before);
    EXPECT_EQ(Gemm::workspace_size(g), 0u);
  }
}

TEST(Gemm, RefusesASmallWorkspace) {
  Problem p({});
  const GemmArguments g = p.arguments();
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g) - 1);
  Gemm gemm;
  EXPECT_EQ(gemm.initialize(g, workspace.data(), workspace.size()).code,
            GemmStatus::Code::small_workspace);
}

}  // namespace

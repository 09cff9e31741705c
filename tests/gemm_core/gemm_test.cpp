// Products against their definition: layouts, remainders, types, batches, threads, epilogues.
#include <cstring>

#include "gemm_core/base/parallel.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace {

using namespace gemm_case;  // NOLINT: a test file

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

// Sums that are results are written by the products themselves; others pass through a tile of sums.
TEST(Gemm, GivesTheSameBitsWithoutATileOfSumsAndLeavesTheGapsOfDAlone) {
  for (const std::int64_t n : {8, 16, 21, 520, 1040}) {
    for (const std::int64_t k : {1, 256, 300, 700}) {
      Problem direct({.m = 103, .n = n, .k = k}), through(direct.s);
      const std::vector<float> ones(static_cast<std::size_t>(n), 1.0f);
      GemmArguments g = through.arguments();
      g.epilogue.scale_shift(ones.data(), nullptr);
      ASSERT_TRUE(run(g).ok());
      ASSERT_TRUE(run(direct.arguments()).ok());
      EXPECT_EQ(direct.d.bytes, through.d.bytes) << n << ", " << k;
      Problem untouched(direct.s);
      for (std::int64_t i = 0; i + 1 < 103; ++i) {
        for (std::int64_t j = n; j < n + 3; ++j) ASSERT_EQ(direct.d(i, j), untouched.d(i, j));
      }
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

}  // namespace

// Gathered and scattered operands, structured sparsity, and products cut along k.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "gemm_core/base/parallel.hpp"
#include "gemm_core/device/sparse_gemm.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace {

using namespace gemm_case;  // NOLINT: a test file
using gemm_core::GatherList;
using gemm_core::GemmSchedule;

// `count` of `limit` indices; the same type of list in int32 and int64.
struct Indices {
  std::vector<std::int32_t> narrow;
  std::vector<std::int64_t> wide;
  std::int64_t limit;
  Indices(std::int64_t count, std::int64_t lim, int kind, std::mt19937& random) : limit(lim) {
    wide.resize(static_cast<std::size_t>(lim));
    std::iota(wide.begin(), wide.end(), 0);
    if (kind == 0) std::shuffle(wide.begin(), wide.end(), random);
    if (kind == 1) std::reverse(wide.begin(), wide.end());
    wide.resize(static_cast<std::size_t>(count));
    narrow.assign(wide.begin(), wide.end());
  }
  void make_holes() {
    for (std::size_t i = 0; i < wide.size(); i += 3) narrow[i] = -1, wide[i] = -7;
  }
  GatherList list(bool is_wide) const {
    return is_wide ? GatherList{{wide.data(), DType::i64}, limit}
                   : GatherList{{narrow.data(), DType::i32}, limit};
  }
};

double at_or_zero(const Matrix& m, std::int64_t row, std::int64_t column) {
  return row < 0 || column < 0 ? 0 : m(row, column);
}

// Which sides are gathered: bits 0-4 A's rows, k, B's columns, D's rows, D's columns; kind:
// shuffled, reversed, plain.
void check_gathered(DType type, int sides, int kind, bool wide, bool holes, bool row_major) {
  const std::int64_t m = 23, n = 18, k = 35;
  std::mt19937 random(11);
  Matrix a(m + 9, k + 5, type, row_major, 1, random), b(k + 5, n + 4, type, !row_major, 1, random),
      d(m + 6, n + 7, type, row_major, 1, random);
  Indices rows(m, m + 9, kind, random), depth(k, k + 5, kind, random),
      columns(n, n + 4, kind, random), to_rows(m, m + 6, kind, random),
      to_columns(n, n + 7, kind, random);
  if (holes) rows.make_holes(), depth.make_holes(), columns.make_holes();
  GemmArguments g{.m = m,
                  .n = n,
                  .k = k,
                  .a = a.operand(),
                  .b = b.operand(),
                  .d = d.output(),
                  .compute = type == DType::f16 ? DType::f32 : type};
  if (sides & 1) g.a.rows = rows.list(wide);
  if (sides & 2) g.a.columns = g.b.rows = depth.list(wide);
  if (sides & 4) g.b.columns = columns.list(wide);
  if (sides & 8) g.d.rows = to_rows.list(wide);
  if (sides & 16) g.d.columns = to_columns.list(wide);
  const Matrix before = d;
  const GemmStatus status = run(g);
  ASSERT_TRUE(status.ok()) << status.message;
  std::vector<bool> written(d.bytes.size());
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t x = 0; x < k; ++x) {
        const auto at = [](bool gathered, const Indices& list, std::int64_t index) {
          return gathered ? list.wide[static_cast<std::size_t>(index)] : index;
        };
        sum += at_or_zero(a, at(sides & 1, rows, i), at(sides & 2, depth, x)) *
               at_or_zero(b, at(sides & 2, depth, x), at(sides & 4, columns, j));
      }
      const std::int64_t row = sides & 8 ? to_rows.wide[static_cast<std::size_t>(i)] : i;
      const std::int64_t column = sides & 16 ? to_columns.wide[static_cast<std::size_t>(j)] : j;
      ASSERT_NEAR(d(row, column), sum, type == DType::f16 ? 0.05 : 1e-4)
          << sides << " kind " << kind;
      written[static_cast<std::size_t>(d.at(row, column, 0))] = true;
    }
  }
  for (std::int64_t i = 0; i < d.batch_stride; ++i) {  // nothing else is touched
    if (written[static_cast<std::size_t>(i)]) continue;
    ASSERT_EQ(read(d.bytes.data(), type, i), read(before.bytes.data(), type, i)) << sides;
  }
}

TEST(GatherGemm, GathersAndScattersEverySideByEveryKindOfIndex) {
  for (const DType type : {DType::f32, DType::f16, DType::f64}) {
    for (int sides = 0; sides < 32; ++sides) {
      for (int kind = 0; kind < 3; ++kind) {
        for (const bool wide : {false, true}) {
          check_gathered(type, sides, kind, wide, false, kind != 2);
          check_gathered(type, sides, kind, wide, true, kind == 2);
        }
      }
    }
  }
}

TEST(GatherGemm, RefusesIndicesOutOfRangeAndTwiceWritten) {
  const auto refusal = [](auto spoil) {
    Problem p({.m = 4, .n = 4, .k = 4});
    GemmArguments g = p.arguments();
    static const std::int32_t good[] = {0, 1, 2, 3}, far[] = {0, 9, 1, 2}, twice[] = {0, 1, 2, 1},
                              hole[] = {0, 1, -1, 2};
    spoil(g, good, far, twice, hole);
    return Gemm::can_implement(g);
  };
  const auto list = [](const std::int32_t* i) { return GatherList{{i, DType::i32}, 4}; };
  EXPECT_TRUE(refusal([&](auto& g, auto good, auto, auto, auto) {
                g.a.rows = g.d.rows = list(good);
              }).ok());
  EXPECT_TRUE(refusal([&](auto& g, auto, auto, auto twice, auto) { g.a.rows = list(twice); }).ok());
  EXPECT_TRUE(refusal([&](auto& g, auto, auto, auto, auto hole) { g.b.rows = list(hole); }).ok());
  auto status = refusal([&](auto& g, auto, auto far, auto, auto) { g.a.rows = list(far); });
  EXPECT_EQ(status.code, GemmStatus::Code::bad_index);
  EXPECT_NE(status.message.find("row index 1 of operand A is 9"), std::string::npos)
      << status.message;
  status = refusal([&](auto& g, auto, auto, auto twice, auto) { g.d.rows = list(twice); });
  EXPECT_NE(status.message.find("row index 3 of operand D is 1 once more"), std::string::npos)
      << status.message;
  status = refusal([&](auto& g, auto, auto, auto, auto hole) { g.d.columns = list(hole); });
  EXPECT_NE(status.message.find("column index 2 of operand D is -1"), std::string::npos)
      << status.message;
}

// ---- 2:4 ----

TEST(SparseGemm, HasTheBitsOfTheDenseProductWithThePrunedMatrix) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::i8}) {
    for (const std::int64_t k : {4, 8, 36, 300}) {
      const std::int64_t m = 19, n = 33;
      std::mt19937 random(static_cast<unsigned>(k));
      Matrix a(m, k, type, true, 1, random),
          b(k, n, type == DType::i8 ? DType::f16 : type, false, 1, random);
      const gemm_core::DenseRows rows{a.bytes.data(), type, m, k, a.row_stride};
      gemm_core::prune_2to4(rows);
      const gemm_core::SparseMatrix sparse = gemm_core::compress_2to4(rows);
      EXPECT_EQ(static_cast<std::int64_t>(sparse.values.size()), m * k / 2 * base::bytes(type));
      std::vector<float> whole(static_cast<std::size_t>(m * n)), compressed(whole);
      std::vector<float> bias(static_cast<std::size_t>(n), 0.5f);
      GemmArguments g{.m = m, .n = n, .k = k, .a = a.operand(), .b = b.operand()};
      g.epilogue.scale_shift(nullptr, bias.data()).activate(gemm_core::Activation::relu);
      g.d = {whole.data(), DType::f32, n, 1};
      ASSERT_TRUE(run(g).ok());
      g.a = sparse.operand();
      g.d.data = compressed.data();
      const GemmStatus status = run(g);
      ASSERT_TRUE(status.ok()) << status.message;
      EXPECT_EQ(whole, compressed) << base::name(type) << " k " << k;
    }
  }
}

// Kept values one after the other down a column, and scales by groups of the columns that they
// stand for.
TEST(SparseGemm, TakesKeptValuesOfAnyStrideAndScalesOfWholeColumns) {
  constexpr std::int64_t m = 19, n = 33, k = 44, kGroup = 12;
  std::mt19937 random(8);
  Matrix a(m, k, DType::e5m2, true, 1, random), b(k, n, DType::f16, true, 1, random);
  const gemm_core::DenseRows rows{a.bytes.data(), DType::e5m2, m, k, a.row_stride};
  gemm_core::prune_2to4(rows);
  const gemm_core::SparseMatrix sparse = gemm_core::compress_2to4(rows);
  std::vector<std::uint8_t> turned(sparse.values.size());
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < k / 2; ++j)
      turned[static_cast<std::size_t>(j * m + i)] =
          sparse.values[static_cast<std::size_t>(i * (k / 2) + j)];
  }
  std::vector<float> scale(static_cast<std::size_t>(m * ((k + kGroup - 1) / kGroup)));
  for (std::size_t i = 0; i < scale.size(); ++i) scale[i] = 0.5f + static_cast<float>(i % 7);
  std::vector<float> whole(static_cast<std::size_t>(m * n)), compressed(whole);
  GemmArguments g{.m = m, .n = n, .k = k, .a = a.operand(), .b = b.operand()};
  const auto scaled = [&] {
    g.a.scale = {.data = scale.data(),
                 .row_stride = (k + kGroup - 1) / kGroup,
                 .column_stride = 1,
                 .column_group = kGroup};
  };
  scaled();
  g.d = {whole.data(), DType::f32, n, 1};
  ASSERT_TRUE(run(g).ok());
  g.a = sparse.operand();
  g.a.data = turned.data();
  g.a.row_stride = 1;
  g.a.column_stride = m;
  scaled();
  g.d.data = compressed.data();
  const GemmStatus status = run(g);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(whole, compressed);
}

TEST(SparseGemm, PruningKeepsTheTwoLargestAndTheLowerOfEquals) {
  std::vector<float> a{1, -3, 2, 0, 5, 5, 5, 5, 0, 0, 0, 1, 0, 0, 0, 0};
  const gemm_core::DenseRows rows{a.data(), DType::f32, 2, 8, 8};
  gemm_core::prune_2to4(rows);
  EXPECT_EQ(a, (std::vector<float>{0, -3, 2, 0, 5, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}));
  const auto sparse = gemm_core::compress_2to4(rows);
  EXPECT_EQ(sparse.metadata[0], (1 | 2 << 2) | (0 | 1 << 2) << 4);
  a[4] = a[6] = a[7] = 1;
  EXPECT_THROW(
      {
        try {
          gemm_core::compress_2to4(rows);
        } catch (const base::Error& e) {
          EXPECT_NE(std::string(e.what()).find("row 0 has 4 values in columns 4 to 7"),
                    std::string::npos)
              << e.what();
          throw;
        }
      },
      base::Error);
}

// ---- stream-K and split-k ----

TEST(StreamKGemm, EqualsTheDefinitionForEveryDecomposition) {
  using kernel::Decomposition;
  for (const auto decomposition :
       {Decomposition::stream_k, Decomposition::split_k, Decomposition::heuristic}) {
    for (const bool deterministic : {true, false}) {
      for (const std::int64_t m : {1, 96, 97, 290}) {
        for (const std::int64_t k : {0, 1, 255, 257, 2560, 4099}) {
          const Case c{.m = m, .n = 40, .k = k, .alpha = 2, .beta = 1};
          Problem p(c);
          GemmArguments g = p.arguments();
          g.schedule = {decomposition, 3, 5, deterministic};
          const GemmStatus status = run(g);
          ASSERT_TRUE(status.ok()) << status.message;
          expect_equal_to_oracle(p, c);
        }
      }
    }
  }
}

TEST(StreamKGemm, InOrderGivesTheSameBitsInEveryRunAndForAnyNumberOfThreads) {
  Problem p({.m = 200, .n = 70, .k = 9000});
  GemmArguments g = p.arguments();
  g.schedule = {kernel::Decomposition::stream_k, 1, 7, true};
  std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
  Gemm gemm;
  ASSERT_TRUE(gemm.initialize(g, workspace.data(), workspace.size()).ok());
  ASSERT_TRUE(gemm.run().ok());
  const auto first = p.d.bytes;
  for (int i = 0; i < 100; ++i) {
    base::Threads(i % 4 + 1).run([&] { ASSERT_TRUE(gemm.run().ok()); });
    ASSERT_EQ(p.d.bytes, first) << i;
  }
}

TEST(StreamKGemm, SumsIntegersAndDoublesToo) {
  const Case whole{.m = 30,
                   .n = 40,
                   .k = 9000,
                   .a = DType::i8,
                   .b = DType::i8,
                   .d = DType::i32,
                   .compute = DType::i8};
  const Case wide{.m = 30,
                  .n = 40,
                  .k = 3000,
                  .a = DType::f64,
                  .b = DType::f64,
                  .d = DType::f64,
                  .compute = DType::f64};
  for (const Case& c : {whole, wide}) {
    for (const bool deterministic : {true, false}) {
      Problem p(c);
      GemmArguments g = p.arguments();
      g.schedule = {kernel::Decomposition::split_k, 4, 8, deterministic};
      ASSERT_TRUE(run(g).ok());
      expect_equal_to_oracle(p, c);
    }
  }
}

TEST(GemmTiling, ChangesNoBitOfAnFp32Result) {
  Problem p({.m = 211, .n = 150, .k = 300});
  ASSERT_TRUE(run(p.arguments()).ok());
  const auto expected = p.d.bytes;
  for (const std::int64_t tile_m : {6, 50, 240}) {
    for (const std::int64_t tile_n : {1, 64, 1024}) {
      GemmArguments g = p.arguments();
      g.tiling = {tile_m, tile_n};
      ASSERT_TRUE(run(g).ok());
      EXPECT_EQ(p.d.bytes, expected) << tile_m << " x " << tile_n;
    }
  }
}

}  // namespace

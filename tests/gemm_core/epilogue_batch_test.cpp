// Epilogue nodes over a batch: each operand with a stride of its own, or one for all.
#include "tests/gemm_core/epilogue_setting.hpp"

namespace {

using namespace epilogue_case;  // NOLINT: a test file

// Residue tiles in both directions, in each of three products.
constexpr std::int64_t kRows = 203, kColumns = 530, kDepth = 19, kBatch = 3;
constexpr std::int64_t kSize = kRows * kColumns;

struct Batch {
  std::vector<float> a = random_values(kBatch * kRows * kDepth, 21),
                     b = random_values(kBatch * kDepth * kColumns, 22);
  std::vector<float> run(gemm_core::TileEpilogue* visitor) const {
    std::vector<float> d(static_cast<std::size_t>(kBatch * kSize), -77.0f);
    GemmArguments g{.m = kRows, .n = kColumns, .k = kDepth, .batch = kBatch};
    g.a = {a.data(), DType::f32, kDepth};
    g.a.batch_stride = kRows * kDepth;
    g.b = {b.data(), DType::f32, kColumns};
    g.b.batch_stride = kDepth * kColumns;
    g.d = {d.data(), DType::f32, kColumns};
    g.d.batch_stride = kSize;
    g.visitor = visitor;
    std::vector<std::uint8_t> workspace(Gemm::workspace_size(g));
    Gemm gemm;
    const GemmStatus status = gemm.initialize(g, workspace.data(), workspace.size());
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_TRUE(gemm.run().ok());
    return d;
  }
};

std::size_t place(std::int64_t l, std::int64_t i, std::int64_t j) {
  return static_cast<std::size_t>(l * kSize + i * kColumns + j);
}

// expected(l, i, j, accumulator), bit for bit.
template <class Root, class Expected>
void expect_batch(const Batch& batch, Root root, const Expected& expected) {
  const auto plain = batch.run(nullptr);
  VisitorEpilogue<Root> epilogue(std::move(root));
  const auto d = batch.run(&epilogue);
  for (std::int64_t l = 0; l < kBatch; ++l) {
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kColumns; ++j)
        ASSERT_EQ(d[place(l, i, j)], expected(l, i, j, plain[place(l, i, j)]))
            << l << ", " << i << ", " << j;
    }
  }
}

TEST(EpilogueBatch, LoadsStepByTheirStrideAndAreSharedByStrideZero) {
  const Batch batch;
  const auto matrices = random_values(kBatch * kSize, 23),
             rows = random_values(kBatch * kColumns, 24),
             columns = random_values(kBatch * kRows, 25), scalars = random_values(kBatch, 26);
  for (const std::int64_t step : {0, 1}) {
    const auto of = [&](const std::vector<float>& v, std::int64_t l, std::int64_t size,
                        std::int64_t i) {
      return v[static_cast<std::size_t>(l * step * size + i)];
    };
    expect_batch(
        batch,
        tree(ComputeWith{[](float acc, float m, float r, float c, float s) {
               return acc + m - r + c - s;
             }},
             Accumulator{},
             MatrixLoad{.matrix = {matrices.data(), DType::f32, kColumns, 1},
                        .batch_stride = step * kSize},
             RowLoad{rows.data(), step * kColumns}, ColumnLoad{columns.data(), step * kRows},
             Scalar({{1.0f, scalars.data(), step}})),
        [&](auto l, auto i, auto j, float acc) {
          return acc + of(matrices, l, kSize, i * kColumns + j) - of(rows, l, kColumns, j) +
                 of(columns, l, kRows, i) - of(scalars, l, 1, 0);
        });
  }
}

TEST(EpilogueBatch, BetaIsReadForEachProductAndCWhereItIsZeroIsNot) {
  const Batch batch;
  auto c = random_values(kBatch * kSize, 27);
  std::fill_n(c.begin() + kSize, kSize, std::nanf(""));
  const float beta[kBatch] = {2, 0, -1};
  expect_batch(
      batch,
      linear_combination(
          3.0f, Scalar({{1.0f, beta, 1}}),
          {.name = "C", .matrix = {c.data(), DType::f32, kColumns, 1}, .batch_stride = kSize}),
      [&](auto l, auto i, auto j, float acc) {
        return beta[l] == 0 ? 3 * acc : std::fma(beta[l], c[place(l, i, j)], 3 * acc);
      });
}

TEST(EpilogueBatch, StoresAndReductionsStepTooAndSharedReductionsTakeEveryProduct) {
  const Batch batch;
  std::vector<float> stored(static_cast<std::size_t>(kBatch * kSize)),
      most(static_cast<std::size_t>(kBatch * kColumns)), amax(1);
  expect_batch(
      batch,
      tree(MatrixStore{.data = stored.data(), .row_stride = kColumns, .batch_stride = kSize},
           tree(Reduce{.axis = ReductionAxis::rows,
                       .reduction = Reduction::maximum,
                       .out = most.data(),
                       .batch_stride = kColumns},
                tree(Reduce{.reduction = Reduction::amax, .out = amax.data()}, Accumulator{}))),
      [](auto, auto, auto, float acc) { return acc; });
  const auto plain = batch.run(nullptr);
  EXPECT_EQ(stored, plain);
  float largest = 0;
  for (std::int64_t l = 0; l < kBatch; ++l) {
    for (std::int64_t j = 0; j < kColumns; ++j) {
      float most_here = -std::numeric_limits<float>::infinity();
      for (std::int64_t i = 0; i < kRows; ++i) {
        most_here = std::max(most_here, plain[place(l, i, j)]);
        largest = std::max(largest, std::fabs(plain[place(l, i, j)]));
      }
      EXPECT_EQ(most[static_cast<std::size_t>(l * kColumns + j)], most_here) << l << ", " << j;
    }
  }
  EXPECT_EQ(amax[0], largest);
}

}  // namespace

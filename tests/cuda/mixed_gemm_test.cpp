// Narrow weights x f16 or bf16 activations on the device: every kernel that takes a case, against
// the CPU's operation and against sums in double over weights dequantised step by step.
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "gemm_core/device/cuda/mixed/mixed_instances.hpp"
#include "tests/cuda/dense_case.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using gemm_core::GemmOperand;
using gemm_core::GemmOutput;
using gemm_core::GroupedValues;
using gemm_core::cuda::Gemm;

struct Groups {
  DType type = DType::f16;
  std::int64_t rows = 1, k = 128;  // of one value
};

struct MixedCase {
  std::int64_t m = 40, n = 256, k = 256, batch = 1;  // m: activations, n: weights
  DType weights = DType::i4, compute = DType::f16, result = DType::f16;
  bool weights_first = false;  // D = W X instead of X W
  bool aligned = true;
  std::optional<Groups> scale, zero;
  double beta = 0;
  kernel::Decomposition how = kernel::Decomposition::data_parallel;
  std::int64_t splits = 1;
};

std::string describe(const MixedCase& c) {
  const auto groups = [](const char* name, const std::optional<Groups>& g) {
    return g ? base::concat(" ", name, " ", base::name(g->type), " per ", g->rows, " x ", g->k)
             : std::string();
  };
  return base::concat("m ", c.m, " n ", c.n, " k ", c.k, " batch ", c.batch, " ",
                      base::name(c.weights), " x ", base::name(c.compute), " -> ",
                      base::name(c.result), c.weights_first ? " weights first" : "",
                      c.aligned ? " aligned" : " unaligned", groups("scale", c.scale),
                      groups("zero", c.zero), " beta ", c.beta, " splits ", c.splits);
}

// Weights [n, k] and activations [m, k], both along k, and what belongs to them.
class MixedProblem {
 public:
  MixedProblem(const MixedCase& c, unsigned seed)
      : case_(c),
        random_(seed),
        w_(c.n, c.k, c.weights, true, c.aligned, c.batch, random_),
        x_(c.m, c.k, c.compute, true, c.aligned, c.batch, random_),
        in_(rows(), columns(), c.result, true, c.aligned, c.batch, random_),
        d_(rows(), columns(), c.result, true, c.aligned, c.batch, random_),
        scale_(values(c.scale)),
        zero_(values(c.zero)) {
    for (auto* matrix : {&w_, &x_, &in_, &scale_, &zero_}) matrix->upload();
    untouched_ = d_.host;
    sum();
  }

  GemmArguments arguments(bool on_device = true) const {
    GemmArguments g{.m = rows(), .n = columns(), .k = case_.k, .batch = case_.batch};
    GemmOperand w = w_.operand<GemmOperand>(on_device), x = x_.operand<GemmOperand>(on_device);
    (case_.weights_first ? x : w).row_stride = 1;
    (case_.weights_first ? x : w).column_stride =
        case_.weights_first ? x_.row_stride : w_.row_stride;
    w.scale = grouped(case_.scale, scale_, on_device);
    w.zero = grouped(case_.zero, zero_, on_device);
    g.a = case_.weights_first ? w : x;
    g.b = case_.weights_first ? x : w;
    if (case_.beta != 0) g.c = in_.operand<GemmOperand>(on_device);
    g.d = d_.operand<GemmOutput>(on_device);
    g.compute = case_.compute;
    g.beta = case_.beta;
    g.schedule.decomposition = case_.how;
    g.schedule.splits = case_.splits;
    return g;
  }

  void clear() {
    d_.host = untouched_;
    d_.upload();
  }
  const std::vector<std::uint8_t>& result() {
    d_.download();
    return d_.host;
  }

  void expect_right(const std::string& kernel) {
    d_.download();
    std::vector<bool> inside(d_.host.size() / static_cast<std::size_t>(base::bytes(d_.type)));
    const double unit = gemm_case::unit_roundoff(d_.type), u = std::ldexp(1.0, -24);
    // Instructions add sums and products with their last bit cut off, partial sums are rounded.
    const double share = (2 * (static_cast<double>(case_.k) / 8 + 4) + 140) * u;
    for (std::int64_t l = 0; l < case_.batch; ++l) {
      for (std::int64_t i = 0; i < rows(); ++i) {
        for (std::int64_t j = 0; j < columns(); ++j) {
          const auto at = static_cast<std::size_t>((l * rows() + i) * columns() + j);
          inside[static_cast<std::size_t>(d_.at(i, j, l))] = true;
          const double addend = case_.beta != 0 ? case_.beta * in_(i, j, l) : 0;
          const double expected = sums_[at] + addend;
          const double tolerance = share * (magnitudes_[at] + std::fabs(addend)) +
                                   unit * std::fabs(expected) +
                                   gemm_case::smallest_half_step(d_.type) + 1e-30;
          ASSERT_LE(std::fabs(d_(i, j, l) - expected), tolerance)
              << kernel << ": " << describe(case_) << " at " << l << ", " << i << ", " << j
              << ": got " << d_(i, j, l) << ", expected " << expected;
        }
      }
    }
    const auto size = static_cast<std::size_t>(base::bytes(d_.type));
    for (std::size_t i = 0; i < inside.size(); ++i) {
      ASSERT_TRUE(inside[i] || std::equal(d_.host.begin() + static_cast<long>(i * size),
                                          d_.host.begin() + static_cast<long>((i + 1) * size),
                                          untouched_.begin() + static_cast<long>(i * size)))
          << kernel << ": " << describe(case_) << " wrote element " << i << " beside D";
    }
  }

  // The CPU's operation is held to the same bounds.
  void expect_cpu_right() {
    d_.host = untouched_;
    const GemmStatus status = gemm_case::run(arguments(false));
    ASSERT_TRUE(status.ok()) << describe(case_) << ": " << status.message;
    d_.upload();
    expect_right("cpu");
  }

  GemmStatus run(const gemm_core::cuda::GemmPlan& plan) {
    const GemmArguments g = arguments();
    const auto stream = base::cuda::Stream::create();
    const std::size_t bytes = Gemm::workspace_size(g, plan);
    base::cuda::Buffer<std::uint8_t> workspace(bytes);
    Gemm gemm;
    if (auto s = gemm.initialize(g, workspace.data(), bytes, stream.get(), plan); !s.ok()) return s;
    if (auto s = gemm.run(stream.get()); !s.ok()) return s;
    stream.synchronize();
    return {};
  }

 private:
  std::int64_t rows() const { return case_.weights_first ? case_.n : case_.m; }
  std::int64_t columns() const { return case_.weights_first ? case_.m : case_.n; }
  std::int64_t groups_along(std::int64_t extent, std::int64_t group) const {
    return std::max<std::int64_t>(1, (extent + group - 1) / group);
  }
  DenseMatrixCase values(const std::optional<Groups>& g) {
    if (!g) return DenseMatrixCase(1, 1, DType::f32, true, true, 1, random_);
    return DenseMatrixCase(groups_along(case_.n, g->rows), groups_along(case_.k, g->k), g->type,
                           random_() % 2 == 0, case_.aligned, 1, random_);
  }
  GroupedValues grouped(const std::optional<Groups>& g, const DenseMatrixCase& v,
                        bool on_device) const {
    if (!g) return {};
    const auto o = v.operand<GemmOperand>(on_device);
    return case_.weights_first
               ? GroupedValues{o.data, g->type, v.row_stride, v.column_stride, g->rows, g->k}
               : GroupedValues{o.data, g->type, v.column_stride, v.row_stride, g->k, g->rows};
  }
  double weight(std::int64_t row, std::int64_t k, std::int64_t l) const {
    double v = gemm_case::rounded(w_(row, k, l), case_.compute);
    if (case_.scale) {
      const float s = static_cast<float>(scale_(row / case_.scale->rows, k / case_.scale->k, 0));
      v = gemm_case::rounded(static_cast<float>(v) * s, case_.compute);
    }
    if (case_.zero) {
      const float z = static_cast<float>(zero_(row / case_.zero->rows, k / case_.zero->k, 0));
      v = gemm_case::rounded(static_cast<float>(v) + z, case_.compute);
    }
    return v;
  }
  void sum() {
    sums_.assign(static_cast<std::size_t>(case_.batch * case_.m * case_.n), 0);
    magnitudes_ = sums_;
    std::vector<double> w(static_cast<std::size_t>(case_.k));
    for (std::int64_t l = 0; l < case_.batch; ++l) {
      for (std::int64_t n = 0; n < case_.n; ++n) {
        for (std::int64_t k = 0; k < case_.k; ++k) w[static_cast<std::size_t>(k)] = weight(n, k, l);
        for (std::int64_t m = 0; m < case_.m; ++m) {
          const std::int64_t i = case_.weights_first ? n : m, j = case_.weights_first ? m : n;
          const auto at = static_cast<std::size_t>((l * rows() + i) * columns() + j);
          for (std::int64_t k = 0; k < case_.k; ++k) {
            const double product = w[static_cast<std::size_t>(k)] * x_(m, k, l);
            sums_[at] += product;
            magnitudes_[at] += std::fabs(product);
          }
        }
      }
    }
  }

  MixedCase case_;
  std::mt19937 random_;
  DenseMatrixCase w_, x_, in_, d_, scale_, zero_;
  std::vector<std::uint8_t> untouched_;
  std::vector<double> sums_, magnitudes_;
};

std::set<std::string> seen;

void check(const MixedCase& c, unsigned seed, bool with_cpu = false) {
  MixedProblem problem(c, seed);
  if (with_cpu) problem.expect_cpu_right();
  const auto names = gemm_core::cuda::dense_kernel_names(problem.arguments());
  const bool is_empty = c.m == 0 || c.n == 0 || c.batch == 0;
  ASSERT_EQ(names.empty(), is_empty)
      << describe(c) << ": " << Gemm::can_implement(problem.arguments()).message;
  for (const std::string& name : names) {
    seen.insert(name);
    problem.clear();
    const GemmStatus status = problem.run({name, 4});
    ASSERT_TRUE(status.ok()) << name << ": " << describe(c) << ": " << status.message;
    problem.expect_right(name);
    if (testing::Test::HasFatalFailure()) return;
  }
}

const DType kWeights[] = {DType::i8, DType::u8, DType::i4,   DType::u4,  DType::i2,
                          DType::u2, DType::b1, DType::e4m3, DType::e5m2};

TEST(CudaMixedGemm, ConvertsEveryTypeOfWeights) {
  REQUIRE_DEVICE();
  for (const DType weights : kWeights) {
    for (const DType compute : {DType::f16, DType::bf16}) {
      check({.m = 70,
             .n = 300,
             .k = 320,
             .weights = weights,
             .compute = compute,
             .result = DType::f32},
            1, true);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CudaMixedGemm, EveryInstanceIsRightBeyondOneTileAndOneTurn) {
  REQUIRE_HOPPER();
  for (const DType weights : {DType::i8, DType::u4, DType::i2, DType::e4m3}) {
    for (const DType compute : {DType::f16, DType::bf16}) {
      const Groups groups{.type = compute, .k = 128};
      check({.m = 150,
             .n = 600,
             .k = 2080,
             .weights = weights,
             .compute = compute,
             .result = compute,
             .scale = groups,
             .zero = groups},
            2);
      if (HasFatalFailure()) return;
    }
  }
  for (const auto* instance : gemm_core::cuda::mixed_instances())
    EXPECT_TRUE(seen.contains(instance->name)) << instance->name << " was not run";
}

TEST(CudaMixedGemm, AppliesScalesAndZeroPointsOfAnyGroups) {
  REQUIRE_DEVICE();
  constexpr std::int64_t kGroups[] = {1, 7, 16, 32, 64, 96, 128, 256, 300, 1000};
  std::mt19937 random(4);
  for (const std::int64_t k_group : kGroups) {
    for (const DType weights : {DType::i4, DType::u8, DType::u2, DType::e5m2}) {
      const DType compute = random() % 2 ? DType::f16 : DType::bf16;
      constexpr DType kTypes[] = {DType::f16, DType::bf16, DType::f32};
      MixedCase c{
          .m = 20, .n = 100, .k = 300, .weights = weights, .compute = compute, .result = compute};
      const auto type = [&] { return random() % 2 ? compute : kTypes[random() % 3]; };
      const auto rows = [&] { return static_cast<std::int64_t>(1 + random() % 3 * 31); };
      if (random() % 3 != 0) c.scale = Groups{type(), rows(), k_group};
      if (random() % 3 != 0 || !c.scale)
        c.zero = Groups{type(), rows(), random() % 2 ? k_group : 64};
      c.weights_first = random() % 2;
      check(c, static_cast<unsigned>(random()), true);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CudaMixedGemm, EqualsTheDefinitionOnRandomShapes) {
  REQUIRE_DEVICE();
  constexpr std::int64_t kExtents[] = {0,  1,  2,   3,   5,   8,   16,  31, 64,
                                       65, 97, 127, 128, 129, 200, 257, 510};
  std::mt19937 random(5);
  const auto extent = [&] { return kExtents[random() % std::size(kExtents)]; };
  for (int round = 0; round < 60; ++round) {
    for (const DType weights : kWeights) {
      MixedCase c{.m = extent() / 2, .n = extent(), .k = extent(), .weights = weights};
      c.compute = random() % 2 ? DType::f16 : DType::bf16;
      c.result = random() % 2 ? DType::f32 : c.compute;
      c.batch = random() % 4 == 0 ? 3 : 1;
      c.weights_first = random() % 2;
      c.aligned = random() % 4 != 0 || base::bits(weights) < 8;
      c.beta = random() % 3 == 0 ? 0.5 : 0;
      if (random() % 2)
        c.scale = Groups{random() % 3 ? c.compute : DType::f32, 1, random() % 2 ? 64 : 128};
      if (random() % 2) c.zero = Groups{c.compute, 1, 128};
      check(c, static_cast<unsigned>(random()));
      if (HasFatalFailure()) return;
    }
  }
}

// Small enough for the sanitizers: every way a kernel can go.
TEST(CudaMixedGemm, SmallCasesForSanitizers) {
  REQUIRE_DEVICE();
  for (const DType weights : {DType::i4, DType::i8, DType::i2, DType::e4m3}) {
    MixedCase c{.m = 40, .n = 100, .k = 520, .weights = weights, .scale = Groups{}};
    if (weights == DType::i4) c.zero = Groups{.type = DType::f32, .k = 64};
    c.how = kernel::Decomposition::split_k;
    c.splits = 2;
    c.weights_first = weights == DType::i2;
    check(c, 9);
    if (HasFatalFailure()) return;
  }
}

TEST(CudaMixedGemm, CutSumsAreRightAndTheSameInEveryRun) {
  REQUIRE_HOPPER();
  using kernel::Decomposition;
  for (const auto& [how, splits] :
       {std::pair{Decomposition::split_k, 5}, std::pair{Decomposition::stream_k, 1},
        std::pair{Decomposition::heuristic, 1}}) {
    MixedProblem problem(
        {.m = 33, .n = 700, .k = 4200, .scale = Groups{}, .how = how, .splits = splits}, 6);
    const GemmArguments g = problem.arguments();
    for (const std::string& name : gemm_core::cuda::dense_kernel_names(g)) {
      const auto stream = base::cuda::Stream::create();
      const std::size_t bytes = Gemm::workspace_size(g, {name, 4});
      base::cuda::Buffer<std::uint8_t> workspace(bytes);
      Gemm gemm;
      ASSERT_TRUE(gemm.initialize(g, workspace.data(), bytes, stream.get(), {name, 4}).ok());
      std::vector<std::uint8_t> first;
      for (int repeat = 0; repeat < 200; ++repeat) {
        problem.clear();
        ASSERT_TRUE(gemm.run(stream.get()).ok());
        stream.synchronize();
        if (repeat == 0) {
          problem.expect_right(name);
          first = problem.result();
        }
        ASSERT_EQ(first, problem.result()) << name << " repeat " << repeat;
      }
    }
  }
}

}  // namespace
}  // namespace cuda_tests

// Products of many sizes in one launch, against the CPU's.
#include <gtest/gtest.h>

#include <memory>

#include "tests/cuda/dense_case.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using gemm_core::cuda::GroupedGemm;
using Problems = std::vector<std::unique_ptr<DenseProblem>>;

std::vector<GemmArguments> arguments_of(const Problems& problems) {
  std::vector<GemmArguments> groups;
  for (const auto& p : problems) groups.push_back(p->arguments());
  return groups;
}

// Twice, through a captured graph the second time.
void expect_right(Problems& problems, std::size_t launches) {
  const auto groups = arguments_of(problems);
  const auto stream = base::cuda::Stream::create();
  const std::size_t bytes = GroupedGemm::workspace_size(groups);
  base::cuda::Buffer<std::uint8_t> workspace(bytes);
  GroupedGemm grouped;
  const GemmStatus status = grouped.initialize(groups, workspace.data(), bytes, stream.get());
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(grouped.launches(), launches);
  const auto graph =
      base::cuda::Graph::capture(stream.get(), [&] { (void)grouped.run(stream.get()); });
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (auto& p : problems) p->clear_result();
    if (repeat == 0)
      ASSERT_TRUE(grouped.run(stream.get()).ok());
    else
      graph.launch(stream.get());
    stream.synchronize();
    for (auto& p : problems) {
      p->d().download();
      p->expect_right(grouped.kernel_name());
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

Problems make(const std::vector<DenseCase>& cases) {
  Problems problems;
  unsigned seed = 1;
  for (const DenseCase& c : cases) {
    problems.push_back(std::make_unique<DenseProblem>(c, seed++));
    problems.back()->compute_expected();
  }
  return problems;
}

TEST(CudaGroupedGemm, RunsGroupsOfEverySizeInOneLaunch) {
  REQUIRE_HOPPER();
  const DenseTypes f16{DType::f16, DType::f16, DType::f16, DType::f16, DType::f16},
      bf16{DType::bf16, DType::bf16, DType::bf16, DType::bf16, DType::f32},
      e4m3{DType::e4m3, DType::e4m3, DType::e4m3, DType::f16, DType::bf16};
  for (const DenseTypes& types : {f16, bf16, e4m3}) {
    for (const bool b_rows : {false, true}) {
      if (b_rows && types.compute == DType::e4m3) continue;  // WGMMA wants K-major fp8
      std::vector<DenseCase> cases;
      std::mt19937 random(4);
      for (const std::int64_t m : {0, 1, 70, 128, 129, 300, 2000})
        for (const std::int64_t k : {16, 64, 200, 640}) {
          DenseCase c{.m = m,
                      .n = std::int64_t{8} + static_cast<std::int64_t>(random() % 40) * 8,
                      .k = k,
                      .types = types,
                      .b_rows = b_rows};
          c.beta = random() % 4 == 0 ? 0.5 : 0;
          cases.push_back(c);
        }
      Problems problems = make(cases);
      expect_right(problems, 1);
      if (HasFatalFailure()) return;
    }
  }
}

// What the common instance cannot take runs in launches of its own: no k, odd strides, other types.
TEST(CudaGroupedGemm, TakesWhatOneInstanceCannot) {
  REQUIRE_HOPPER();
  const DenseTypes f32{DType::f32, DType::f32, DType::f32, DType::f32, DType::f32};
  Problems problems = make({{.m = 300, .n = 200, .k = 128},
                            {.m = 300, .n = 200, .k = 0, .beta = 2},
                            {.m = 100, .n = 100, .k = 100, .aligned = false},
                            {.m = 100, .n = 100, .k = 100, .types = f32},
                            {.m = 0, .n = 100, .k = 100},
                            {.m = 500, .n = 100, .k = 64}});
  expect_right(problems, 4);
  EXPECT_TRUE(GroupedGemm().initialize({}, nullptr, 0, nullptr).ok());
}

TEST(CudaGroupedGemm, NamesTheGroupItRefuses) {
  REQUIRE_DEVICE();
  Problems problems = make({{}, {}, {}});
  auto groups = arguments_of(problems);
  groups[2].a.data = nullptr;
  const GemmStatus status = GroupedGemm::can_implement(groups);
  EXPECT_EQ(status.code, GemmStatus::Code::null_operand);
  EXPECT_NE(status.message.find("group 2 of 3"), std::string::npos) << status.message;
  groups = arguments_of(problems);
  groups[1].batch = 2;
  EXPECT_EQ(GroupedGemm::can_implement(groups).code, GemmStatus::Code::unsupported);
  groups[1].batch = 1;
  EXPECT_EQ(GroupedGemm().initialize(groups, nullptr, 0, nullptr).code,
            GroupedGemm::workspace_size(groups) > 0 ? GemmStatus::Code::small_workspace
                                                    : GemmStatus::Code::success);
  EXPECT_EQ(GroupedGemm().run(nullptr).code, GemmStatus::Code::not_initialized);
}

}  // namespace
}  // namespace cuda_tests

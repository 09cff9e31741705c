// Configurations, the cost model's choice, and tuning tables.
#include "gemm_core/device/gemm_config.hpp"

#include <array>
#include <fstream>
#include <set>

#include "gemm_core/base/error.hpp"
#include "tests/gemm_core/gemm_case.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

using namespace gemm_case;  // NOLINT: a test file
using gemm_core::GemmConfig;
using gemm_core::TuningTable;

TEST(GemmConfig, EveryOneHasANameOfItsOwnAndGivesTheResultWithinRounding) {
  for (const DType type : {DType::f32, DType::bf16, DType::i8}) {
    const Case c{.m = 60,
                 .n = 150,
                 .k = 1100,
                 .a = type,
                 .b = type,
                 .d = type == DType::i8 ? DType::i32 : DType::f32,
                 .compute = type};
    Problem p(c);
    std::set<std::string> names;
    for (const GemmConfig& config : gemm_core::gemm_configs(p.arguments())) {
      EXPECT_TRUE(names.insert(config.name).second) << config.name;
      GemmArguments g = p.arguments();
      gemm_core::apply(config, g);
      const GemmStatus status = run(g);
      ASSERT_TRUE(status.ok()) << config.name << ": " << status.message;
      expect_equal_to_oracle(p, c);
      EXPECT_GT(gemm_core::estimate_ns(config, g), 0);
    }
    EXPECT_GE(names.size(), 16u);
  }
}

TEST(GemmConfig, TheModelCutsSmallProblemsFinerAndLongSumsWhereItMay) {
  const auto select = [](std::int64_t m, std::int64_t n, std::int64_t k, bool may_split) {
    GemmArguments g{.m = m, .n = n, .k = k};
    return gemm_core::select_config(g, may_split);
  };
  const GemmConfig large = select(4096, 4096, 1024, false), small = select(96, 512, 256, false);
  EXPECT_GT(large.tiling.tile_m * large.tiling.tile_n, small.tiling.tile_m * small.tiling.tile_n);
  EXPECT_NE(select(64, 64, 100000, true).schedule.decomposition,
            kernel::Decomposition::data_parallel);
  EXPECT_EQ(select(64, 64, 100000, false).schedule.decomposition,
            kernel::Decomposition::data_parallel);
  EXPECT_EQ(select(4096, 4096, 1024, true).schedule.decomposition,
            kernel::Decomposition::data_parallel);
}

TEST(GemmConfig, AGemmWithoutATilingTakesTheModelsAndHasTheBitsOfEveryOther) {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{200, 300, 520}, std::array<std::int64_t, 3>{1000, 40, 64},
        std::array<std::int64_t, 3>{5, 700, 30}}) {
    const Case c{.m = m, .n = n, .k = k, .beta = 0.5};
    Problem open(c), given(c);
    const GemmArguments left_open = open.arguments();
    const auto tiling = gemm_core::select_tiling(left_open);
    EXPECT_EQ(tiling.tile_m, gemm_core::select_config(left_open).tiling.tile_m);
    EXPECT_EQ(tiling.tile_n, gemm_core::select_config(left_open).tiling.tile_n);
    ASSERT_TRUE(run(left_open).ok());
    expect_equal_to_oracle(open, c);
    GemmArguments g = given.arguments();
    g.tiling = {.tile_m = 48, .tile_n = 128};
    EXPECT_EQ(gemm_core::select_tiling(g).tile_m, 48);  // what is given stays
    EXPECT_EQ(gemm_core::select_tiling(g).tile_n, 128);
    ASSERT_TRUE(run(g).ok());
    EXPECT_EQ(open.d.bytes, given.d.bytes) << describe(c);
  }
  GemmArguments wide{.m = 500, .n = 500, .k = 500};
  wide.compute = DType::f64;
  EXPECT_EQ(gemm_core::select_tiling(wide).tile_m, 0);
}

TEST(TuningTable, IsWrittenReadAndUsedForItsProblemsOnly) {
  const test_support::ScratchFolder folder;
  GemmArguments known{.m = 100, .n = 64, .k = 2000}, other{.m = 101, .n = 64, .k = 2000};
  TuningTable table;
  table.set(known, "24x128_split_4");
  table.write(folder.path() / "cpu.tuning");
  const TuningTable read = TuningTable::read(folder.path() / "cpu.tuning");
  EXPECT_EQ(read.size(), 1u);
  EXPECT_EQ(read.select(known).name, "24x128_split_4");
  EXPECT_EQ(read.select(known).schedule.splits, 4);
  EXPECT_EQ(read.select(other).name, gemm_core::select_config(other).name);
  table.set(known, "no such configuration");
  EXPECT_EQ(table.select(known).name, gemm_core::select_config(known).name);
}

TEST(TuningTable, RefusesWhatIsNoTableByFileAndLine) {
  const test_support::ScratchFolder folder;
  const auto path = folder.path() / "bad.tuning";
  std::ofstream(path) << "# fine\nno tab here\n";
  try {
    TuningTable::read(path);
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("bad.tuning: line 2"), std::string::npos) << e.what();
  }
  EXPECT_THROW(TuningTable::read(folder.path() / "absent"), base::Error);
}

}  // namespace

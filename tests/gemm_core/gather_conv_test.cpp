#include "gemm_core/device/gather_conv.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "gemm_core/base/parallel.hpp"
#include "tests/gemm_core/gather_conv_run.hpp"

namespace {

using base::DType;
using gemm_core_test::check;
using gemm_core_test::constant;
using gemm_core_test::ConvCase;
using gemm_core_test::ConvProblem;
using gemm_core_test::describe;
using gemm_core_test::element;
using gemm_core_test::expect_equal_to_oracle;
using gemm_core_test::pack;
using gemm_core_test::run;
using gemm_core_test::set_element;

TEST(GatherConv, EqualsTheDefinitionForEveryPairOfChannelCounts) {
  for (const std::int64_t cin : {1, 2, 3, 4, 5, 6, 8, 16, 17, 33}) {
    for (const std::int64_t cout : {1, 3, 5, 6, 8, 15, 16, 17, 18, 31, 32, 33, 40, 64, 65}) {
      check({.rows = 23, .cin = cin, .cout = cout, .taps = 3});
    }
  }
  for (const std::int64_t c : {96, 130, 256, 512}) {
    check({.rows = 13, .cin = c, .cout = c, .taps = 3});
    check({.rows = 13, .cin = 3, .cout = c, .taps = 3});
    check({.rows = 13, .cin = c, .cout = 3, .taps = 3});
  }
}

TEST(GatherConv, EqualsTheDefinitionForEveryRowCount) {
  for (std::int64_t rows = 0; rows <= 40; ++rows)
    check({.rows = rows, .cin = 7, .cout = 19, .taps = 5});
  check({.rows = 1000, .cin = 9, .cout = 33, .taps = 4});
}

TEST(GatherConv, EqualsTheDefinitionForEveryTapCount) {
  for (const std::int64_t taps : {1, 2, 8, 27, 32, 33, 64, 125, 343}) {
    check({.rows = 21, .cin = 5, .cout = 11, .taps = taps});
    check({.rows = 21, .cin = 20, .cout = 11, .taps = taps});
  }
}

TEST(GatherConv, EqualsTheDefinitionForEveryDensity) {
  for (const double density : {0.0, 0.02, 0.5, 1.0}) {
    check({.rows = 700, .cin = 16, .cout = 16, .taps = 27, .density = density});
    check({.rows = 70, .cin = 3, .cout = 32, .taps = 27, .density = density});
  }
}

TEST(GatherConv, EqualsTheDefinitionForGroupsAndDepthwise) {
  for (const std::int64_t groups : {2, 3, 5}) {
    for (const std::int64_t per_group : {1, 4, 9, 17}) {
      check(
          {.rows = 33, .cin = groups * per_group, .cout = groups * 6, .taps = 5, .groups = groups});
    }
  }
  for (const std::int64_t channels : {2, 7, 8, 33, 64}) {
    check({.rows = 100, .cin = channels, .cout = channels, .taps = 27, .groups = channels});
  }
}

TEST(GatherConv, RoundsOperandsToTheComputeTypeAndTheResultOnce) {
  for (const DType in : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType out : {DType::f32, DType::f16, DType::bf16}) {
      for (const DType compute : {DType::f32, DType::tf32, DType::f16, DType::bf16}) {
        for (const std::int64_t c : {1, 3, 17, 64}) {
          check({.cin = c, .cout = c, .taps = 9, .in = in, .out = out, .compute = compute});
        }
        check({.cin = 12,
               .cout = 12,
               .taps = 9,
               .groups = 12,
               .in = in,
               .out = out,
               .compute = compute});
      }
    }
  }
}

TEST(GatherConv, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const ConvCase& c :
       {ConvCase{.rows_in = 3000, .rows = 3001, .cin = 40, .cout = 24},
        ConvCase{.rows_in = 3000, .rows = 2999, .cin = 4, .cout = 32},
        ConvCase{.rows_in = 900, .rows = 900, .cin = 16, .cout = 16, .groups = 16}}) {
    const ConvProblem p(c);
    const auto weights = pack(p);
    base::Threads(1).run([&] { run(p, weights); });
    const auto once = p.output.storage;
    for (const int threads : {2, 3, 7}) {
      base::Threads(threads).run([&] { run(p, weights); });
      EXPECT_EQ(once, p.output.storage) << describe(c) << " with " << threads << " threads";
    }
  }
}

TEST(GatherConv, AgreesOnEveryInstructionSetOfThisMachine) {
  const auto all = gemm_core::supported_cpu_atoms();
  ASSERT_FALSE(all.empty());
  for (const gemm_core::CpuAtoms* atoms : all) {
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      for (const std::int64_t c : {1, 5, 16, 33, 70}) {
        const ConvProblem p(
            {.cin = c, .cout = c, .taps = 9, .in = type, .out = type, .compute = type});
        run(p, pack(p, *atoms));
        expect_equal_to_oracle(p, base::concat(atoms->name, " ", describe(p.c)));
      }
    }
  }
}

TEST(GatherConv, LeavesEverythingOutsideItsOutputAlone) {
  const ConvProblem p({.rows = 50, .cin = 6, .cout = 21});
  run(p, pack(p));
  const auto* values = reinterpret_cast<const std::uint32_t*>(p.output.storage.data());
  EXPECT_EQ(values[0], 0xffffffffu);
  for (std::int64_t i = 0; i < p.c.rows; ++i) {
    for (std::int64_t j = p.c.cout; j < p.output.view.stride[0]; ++j) {
      EXPECT_EQ(values[1 + i * p.output.view.stride[0] + j], 0xffffffffu)
          << "row " << i << " column " << j;
    }
  }
}

TEST(GatherConv, WithoutNeighboursIsADenseProduct) {
  for (const std::int64_t k : {1, 8, 65, 300, 700}) {
    ConvProblem p({.rows_in = 77, .rows = 77, .cin = k, .cout = 35, .taps = 1});
    for (std::int64_t i = 0; i < 77; ++i)
      p.neighbours[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
    const auto weights = pack(p);
    gemm_core::gather_conv({.input = constant(p.input.view),
                            .rows = 77,
                            .weights = &weights,
                            .output = p.output.view});
    expect_equal_to_oracle(p, describe(p.c));
  }
}

TEST(GatherConv, OneVoxelIsItsCentreTapExactly) {
  ConvProblem p({.rows_in = 1, .rows = 1, .cin = 1, .cout = 4, .taps = 27, .density = 0});
  p.neighbours[13] = 0;
  const float shift[4] = {1, 2, 3, 4};
  gemm_core::Epilogue epilogue;
  epilogue.scale_shift(nullptr, shift);
  run(p, pack(p), epilogue);
  for (std::int64_t n = 0; n < 4; ++n) {
    const float product =
        element(constant(p.input.view), 0, 0) * p.weight[static_cast<std::size_t>(n * 27 + 13)];
    EXPECT_EQ(element(constant(p.output.view), 0, n), product + shift[n]);
  }
}

TEST(GatherConv, KeepsValuesExactWhereTf32WasNotAskedFor) {
  ConvProblem p({.rows_in = 30, .rows = 30, .cin = 20, .cout = 20, .taps = 1});
  for (std::int64_t i = 0; i < 30; ++i) {
    p.neighbours[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
    for (std::int64_t j = 0; j < 20; ++j)
      set_element(p.input.view, i, j, 500.0f + 0.001f * static_cast<float>(i * 20 + j));
  }
  std::fill(p.weight.begin(), p.weight.end(), 0.0f);
  for (std::size_t j = 0; j < 20; ++j) p.weight[j * 20 + j] = 1.0f;
  run(p, pack(p));
  for (std::int64_t i = 0; i < 30; ++i) {
    for (std::int64_t j = 0; j < 20; ++j) {
      EXPECT_EQ(element(constant(p.output.view), i, j), element(constant(p.input.view), i, j));
    }
  }
}

TEST(GatherConv, LargeHalfPrecisionSumsStayFinite) {
  for (const auto& [cin, taps, scale] : {std::tuple{512, 27, 30.0f}, std::tuple{256, 343, 8.0f}}) {
    ConvProblem p({.rows_in = 40,
                   .rows = 6,
                   .cin = cin,
                   .cout = 5,
                   .taps = taps,
                   .density = 1,
                   .in = DType::f16,
                   .out = DType::f16,
                   .compute = DType::f16});
    for (std::int64_t i = 0; i < 40; ++i) {
      for (std::int64_t j = 0; j < cin; ++j) {
        set_element(p.input.view, i, j, scale * element(constant(p.input.view), i, j));
      }
    }
    for (float& w : p.weight) w /= std::sqrt(static_cast<float>(cin * taps));
    run(p, pack(p));
    expect_equal_to_oracle(p, describe(p.c));
    EXPECT_TRUE(std::isfinite(element(constant(p.output.view), 0, 0)));
  }
}

}  // namespace

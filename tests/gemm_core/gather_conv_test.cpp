#include "gemm_core/device/gather_conv.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "gemm_core/base/parallel.hpp"
#include "gemm_core/collective/cpu_packed_weights.hpp"
#include "tests/gemm_core/gather_conv_oracle.hpp"

namespace {

using base::DType;
using gemm_core_test::constant;
using gemm_core_test::ConvCase;
using gemm_core_test::ConvProblem;
using gemm_core_test::element;
using gemm_core_test::set_element;

std::string describe(const ConvCase& c) {
  return base::concat("rows ", c.rows, " cin ", c.cin, " cout ", c.cout, " taps ", c.taps,
                      " groups ", c.groups, " ", base::name(c.in), " -> ", base::name(c.compute),
                      " -> ", base::name(c.out));
}

gemm_core::PackedConvWeights pack(const ConvProblem& p,
                                  const gemm_core::CpuAtoms& atoms = gemm_core::cpu_atoms()) {
  return gemm_core::pack_conv_weights_for(atoms, {.weight = p.weight.data(),
                                                  .cout = p.c.cout,
                                                  .taps = p.c.taps,
                                                  .cin = p.c.cin,
                                                  .groups = p.c.groups,
                                                  .compute = p.c.compute});
}

void run(const ConvProblem& p, const gemm_core::PackedConvWeights& weights,
         const gemm_core::Epilogue& epilogue = {}) {
  gemm_core::gather_conv({.input = constant(p.input.view),
                          .neighbours = p.neighbours.data(),
                          .rows = p.c.rows,
                          .weights = &weights,
                          .epilogue = epilogue,
                          .output = p.output.view});
}

void expect_equal_to_oracle(const ConvProblem& p, const std::string& what) {
  double worst = 0;
  for (std::int64_t i = 0; i < p.c.rows; ++i) {
    for (std::int64_t n = 0; n < p.c.cout; ++n) {
      const auto sum = p.expected(i, n);
      const double got = element(constant(p.output.view), i, n);
      worst = std::max(worst, std::fabs(got - sum.value) / p.tolerance(sum));
      ASSERT_LE(std::fabs(got - sum.value), p.tolerance(sum))
          << what << ": row " << i << " channel " << n << " got " << got << " expected "
          << sum.value;
    }
  }
  ::testing::Test::RecordProperty("worst_share_of_tolerance", std::to_string(worst));
}

void check(const ConvCase& c) {
  const ConvProblem p(c);
  run(p, pack(p));
  expect_equal_to_oracle(p, describe(c));
}

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

TEST(GatherConv, NoInputRowsGiveTheEpilogueOfZero) {
  const ConvProblem p({.rows_in = 0, .rows = 9, .cin = 5, .cout = 3});
  const float shift[3] = {7, 8, 9};
  gemm_core::Epilogue epilogue;
  epilogue.scale_shift(nullptr, shift);
  run(p, pack(p), epilogue);
  for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(element(constant(p.output.view), i, 1), 8.0f);
}

TEST(GatherConv, RunsTheEpilogueOnTheFp32SumForEveryTypeOfResidual) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const auto activation : {gemm_core::Activation::identity, gemm_core::Activation::relu,
                                  gemm_core::Activation::leaky_relu}) {
      const ConvProblem plain({.rows = 300, .cin = 12, .cout = 37, .taps = 5});
      const ConvProblem fused(plain.c);
      const gemm_core_test::Matrix residual(300, 37, type, 45, 2);
      std::vector<float> scale(37), shift(37);
      for (std::size_t n = 0; n < 37; ++n) {
        scale[n] = 0.05f * static_cast<float>(n) - 0.9f;
        shift[n] = 1.0f - 0.1f * static_cast<float>(n);
      }
      for (std::int64_t i = 0; i < 300; ++i) {
        for (std::int64_t n = 0; n < 37; ++n) {
          set_element(residual.view, i, n,
                      static_cast<float>(i - 150) * 0.01f + static_cast<float>(n));
        }
      }
      run(plain, pack(plain));
      gemm_core::Epilogue epilogue;
      epilogue.scale_shift(scale.data(), shift.data())
          .add(constant(residual.view))
          .activate(activation, 0.25f);
      run(fused, pack(fused), epilogue);
      for (std::int64_t i = 0; i < 300; ++i) {
        for (std::int64_t n = 0; n < 37; ++n) {
          const auto j = static_cast<std::size_t>(n);
          float v = std::fma(element(constant(plain.output.view), i, n), scale[j], shift[j]) +
                    element(constant(residual.view), i, n);
          if (v < 0 && activation == gemm_core::Activation::relu) v = 0;
          if (v < 0 && activation == gemm_core::Activation::leaky_relu) v *= 0.25f;
          // Two roundings apart where the target has no fused multiply-add.
          ASSERT_NEAR(element(constant(fused.output.view), i, n), v, 1e-5f * (1 + std::fabs(v)))
              << i << ", " << n;
        }
      }
    }
  }
}

TEST(GatherConv, WritesASliceOfAConcatenation) {
  const ConvProblem first({.rows = 60, .cin = 9, .cout = 16, .taps = 3}),
      second({.rows = 60, .cin = 9, .cout = 11, .taps = 3}, 2);
  run(first, pack(first));
  run(second, pack(second));
  std::vector<float> both(60 * 27, -1.0f);
  for (const auto& [p, column] : {std::pair{&first, 0}, std::pair{&second, 16}}) {
    const auto weights = pack(*p);
    gemm_core::gather_conv(
        {.input = constant(p->input.view),
         .neighbours = p->neighbours.data(),
         .rows = 60,
         .weights = &weights,
         .output = {both.data() + column, DType::f32, {}, {60, p->c.cout}, {27, 1}}});
  }
  for (std::int64_t i = 0; i < 60; ++i) {
    for (std::int64_t n = 0; n < 27; ++n) {
      const float want = n < 16 ? element(constant(first.output.view), i, n)
                                : element(constant(second.output.view), i, n - 16);
      EXPECT_EQ(both[static_cast<std::size_t>(i * 27 + n)], want);
    }
  }
}

// Rows 2^29 floats apart: the sixth lies past 2^33 bytes. Only the touched pages exist.
TEST(GatherConv, ReachesRowsFarPast2To31Bytes) {
  constexpr std::int64_t kPitch = std::int64_t{1} << 29, kRows = 6, kChannels = 20;
  const std::size_t bytes = static_cast<std::size_t>((kRows + 1) * kPitch * 4);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) GTEST_SKIP() << "no address space for " << bytes << " bytes";
  float* far = static_cast<float*>(mapped);
  const ConvProblem p({.rows_in = kRows,
                       .rows = kRows,
                       .cin = kChannels,
                       .cout = kChannels,
                       .taps = 4,
                       .density = 0.8});
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kChannels; ++j)
      far[i * kPitch + j] = element(constant(p.input.view), i, j);
  }
  run(p, pack(p));
  const auto weights = pack(p);
  gemm_core::gather_conv(
      {.input = {far, DType::f32, {}, {kRows, kChannels}, {kPitch, 1}},
       .neighbours = p.neighbours.data(),
       .rows = kRows,
       .weights = &weights,
       .output = {far + kPitch / 2, DType::f32, {}, {kRows, kChannels}, {kPitch, 1}}});
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kChannels; ++j) {
      EXPECT_EQ(far[i * kPitch + kPitch / 2 + j], element(constant(p.output.view), i, j));
    }
  }
  munmap(mapped, bytes);
}

void expect_error(const std::function<void()>& action, const std::vector<std::string>& words) {
  try {
    action();
    FAIL() << "no error, expected one about " << words.front();
  } catch (const base::Error& error) {
    for (const auto& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(GatherConv, RefusesWhatDoesNotFitAndNamesIt) {
  const ConvProblem p({.rows = 9, .cin = 5, .cout = 3});
  const auto weights = pack(p);
  const gemm_core::GatherConvArguments good{.input = constant(p.input.view),
                                            .neighbours = p.neighbours.data(),
                                            .rows = 9,
                                            .weights = &weights,
                                            .output = p.output.view};
  gemm_core::gather_conv(good);
  auto bad = good;
  bad.input.shape[1] = 6;
  expect_error([&] { gather_conv(bad); }, {"input", "6", "5"});
  bad = good;
  bad.output.shape[0] = 8;
  expect_error([&] { gather_conv(bad); }, {"output", "8 rows", "9"});
  bad = good;
  bad.output.stride[0] = 2;
  expect_error([&] { gather_conv(bad); }, {"output", "stride 2"});
  bad = good;
  bad.input.dtype = DType::i32;
  expect_error([&] { gather_conv(bad); }, {"input", "int32"});
  bad = good;
  bad.neighbours = nullptr;
  expect_error([&] { gather_conv(bad); }, {"27 taps", "neighbour"});
  bad = good;
  bad.weights = nullptr;
  expect_error([&] { gather_conv(bad); }, {"weights"});
  bad = good;
  bad.epilogue.add(constant(p.input.view));
  expect_error([&] { gather_conv(bad); }, {"node 0", "[9, 3]"});
  expect_error(
      [&] {
        gemm_core::pack_conv_weights({.weight = p.weight.data(), .cout = 4, .cin = 5, .groups = 2});
      },
      {"cin 5", "groups 2"});
}

}  // namespace

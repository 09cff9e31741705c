// Where the results of a gathered convolution go: through an epilogue, into a slice of a
// concatenation, far away; and what is refused.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/gemm_core/gather_conv_run.hpp"

namespace {

using base::DType;
using gemm_core_test::constant;
using gemm_core_test::ConvProblem;
using gemm_core_test::element;
using gemm_core_test::pack;
using gemm_core_test::run;
using gemm_core_test::set_element;

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

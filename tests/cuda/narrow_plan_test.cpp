// How plans become those of 8-bit inference; no device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gemm_core/device/cuda/gather/gather_conv.hpp"
#include "sparseconv/cuda/narrow_check.hpp"
#include "sparseconv/cuda/narrow_plan.hpp"
#include "sparseconv/cuda/shortcut_plan.hpp"
#include "tests/cuda/narrow_case.hpp"
#include "tests/cuda/narrow_oracle.hpp"

namespace cuda_tests {
namespace {

using base::DType;
using namespace sparseconv;

TEST(NarrowPlan, KeepsTheInputAndTheScoresWide) {
  cuda::DeviceSteps plan(make_plan(network("minkunet42")));
  cuda::merge_shortcuts(plan);
  cuda::choose_narrow_buffers(plan);
  EXPECT_FALSE(plan.is_narrow[static_cast<std::size_t>(plan.input.buffer)]);
  for (const PlanOutput& output : plan.outputs)
    EXPECT_FALSE(plan.is_narrow[static_cast<std::size_t>(output.value.buffer)]);
  int narrow = 0, wide = 0;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (!plan.extras[s].is_absorbed)
      ++(cuda::multiplies_narrow(plan, plan.steps[s]) ? narrow : wide);
  }
  EXPECT_EQ(wide, 1) << "the first convolution reads the input";
  EXPECT_GT(narrow, 40);
}

// A merged step in f16 has no kernel with 8-bit results or additions.
TEST(NarrowPlan, StepsThatMergeHalvesWriteAndAddHalves) {
  cuda::DeviceSteps plan(make_plan(network("minkunet42")));
  cuda::merge_shortcuts(plan);
  const auto merged =
      std::find_if(plan.extras.begin(), plan.extras.end(),
                   [](const cuda::StepExtras& extras) { return extras.own_weight.defined(); });
  ASSERT_NE(merged, plan.extras.end());
  const PlanStep& step = plan.steps[static_cast<std::size_t>(merged - plan.extras.begin())];
  plan.outputs.push_back({.value = step.inputs[1]});  // outputs are wide
  cuda::choose_narrow_buffers(plan);
  for (const PlanSlice& slice : {step.inputs[0], step.inputs[1], step.output})
    EXPECT_FALSE(plan.is_narrow[static_cast<std::size_t>(slice.buffer)]);
}

TEST(NarrowPlan, ScalesLeaveRoomAndArePowersOfTwo) {
  cuda::DeviceSteps plan(make_plan(network("minkunet18")));
  cuda::choose_narrow_buffers(plan);
  std::vector<float> largest;
  for (std::size_t s = 0; s < plan.steps.size(); ++s)
    largest.push_back(0.01f * static_cast<float>(s + 1));
  const auto scales = cuda::narrow_scales(plan, largest, DType::e4m3),
             of_i8 = cuda::narrow_scales(plan, largest, DType::i8);
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanSlice& to = plan.steps[s].output;
    const auto b = static_cast<std::size_t>(to.buffer), c = static_cast<std::size_t>(to.channel);
    int exponent = 0;
    EXPECT_EQ(std::frexp(scales[b][c], &exponent), 0.5f);
    if (plan.is_narrow[b]) {
      EXPECT_LE(2 * largest[s] / scales[b][c], 448);
      EXPECT_LE(largest[s] / of_i8[b][c], 127.001f);
      for (std::int64_t i = 1; i < to.channels; ++i)
        EXPECT_EQ(scales[b][c + static_cast<std::size_t>(i)], scales[b][c]);
    } else {
      EXPECT_EQ(scales[b][c], 1);
      EXPECT_EQ(of_i8[b][c], 1);
    }
  }
}

// With one scale for both, the first features of a network whose values grow would be zeros all.
TEST(NarrowPlan, PartsOfAConcatenationHaveScalesOfTheirOwn) {
  cuda::DeviceSteps plan(make_plan(network("spunet")));
  cuda::choose_narrow_buffers(plan);
  const auto step_of = [&](const std::string& node) {
    const auto found = std::find_if(plan.steps.begin(), plan.steps.end(),
                                    [&](const PlanStep& step) { return step.node == node; });
    EXPECT_NE(found, plan.steps.end()) << node;
    return static_cast<std::size_t>(found - plan.steps.begin());
  };
  const std::size_t stem = step_of("stem0.relu"), up = step_of("up3.relu");
  ASSERT_EQ(plan.steps[stem].output.buffer, plan.steps[up].output.buffer);
  std::vector<float> largest(plan.steps.size(), 1.f);
  largest[stem] = 0.004f;
  largest[up] = 2000;
  const auto scales = cuda::narrow_scales(plan, largest, DType::i8);
  const auto scale_of = [&](std::size_t s) {
    const PlanSlice& to = plan.steps[s].output;
    return scales[static_cast<std::size_t>(to.buffer)][static_cast<std::size_t>(to.channel)];
  };
  EXPECT_FLOAT_EQ(scale_of(stem), 0.004f / 127);
  EXPECT_FLOAT_EQ(scale_of(up), 2000.f / 127);
  // Who reads both multiplies the smaller part by less.
  const std::size_t reader = step_of("dec3.0.0.relu");
  const PlanSlice& both = plan.steps[reader].inputs[0];
  ASSERT_EQ(both.channels, 96 + 32);
  const base::Tensor before = plan.steps[reader].weight;
  cuda::scale_weights(plan, reader, scales);
  const base::Tensor& after = plan.steps[reader].weight;
  for (std::int64_t i = 0; i < before.numel(); ++i) {
    const bool is_of_stem = both.channel + i % both.channels >= plan.steps[stem].output.channel &&
                            both.channel + i % both.channels <
                                plan.steps[stem].output.channel + plan.steps[stem].output.channels;
    ASSERT_FLOAT_EQ(after.data<float>()[i], before.data<float>()[i] * (is_of_stem ? 2e-6f : 1.f));
  }
}

// No device: what 8 bits are meant to compute, beside the same in fp32.
TEST(NarrowPlan, EightBitsCarryNetworksWithRandomWeights) {
  for (const char* name : {"minkunet18", "spunet"}) {
    const Plan plan = make_plan(network(name));
    const SparseTensor input = small_scan(600, 17);
    const auto exact = run_oracle(plan, input, {});
    std::vector<float> largest;
    for (const auto& step : exact.steps) largest.push_back(step.largest);
    for (const DType dtype : {DType::e4m3, DType::i8}) {
      const auto narrow =
          run_oracle(plan, input, {.dtype = dtype, .merges_shortcuts = true, .largest = largest});
      const double error = relative_error(narrow.steps.back().values, exact.steps.back().values);
      std::printf("%s %s: relative error %.4f\n", name, std::string(base::name(dtype)).c_str(),
                  error);
      EXPECT_LE(error, 0.2) << name << ' ' << base::name(dtype);
      EXPECT_GT(error, 1e-4) << name << ": nothing was rounded to 8 bits";
    }
  }
}

TEST(ShortcutPlan, MergesEveryProjectionOfAUNet) {
  cuda::DeviceSteps plan(make_plan(network("minkunet42")));
  const Plan before = plan;
  cuda::merge_shortcuts(plan);
  int absorbed = 0, merged = 0;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    absorbed += plan.extras[s].is_absorbed;
    if (!plan.extras[s].own_weight.defined()) continue;
    ++merged;
    EXPECT_EQ(step.inputs.size(), 2u);
    EXPECT_EQ(step.output.buffer, before.steps[s].output.buffer);
    EXPECT_GE(step.map, 0);
    for (const PlanEpilogueNode& node : step.epilogue) EXPECT_LT(node.aux.buffer, 0);
    for (const PlanSlice& input : step.inputs) {
      const PlanBuffer& buffer = plan.buffers[static_cast<std::size_t>(input.buffer)];
      EXPECT_LE(buffer.first_step, static_cast<int>(s));
      EXPECT_GE(buffer.last_step, static_cast<int>(s));
    }
  }
  EXPECT_EQ(absorbed, 7);  // encoders 64, 128, 256 and all four decoders change their width
  EXPECT_EQ(merged, 7);
}

TEST(NarrowCheck, RefusesWhatIsFarOff) {
  const auto frame = [](std::vector<float> values, std::vector<std::uint16_t> classes) {
    FrameOutput output;
    output.outputs.resize(1);
    output.outputs[0].node = "head";
    auto& features = output.outputs[0].sparse.features;
    features = base::Tensor::empty({static_cast<std::int64_t>(values.size()), 1}, DType::f32);
    std::copy(values.begin(), values.end(), features.data<float>());
    output.classes = std::move(classes);
    return output;
  };
  const float nan = std::nanf("");
  const FrameOutput wide = frame({3, -4, 0}, {0, 1, 2, kNoClass});
  EXPECT_NO_THROW(cuda::check_narrow(wide, frame({3, -4, 2.4f}, {0, 1, 2, kNoClass}), "int8"));
  EXPECT_THROW(cuda::check_narrow(wide, frame({3, -4, 2.6f}, {0, 1, 2, kNoClass}), "int8"),
               base::Error);
  EXPECT_THROW(cuda::check_narrow(wide, frame({0, 0, 0}, {0, 1, 2, kNoClass}), "int8"),
               base::Error);
  EXPECT_THROW(cuda::check_narrow(wide, frame({3, -4, nan}, {0, 1, 2, kNoClass}), "int8"),
               base::Error);
  EXPECT_THROW(cuda::check_narrow(wide, frame({3, -4, 0}, {0, 1, 1, kNoClass}), "int8"),
               base::Error);
  const FrameOutput nothing = frame({0, 0, 0}, {kNoClass, kNoClass, kNoClass, kNoClass});
  EXPECT_NO_THROW(cuda::check_narrow(nothing, frame({1, 2, 3}, {0, 0, 0, 0}), "int8"));
}

TEST(E4m3Scale, IsTheSmallestPowerOfTwoThatFits) {
  using gemm_core::cuda::e4m3_scale;
  EXPECT_EQ(e4m3_scale(448), 1);
  EXPECT_EQ(e4m3_scale(449), 2);
  EXPECT_EQ(e4m3_scale(224), 0.5f);
  EXPECT_EQ(e4m3_scale(7), 0.015625f);
  EXPECT_EQ(e4m3_scale(0), 1);
  EXPECT_EQ(e4m3_scale(std::numeric_limits<float>::infinity()), 1);
}

}  // namespace
}  // namespace cuda_tests

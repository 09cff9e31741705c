// What a plan promises: fused steps, shared levels and maps, buffers that never overlap while
// alive.
#include "sparseconv/plan.hpp"

#include <gtest/gtest.h>

#include "tests/support/make_inputs.hpp"

namespace {

using namespace sparseconv;
using test_support::random_model;
using Epilogue = gemm_core::EpilogueNode::Kind;

constexpr const char* kResidual = R"(
  {"name":"s","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":8},
  {"name":"sr","op":"relu","inputs":["s"]},
  {"name":"c1","op":"conv","inputs":["sr"],"kernel":3,"submanifold":true,"out_channels":8,"bias":true},
  {"name":"b1","op":"batch_norm","inputs":["c1"]},
  {"name":"r1","op":"relu","inputs":["b1"]},
  {"name":"c2","op":"conv","inputs":["r1"],"kernel":3,"submanifold":true,"out_channels":8},
  {"name":"b2","op":"batch_norm","inputs":["c2"]},
  {"name":"sum","op":"add","inputs":["b2","sr"]},
  {"name":"out","op":"relu","inputs":["sum"]})";

std::vector<Epilogue> kinds_of(const PlanStep& step) {
  std::vector<Epilogue> kinds;
  for (const auto& node : step.epilogue) kinds.push_back(node.kind);
  return kinds;
}

TEST(Plan, AResidualBlockIsTwoSteps) {
  const Plan plan = make_plan(random_model(kResidual, 4));
  ASSERT_EQ(plan.steps.size(), 3u);
  EXPECT_EQ(kinds_of(plan.steps[1]), (std::vector{Epilogue::scale_shift, Epilogue::activate}));
  EXPECT_EQ(kinds_of(plan.steps[2]),
            (std::vector{Epilogue::scale_shift, Epilogue::add, Epilogue::activate}));
  EXPECT_EQ(plan.steps[2].node, "out");
  EXPECT_EQ(plan.maps.size(), 1u);
  EXPECT_EQ(plan.levels.size(), 1u);
}

TEST(Plan, BiasAndBatchNormFoldIntoOneScaleAndShift) {
  const Model model = random_model(kResidual, 4);
  const Plan plan = make_plan(model);
  const auto at = [&](const char* node, const char* parameter, std::size_t c) {
    return double{model.node(node).weights.at(parameter).data<float>()[c]};
  };
  for (std::size_t c = 0; c < 8; ++c) {
    const double scale = at("b1", "weight", c) / std::sqrt(at("b1", "running_var", c) + 1e-5);
    const double shift =
        scale * (at("c1", "bias", c) - at("b1", "running_mean", c)) + at("b1", "bias", c);
    EXPECT_FLOAT_EQ(plan.steps[1].epilogue[0].scale[c], static_cast<float>(scale));
    EXPECT_FLOAT_EQ(plan.steps[1].epilogue[0].shift[c], static_cast<float>(shift));
  }
}

TEST(Plan, AValueWithTwoReadersOrThatIsAnOutputIsStored) {
  const Plan plan = make_plan(random_model(kResidual, 4, R"("out","b2")"));
  ASSERT_EQ(plan.steps.size(), 4u);
  EXPECT_EQ(plan.steps[2].node, "b2");
  EXPECT_EQ(plan.steps[3].kind, PlanStep::Kind::elementwise);
}

TEST(Plan, ConcatenationsAreWrittenInPlace) {
  const Plan plan = make_plan(random_model(R"(
    {"name":"a","op":"linear","inputs":["input"],"out_channels":8},
    {"name":"b","op":"linear","inputs":["a"],"out_channels":6},
    {"name":"c","op":"linear","inputs":["b"],"out_channels":5},
    {"name":"inner","op":"concat","inputs":["b","c"]},
    {"name":"outer","op":"concat","inputs":["a","inner"]},
    {"name":"out","op":"linear","inputs":["outer"],"out_channels":2})",
                                           4));
  ASSERT_EQ(plan.steps.size(), 4u);
  const auto& a = plan.steps[0].output;
  const auto& b = plan.steps[1].output;
  const auto& c = plan.steps[2].output;
  EXPECT_EQ(a.buffer, b.buffer);
  EXPECT_EQ(a.buffer, c.buffer);
  EXPECT_EQ(a.channel, 0);
  EXPECT_EQ(b.channel, 8);
  EXPECT_EQ(c.channel, 14);
  EXPECT_EQ(plan.steps[3].inputs[0].channels, 19);
}

TEST(Plan, LevelsAndMapsAreSharedByGeometry) {
  const Plan plan = make_plan(random_model(R"(
    {"name":"d1","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":4},
    {"name":"d2","op":"max_pool","inputs":["input"],"kernel":2},
    {"name":"sum","op":"add","inputs":["d1","d2"]},
    {"name":"u","op":"inverse_conv","inputs":["sum"],"pair":"d1","out_channels":4},
    {"name":"d3","op":"conv","inputs":["input"],"kernel":3,"stride":2,"padding":1,"out_channels":4},
    {"name":"out","op":"linear","inputs":["u"],"out_channels":2})",
                                           4, R"("out","d3")"));
  EXPECT_EQ(plan.levels.size(), 3u);
  EXPECT_EQ(plan.maps.size(), 3u);  // k2s2 and its inverse, k3s2
  EXPECT_TRUE(plan.checks.empty());
}

TEST(Plan, NodesThatNoOutputNeedsAreLeftOut) {
  const Plan plan = make_plan(random_model(R"(
    {"name":"d","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":4},
    {"name":"out","op":"linear","inputs":["input"],"out_channels":2})",
                                           4));
  EXPECT_EQ(plan.steps.size(), 1u);
  EXPECT_TRUE(plan.maps.empty());
  EXPECT_FALSE(plan.is_level_used.at(1));
}

TEST(Plan, TheDeepNetworkHasAStepAConvolution) {
  const Model model = build_architecture("minkunet42", {.classes = {"a", "b"}, .width = 0.125});
  const Plan plan = make_plan(model);
  EXPECT_EQ(plan.steps.size(), 50u);  // 49 convolutions and the head
  EXPECT_EQ(plan.levels.size(), 5u);
  EXPECT_EQ(plan.maps.size(), 5u + 4u + 4u);
}

bool overlap(std::int64_t a, std::int64_t a_size, std::int64_t b, std::int64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

TEST(Placement, BuffersAliveTogetherNeverOverlapAndTheArenaIsSmall) {
  for (const char* name : {"minkunet42", "second", "voxelnext", "spunet"}) {
    const Plan plan = make_plan(build_architecture(name, {.width = 0.25}));
    test_support::Random random(5);
    for (int trial = 0; trial < 5; ++trial) {
      std::vector<std::int64_t> rows;
      for (std::size_t i = 0; i < plan.levels.size(); ++i)
        rows.push_back(trial == 0 ? 0 : random.below(5000));
      Placement at;
      place_buffers(plan, rows, 4, at);
      std::int64_t total = 0;
      for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
        const auto& a = plan.buffers[i];
        const std::int64_t a_size = rows[static_cast<std::size_t>(a.level)] * a.channels * 4;
        total += a_size;
        EXPECT_EQ(at.offset[i] % 64, 0);
        EXPECT_LE(at.offset[i] + a_size, at.bytes);
        for (std::size_t j = 0; j < i; ++j) {
          const auto& b = plan.buffers[j];
          if (a.first_step > b.last_step || b.first_step > a.last_step) continue;
          const std::int64_t b_size = rows[static_cast<std::size_t>(b.level)] * b.channels * 4;
          EXPECT_FALSE(overlap(at.offset[i], a_size, at.offset[j], b_size))
              << name << i << " " << j;
        }
      }
      EXPECT_LE(at.largest_two, at.bytes);
      EXPECT_LE(at.bytes, total / 2);
    }
  }
}

TEST(LevelTransform, CentresOfHalvedCellsAreHalfway) {
  const Plan plan = make_plan(random_model(R"(
    {"name":"d","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":4},
    {"name":"e","op":"conv","inputs":["d"],"kernel":3,"stride":2,"padding":1,"out_channels":4},
    {"name":"out","op":"conv_transpose","inputs":["e"],"kernel":2,"stride":2,"out_channels":4})",
                                           4));
  // Cells 0 and 1 have their centres at 0 and 1, the cell that joins them at 0.5.
  const auto once = transform_of(plan, 1), twice = transform_of(plan, 2),
             back = transform_of(plan, 3);
  EXPECT_EQ(0.5 * once.scale[0] + once.shift[0], 0.0);
  EXPECT_EQ(4.5 * once.scale[0] + once.shift[0], 2.0);
  EXPECT_EQ(4.5 * twice.scale[0] + twice.shift[0], 1.0);
  EXPECT_EQ(4.5 * back.scale[0] + back.shift[0], 2.5);
}

}  // namespace

// Gradients of every op against a network in fp64 that shares no code with the library: its
// differences over steps so small that fp64 rounds nothing away and fp32 weights are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/sparseconv/training/op_cases.hpp"
#include "tests/sparseconv/training/seed_outputs.hpp"
#include "tests/support/naive_network.hpp"

namespace {

using namespace sparseconv;
using test_support::factor_of, test_support::OpCase, test_support::seed, test_support::small_cloud;
using training::Parameters;
using training::Tape;

constexpr float kStep = 1.0f / 65536;  // weights and features are multiples of 2^-12

double loss_of(const Model& model, const SparseTensor& input) {
  const auto values = test_support::run_naively(model, input, {.uses_batch_statistics = true});
  double loss = 0;
  for (const auto& output : model.outputs) {
    const auto& value = values.at(output);
    for (std::size_t row = 0; row < value.rows.size(); ++row) {
      for (std::size_t c = 0; c < value.rows[row].size(); ++c) {
        loss += factor_of(value.coords[row], static_cast<std::int64_t>(c)) * value.rows[row][c];
      }
    }
  }
  return loss;
}

double difference_quotient(float& number, const std::function<double()>& loss) {
  const float before = number;
  number = before + kStep;
  const double above = loss();
  number = before - kStep;
  const double below = loss();
  number = before;
  return (above - below) / (2.0 * kStep);
}

// fp32 passes of a few layers: errors relative to the largest gradient of the same tensor.
constexpr double kTolerance = 2e-4;

struct Compared {
  double got, expected;
};
void expect_near(const std::vector<Compared>& values, const std::string& what) {
  double largest = 1e-3;
  for (const auto& v : values) largest = std::max(largest, std::fabs(v.expected));
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i].got, values[i].expected, kTolerance * largest) << what << " sample " << i;
  }
}

void expect_gradients(Model model, SparseTensor input) {
  validate(model);
  Tape tape(model, {.input_gradient = true});
  tape.forward({.voxels = input});
  seed(tape);
  tape.backward();
  // The oracle's weights are moved in place: copies that the tape does not share.
  for (Node& node : model.nodes) {
    for (auto& [name, tensor] : node.weights) tensor = tensor.clone();
  }
  const auto loss = [&] { return loss_of(model, input); };
  constexpr std::int64_t kSamples = 24;
  for (const Parameters::Entry& entry : tape.parameters().trained()) {
    float* weights =
        model.nodes[static_cast<std::size_t>(entry.node)].weights.at(entry.name).data<float>();
    std::vector<Compared> values;
    for (std::int64_t k = 0; k < std::min(kSamples, entry.size); ++k) {
      const std::int64_t at = entry.size <= kSamples ? k : (k * 7919 + 3) % entry.size;
      values.push_back({tape.parameters().gradients[static_cast<std::size_t>(entry.offset + at)],
                        difference_quotient(weights[at], loss)});
    }
    expect_near(values, entry.node_name + "." + entry.name);
  }
  const auto dx = tape.input_gradient();
  const std::int64_t count = input.rows() * input.channels();
  input.features = input.features.clone();
  std::vector<Compared> values;
  for (std::int64_t k = 0; k < std::min(kSamples, count); ++k) {
    const std::int64_t at = (k * 104729 + 1) % count;
    values.push_back({dx.as<float>()[at / input.channels() * dx.stride[0] + at % input.channels()],
                      difference_quotient(input.features.data<float>()[at], loss)});
  }
  expect_near(values, "input");
}

class GradientOfEveryOp : public testing::TestWithParam<OpCase> {};

TEST_P(GradientOfEveryOp, EqualsTheDifferenceQuotient) {
  const OpCase& c = GetParam();
  expect_gradients(test_support::random_model(c.nodes, c.channels, c.outputs),
                   test_support::random_tensor(small_cloud(c.channels)));
}

// Behaviour 1.
TEST_P(GradientOfEveryOp, IsZeroForEmptyInput) {
  const OpCase& c = GetParam();
  Model model = test_support::random_model(c.nodes, c.channels, c.outputs);
  validate(model);
  Tape tape(model, {.input_gradient = true});
  tape.forward({.voxels = test_support::tensor_of(
                    {}, c.channels, {.batch_size = 2, .spatial_shape = SpatialShape{9, 8, 7}})});
  for (std::size_t i = 0; i < tape.plan().outputs.size(); ++i) {
    if (!tape.plan().outputs[i].is_dense) seed(tape);
  }
  tape.backward();
  tape.update_statistics();
  for (const float g : tape.parameters().gradients) ASSERT_EQ(g, 0.0f);
  EXPECT_EQ(tape.input_gradient().shape[0], 0);
}

// Values made again in the backward pass are the same, so the gradients are, to the last bit.
TEST_P(GradientOfEveryOp, IsTheSameWhereActivationsAreRecomputed) {
  const OpCase& c = GetParam();
  Model model = test_support::random_model(c.nodes, c.channels, c.outputs);
  validate(model);
  const auto input = test_support::random_tensor(small_cloud(c.channels));
  std::vector<float> expected;
  for (const bool recomputes : {false, true}) {
    Tape tape(model, {.input_gradient = true, .recomputes = recomputes});
    tape.forward({.voxels = input});
    seed(tape);
    tape.backward();
    std::vector<float> got = tape.parameters().gradients;
    const auto dx = tape.input_gradient();
    for (std::int64_t row = 0; row < dx.shape[0]; ++row) {
      const float* first = dx.as<float>() + row * dx.stride[0];
      got.insert(got.end(), first, first + dx.shape[1]);
    }
    if (!recomputes) expected = got;
    EXPECT_EQ(got, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(, GradientOfEveryOp, testing::ValuesIn(test_support::kOpCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace

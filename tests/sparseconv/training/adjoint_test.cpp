// <g, conv(x)> = <dx, x> = <dw, w> for every geometry of golden/layers.h5. Operands are small whole
// numbers, so that every product and sum is exact in fp32 and the identities hold to the last bit;
// the sums over the tensors are fp64.
#include <gtest/gtest.h>

#include "sparseconv/training/tape.hpp"
#include "tests/sparseconv/golden_files.hpp"
#include "tests/support/make_inputs.hpp"
#include "tests/support/shared_files.hpp"

namespace {

using namespace sparseconv;

void fill_whole(float* values, std::int64_t count, int bound, test_support::Random& random) {
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(random.below(2 * bound + 1) - bound);
}

double dot(const base::ConstTensorView& a, const base::ConstTensorView& b) {
  double sum = 0;
  for (std::int64_t row = 0; row < a.shape[0]; ++row) {
    for (std::int64_t c = 0; c < a.shape[1]; ++c) {
      sum += double(a.as<float>()[row * a.stride[0] + c]) *
             double(b.as<float>()[row * b.stride[0] + c]);
    }
  }
  return sum;
}

TEST(Adjoint, HoldsExactlyForEveryGeometryOfTheGoldenLayers) {
  REQUIRE_SHARED(file, "golden/layers.h5");
  test_support::Random random(11);
  const auto cases = golden::read_layer_cases(file);
  ASSERT_FALSE(cases.empty());
  for (const auto& layer : cases) {
    SCOPED_TRACE(layer.name);
    Model model = layer.model;
    for (Node& node : model.nodes) {
      for (auto& [name, tensor] : node.weights) {
        tensor = base::Tensor::empty(tensor.shape(), base::DType::f32);
        // Biases are no part of the identity.
        fill_whole(tensor.data<float>(), tensor.numel(), name == "bias" ? 0 : 1, random);
      }
    }
    validate(model);
    SparseTensor input = layer.input;
    input.features = base::Tensor::empty({input.rows(), model.in_channels()}, base::DType::f32);
    fill_whole(input.features.data<float>(), input.features.numel(), 2, random);
    training::Tape tape(model, {.input_gradient = true});
    tape.forward({.voxels = input});
    const auto g = tape.output_gradient(0);
    for (std::int64_t row = 0; row < g.shape[0]; ++row)
      fill_whole(g.as<float>() + row * g.stride[0], g.shape[1], 2, random);
    const auto y = tape.output(0);
    const double forward = dot({g.data, g.dtype, g.device, g.shape, g.stride}, y);
    tape.backward();
    const base::Tensor& x = input.features;
    EXPECT_EQ(forward, dot(tape.input_gradient(), x.view()));
    EXPECT_NE(forward, 0.0);
    const auto& p = tape.parameters();
    for (const auto& entry : p.trained()) {
      if (entry.name != "weight") continue;
      double sum = 0;
      for (std::int64_t i = entry.offset; i < entry.offset + entry.size; ++i) {
        sum += double(p.values[static_cast<std::size_t>(i)]) *
               double(p.gradients[static_cast<std::size_t>(i)]);
      }
      EXPECT_EQ(forward, sum) << entry.node_name;
    }
  }
}

}  // namespace

// Gradients on the device against the CPU's, op by op and for whole networks.
#include "sparseconv/cuda/training/device_tape.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "sparseconv/architectures.hpp"
#include "tests/cuda/require_device.hpp"
#include "tests/sparseconv/training/op_cases.hpp"
#include "tests/sparseconv/training/seed_outputs.hpp"

namespace cuda_tests {
namespace {

using base::DType;
using namespace sparseconv;
using cuda::DeviceTape;
using test_support::OpCase;
using training::Parameters;
using training::Tape;
using training::TapeOptions;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Rows [0, rows) of a matrix on the device as fp32.
std::vector<float> rows_from(const base::ConstTensorView& view, std::int64_t rows) {
  std::vector<float> values;
  const std::int64_t bytes = base::bytes(view.dtype);
  std::vector<std::uint8_t> row(index(view.shape[1] * bytes));
  std::vector<std::uint8_t> all(index(rows * view.shape[1] * bytes));
  if (!all.empty())
    CUDA_CHECK(cudaMemcpy2D(all.data(), row.size(), view.data, index(view.stride[0] * bytes),
                            row.size(), index(rows), cudaMemcpyDeviceToHost));
  base::visit_dtype<float, base::half_t, base::bf16_t>(view.dtype, "test", [&]<class T>() {
    const auto* from = reinterpret_cast<const T*>(all.data());
    for (std::int64_t i = 0; i < rows * view.shape[1]; ++i)
      values.push_back(static_cast<float>(from[i]));
  });
  return values;
}

void rows_to(const base::TensorView& view, const std::vector<float>& values) {
  const std::int64_t bytes = base::bytes(view.dtype), columns = view.shape[1];
  const auto rows = static_cast<std::int64_t>(values.size()) / columns;
  if (rows == 0) return;
  std::vector<std::uint8_t> all(values.size() * index(bytes));
  base::visit_dtype<float, base::half_t, base::bf16_t>(view.dtype, "test", [&]<class T>() {
    for (std::size_t i = 0; i < values.size(); ++i)
      reinterpret_cast<T*>(all.data())[i] = T(values[i]);
  });
  CUDA_CHECK(cudaMemcpy2D(view.data, index(view.stride[0] * bytes), all.data(),
                          index(columns * bytes), index(columns * bytes), index(rows),
                          cudaMemcpyHostToDevice));
}

std::vector<float> host_rows(const base::ConstTensorView& v) {
  std::vector<float> values;
  base::visit_dtype<float, base::half_t, base::bf16_t>(v.dtype, "test", [&]<class T>() {
    for (std::int64_t row = 0; row < v.shape[0]; ++row) {
      for (std::int64_t c = 0; c < v.shape[1]; ++c)
        values.push_back(static_cast<float>(v.as<T>()[row * v.stride[0] + c]));
    }
  });
  return values;
}
base::ConstTensorView constant(const base::TensorView& v) {
  return {v.data, v.dtype, v.device, v.shape, v.stride};
}

template <class T>
std::vector<T> from_device(const T* data, std::size_t count) {
  std::vector<T> values(count);
  if (count > 0)
    CUDA_CHECK(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

// What a pass gives: outputs, then gradients.
struct Pass {
  std::vector<std::vector<float>> outputs;
  std::vector<float> gradients, statistics, input_gradient;
};

// On the CPU, and the seeds of its outputs.
Pass run_on_cpu(const Model& model, const TapeOptions& options, const SparseTensor& input,
                std::vector<std::vector<float>>& seeds) {
  Tape tape(model, options);
  tape.forward({.voxels = input});
  Pass pass;
  const auto& outputs = tape.plan().outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_dense) {
      const auto& dense = tape.dense_output(i);
      pass.outputs.emplace_back(dense.data<float>(), dense.data<float>() + dense.numel());
    } else {
      pass.outputs.push_back(host_rows(tape.output(i)));
    }
  }
  if (input.rows() > 0) test_support::seed(tape);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_dense) {
      const auto& g = tape.dense_output_gradient(i);
      seeds.emplace_back(g.data<float>(), g.data<float>() + g.numel());
    } else {
      seeds.push_back(host_rows(constant(tape.output_gradient(i))));
    }
  }
  tape.backward();
  tape.update_statistics();
  pass.gradients = tape.parameters().gradients;
  pass.statistics = tape.parameters().statistics;
  if (options.input_gradient) pass.input_gradient = host_rows(tape.input_gradient());
  return pass;
}

Pass run_on_device(DeviceTape& tape, const TapeOptions& options, const SparseTensor& input,
                   const std::vector<std::vector<float>>& seeds) {
  Pass pass;
  for (bool is_done = false; !is_done; is_done = tape.finish()) {
    tape.begin({.voxels = input});
    CUDA_CHECK(cudaStreamSynchronize(tape.stream()));
    pass.outputs.clear();
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      if (tape.plan().outputs[i].is_dense) {
        pass.outputs.push_back(from_device(tape.dense_output(i), tape.dense_size(i)));
        CUDA_CHECK(cudaMemcpy(tape.dense_output_gradient(i), seeds[i].data(),
                              seeds[i].size() * sizeof(float), cudaMemcpyHostToDevice));
      } else {
        const auto rows = static_cast<std::int64_t>(seeds[i].size()) / tape.output(i).shape[1];
        pass.outputs.push_back(rows_from(tape.output(i), rows));
        rows_to(tape.output_gradient(i), seeds[i]);
      }
    }
    // Small copies return before they have arrived, and the tape's stream waits for no other.
    CUDA_CHECK(cudaDeviceSynchronize());
    tape.backward();
  }
  tape.update_statistics();
  CUDA_CHECK(cudaStreamSynchronize(tape.stream()));
  pass.gradients = from_device(tape.gradients().data(), tape.gradients().size());
  pass.statistics = from_device(tape.statistics().data(), tape.statistics().size());
  if (options.input_gradient) pass.input_gradient = rows_from(tape.input_gradient(), input.rows());
  return pass;
}

// fp32 sums of a few layers; 16-bit values round each of them, and each gradient on its way.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 2e-4;
    case DType::tf32:
    case DType::f16:
      return 2e-2;
    default:
      return 1e-1;
  }
}

// Element by element, relative to the largest of the tensor.
void expect_near(const float* got, const float* expected, std::int64_t count, double tolerance,
                 const std::string& what) {
  double worst = 0, largest = 1e-3;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double difference = std::fabs(double(got[i]) - expected[i]);
    if (!(difference <= worst)) worst = difference, at = i;
    largest = std::max(largest, std::fabs(double(expected[i])));
  }
  EXPECT_LE(worst, tolerance * largest)
      << what << " at " << at << " of " << count << ": got " << (count > 0 ? got[at] : 0)
      << ", expected " << (count > 0 ? expected[at] : 0) << ", largest " << largest;
}

void expect_equal(const Model& model, const Plan& plan, const Pass& got, const Pass& expected,
                  double bound) {
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
    ASSERT_EQ(got.outputs[i].size(), expected.outputs[i].size());
    expect_near(got.outputs[i].data(), expected.outputs[i].data(),
                static_cast<std::int64_t>(expected.outputs[i].size()), bound,
                base::concat("output ", i));
  }
  const Parameters parameters(model, plan);
  for (const auto& entry : parameters.trained())
    expect_near(got.gradients.data() + entry.offset, expected.gradients.data() + entry.offset,
                entry.size, bound, "gradient of " + entry.node_name + "." + entry.name);
  for (const auto& entry : parameters.running())
    expect_near(got.statistics.data() + entry.offset, expected.statistics.data() + entry.offset,
                entry.size, bound, "statistics of " + entry.node_name + "." + entry.name);
  ASSERT_EQ(got.input_gradient.size(), expected.input_gradient.size());
  expect_near(got.input_gradient.data(), expected.input_gradient.data(),
              static_cast<std::int64_t>(expected.input_gradient.size()), bound, "input gradient");
}

class DeviceGradientOfEveryOp : public testing::TestWithParam<OpCase> {};

TEST_P(DeviceGradientOfEveryOp, EqualsTheCpus) {
  REQUIRE_DEVICE();
  const OpCase& c = GetParam();
  Model model = test_support::random_model(c.nodes, c.channels, c.outputs);
  validate(model);
  for (const bool is_shuffled : {false, true}) {
    SCOPED_TRACE(is_shuffled ? "shuffled" : "sorted");
    auto spec = test_support::small_cloud(c.channels);
    spec.shuffled = is_shuffled;
    const auto input = test_support::random_tensor(spec);
    for (const bool recomputes : {false, true}) {
      const TapeOptions options{.input_gradient = true, .recomputes = recomputes};
      std::vector<std::vector<float>> seeds;
      const Pass expected = run_on_cpu(model, options, input, seeds);
      DeviceTape tape(model, options, 0);
      expect_equal(model, tape.plan(), run_on_device(tape, options, input, seeds), expected,
                   tolerance(DType::f32));
    }
  }
}

TEST_P(DeviceGradientOfEveryOp, IsZeroForEmptyInput) {
  REQUIRE_DEVICE();
  const OpCase& c = GetParam();
  Model model = test_support::random_model(c.nodes, c.channels, c.outputs);
  validate(model);
  const auto input = test_support::tensor_of(
      {}, c.channels, {.batch_size = 2, .spatial_shape = SpatialShape{9, 8, 7}});
  const TapeOptions options{.input_gradient = true};
  std::vector<std::vector<float>> seeds;
  const Pass expected = run_on_cpu(model, options, input, seeds);
  DeviceTape tape(model, options, 0);
  const Pass got = run_on_device(tape, options, input, seeds);
  for (const float g : got.gradients) ASSERT_EQ(g, 0.0f);
  EXPECT_EQ(got.statistics, expected.statistics);
}

INSTANTIATE_TEST_SUITE_P(, DeviceGradientOfEveryOp, testing::ValuesIn(test_support::kOpCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

constexpr const char* kBlock =
    R"({"name":"a","op":"conv","inputs":["input"],"kernel":3,"submanifold":true,"out_channels":24},
       {"name":"an","op":"batch_norm","inputs":["a"]},{"name":"ar","op":"leaky_relu","inputs":["an"]},
       {"name":"d","op":"conv","inputs":["ar"],"kernel":2,"stride":2,"out_channels":32},
       {"name":"dn","op":"batch_norm","inputs":["d"]},
       {"name":"p","op":"max_pool","inputs":["ar"],"kernel":2},
       {"name":"pl","op":"linear","inputs":["p"],"out_channels":32,"bias":true},
       {"name":"sum","op":"add","inputs":["dn","pl"]},{"name":"dr","op":"relu","inputs":["sum"]},
       {"name":"u","op":"inverse_conv","inputs":["dr"],"pair":"d","out_channels":16},
       {"name":"us","op":"sigmoid","inputs":["u"]},
       {"name":"cat","op":"concat","inputs":["us","ar"]},
       {"name":"c","op":"conv","inputs":["cat"],"kernel":3,"submanifold":true,"out_channels":40},
       {"name":"cn","op":"batch_norm","inputs":["c"]},{"name":"cr","op":"relu","inputs":["cn"]},
       {"name":"out","op":"linear","inputs":["cr"],"out_channels":5,"bias":true})";

// The angle between all gradients: single values may be sums that cancel.
void expect_same_direction(const std::vector<float>& got, const std::vector<float>& expected,
                           double angle) {
  double product = 0, own = 0, other = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    product += double(got[i]) * expected[i];
    own += double(got[i]) * got[i];
    other += double(expected[i]) * expected[i];
  }
  EXPECT_GT(product / std::sqrt(own * other), 1 - angle * angle / 2);
  EXPECT_NEAR(std::sqrt(own / other), 1, angle);
}

// The CPU rounds values alike and keeps gradients in fp32.
TEST(DeviceGradient, OfABlockIsNearTheCpusForEveryType) {
  REQUIRE_DEVICE();
  Model model = test_support::random_model(kBlock, 4);
  validate(model);
  const auto input =
      test_support::random_tensor({.shape = {40, 30, 12}, .per_thousand = 200, .channels = 4});
  for (const DType dtype : {DType::f32, DType::tf32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(base::name(dtype));
    const TapeOptions options{.dtype = dtype};
    std::vector<std::vector<float>> seeds;
    const Pass expected = run_on_cpu(model, options, input, seeds);
    DeviceTape tape(model, options, 0);
    const Pass got = run_on_device(tape, options, input, seeds);
    expect_near(got.outputs[0].data(), expected.outputs[0].data(),
                static_cast<std::int64_t>(expected.outputs[0].size()), tolerance(dtype), "output");
    expect_same_direction(got.gradients, expected.gradients,
                          dtype == DType::f32    ? 1e-3
                          : dtype == DType::bf16 ? 0.1
                                                 : 0.02);
    if (dtype == DType::f32) expect_equal(model, tape.plan(), got, expected, 2e-4);
  }
}

TEST(DeviceGradient, OfANetworkIsNearTheCpusAndTheSameBitsEveryTime) {
  REQUIRE_DEVICE();
  Model model = build_architecture("minkunet14", {.in_channels = 4, .width = 0.5, .seed = 3});
  validate(model);
  const auto small = test_support::random_tensor(
      {.shape = {30, 30, 12}, .per_thousand = 150, .channels = 4, .seed = 3});
  const auto large = test_support::random_tensor(
      {.shape = {60, 50, 16}, .per_thousand = 150, .channels = 4, .seed = 4});
  for (const DType dtype : {DType::f32, DType::f16}) {
    SCOPED_TRACE(base::name(dtype));
    const TapeOptions options{.dtype = dtype};
    DeviceTape tape(model, options, 0);
    std::vector<float> first;
    for (const SparseTensor* input : {&small, &large, &small}) {
      std::vector<std::vector<float>> seeds;
      const Pass expected = run_on_cpu(model, options, *input, seeds);
      const Pass got = run_on_device(tape, options, *input, seeds);
      // Fourteen layers of gradients in half precision; the CPU's are fp32.
      expect_same_direction(got.gradients, expected.gradients, dtype == DType::f32 ? 5e-3 : 0.2);
      if (input == &small && first.empty()) {
        first = got.gradients;
      } else if (input == &small) {
        EXPECT_EQ(got.gradients, first) << "after a larger frame";
      }
    }
  }
}

// Shares of points are added by atomics: as whole numbers, so in any order.
TEST(DeviceGradient, OfDevoxelizeFromACoarserLevelEqualsTheCpusAndHasTheSameBitsEveryTime) {
  REQUIRE_DEVICE();
  for (const char* mode : {"nearest", "trilinear"}) {
    SCOPED_TRACE(mode);
    Model model = test_support::random_model(
        base::concat(
            R"({"name":"d","op":"conv","inputs":["input"],"kernel":2,"stride":2,"out_channels":6},
               {"name":"dd","op":"conv","inputs":["d"],"kernel":3,"stride":2,"padding":1,"out_channels":8},
               {"name":"p","op":"devoxelize","inputs":["d"],"mode":")",
            mode, R"("},{"name":"pp","op":"devoxelize","inputs":["dd"],"mode":")", mode,
            R"("},{"name":"r","op":"devoxelize","inputs":["d"]},
               {"name":"cat","op":"concat","inputs":["p","pp","r"]},
               {"name":"out","op":"linear","inputs":["cat"],"out_channels":5})"),
        3);
    validate(model);
    for (const bool is_shuffled : {false, true}) {
      SCOPED_TRACE(is_shuffled ? "shuffled" : "sorted");
      auto spec = test_support::small_cloud(3);
      spec.shuffled = is_shuffled;
      const auto input = test_support::random_tensor(spec);
      for (const DType dtype : {DType::f32, DType::f16}) {
        const TapeOptions options{.input_gradient = true, .dtype = dtype};
        std::vector<std::vector<float>> seeds;
        const Pass expected = run_on_cpu(model, options, input, seeds);
        DeviceTape tape(model, options, 0);
        const Pass got = run_on_device(tape, options, input, seeds);
        expect_equal(model, tape.plan(), got, expected, tolerance(dtype));
        for (int repeat = 0; repeat < 5; ++repeat) {
          const Pass again = run_on_device(tape, options, input, seeds);
          EXPECT_EQ(again.gradients, got.gradients);
          EXPECT_EQ(again.input_gradient, got.input_gradient);
        }
      }
    }
  }
}

TEST(DeviceGradient, OfDevoxelizeIsNotFiniteWhereAGradientIsNot) {
  REQUIRE_DEVICE();
  Model model = test_support::model_of(
      R"({"name":"d","op":"sum_pool","inputs":["input"],"kernel":2},
         {"name":"out","op":"devoxelize","inputs":["d"]})",
      3);
  validate(model);
  const auto input = test_support::random_tensor(test_support::small_cloud(3));
  const TapeOptions options{.input_gradient = true};
  std::vector<std::vector<float>> seeds;
  (void)run_on_cpu(model, options, input, seeds);
  seeds[0][7] = HUGE_VALF;
  DeviceTape tape(model, options, 0);
  const Pass got = run_on_device(tape, options, input, seeds);
  // No window of the pool covers the last voxels of an axis of odd length.
  std::size_t nans = 0;
  for (const float g : got.input_gradient) {
    ASSERT_TRUE(std::isnan(g) || g == 0) << g;
    nans += std::isnan(g) ? 1 : 0;
  }
  EXPECT_GT(nans, got.input_gradient.size() / 2);
}

TEST(DeviceGradient, NamesWhatItLacks) {
  REQUIRE_DEVICE();
  Model model = test_support::random_model(
      R"({"name":"l","op":"linear","inputs":["input"],"out_channels":3},
         {"name":"n","op":"batch_norm","inputs":["l"]},
         {"name":"a","op":"relu","inputs":["input"]},{"name":"b","op":"sigmoid","inputs":["input"]},
         {"name":"c","op":"sigmoid","inputs":["a"]},{"name":"d","op":"relu","inputs":["c"]},
         {"name":"out","op":"add","inputs":["n","a","b","c","d"]})",
      3);
  validate(model);
  DeviceTape tape(model, {}, 0);
  const auto input = test_support::random_tensor(test_support::small_cloud(3));
  try {
    tape.begin({.voxels = input});
    FAIL() << "no error";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("node 'out'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace cuda_tests

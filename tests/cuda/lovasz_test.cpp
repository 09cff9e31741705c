// Losses on the device against the CPU's.
#include <gtest/gtest.h>

#include <cmath>

#include "gemm_core/base/cuda/resources.hpp"
#include "sparseconv/cuda/training/loss_kernels.hpp"
#include "sparseconv/cuda/training/lovasz_kernels.hpp"
#include "sparseconv/training/losses.hpp"
#include "sparseconv/training/random.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using base::DType;
using sparseconv::training::LossOptions;

struct Case {
  std::int64_t rows = 0, classes = 0;
  double labelled = 1;          // share of the rows
  std::int32_t most_label = 0;  // labels are below; 0: any class
  LossOptions options;
};

struct Result {
  double loss = 0;
  std::vector<float> gradient;
};

constexpr base::Device kDevice{base::Device::Kind::cuda, 0};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Batch {
  base::Tensor logits;
  std::vector<std::int32_t> labels;
  explicit Batch(const Case& c) : logits(base::Tensor::empty({c.rows, c.classes}, DType::f32)) {
    sparseconv::training::RandomStream random(17 + static_cast<std::uint64_t>(c.rows));
    const std::int64_t below = c.most_label > 0 ? c.most_label : c.classes;
    for (std::int64_t row = 0; row < c.rows; ++row) {
      // Classes of unequal frequency, logits that are right more often than not.
      const auto label = static_cast<std::int32_t>(static_cast<double>(below) * random.uniform() *
                                                   random.uniform());
      labels.push_back(random.chance(c.labelled) ? label : -1);
      for (std::int64_t k = 0; k < c.classes; ++k)
        logits.data<float>()[row * c.classes + k] =
            static_cast<float>(2 * random.gaussian() + (k == label ? 1.5 : 0));
    }
  }
};

Result on_cpu(const Case& c, const Batch& batch) {
  Result result{.gradient = std::vector<float>(index(c.rows * c.classes))};
  auto gradient = base::Tensor::empty({c.rows, c.classes}, DType::f32);
  result.loss = sparseconv::training::class_loss(c.options, batch.logits.view(), batch.labels,
                                                 gradient.view())
                    .loss;
  if (c.rows > 0)
    std::copy_n(gradient.data<float>(), result.gradient.size(), result.gradient.begin());
  return result;
}

// Logits have a pitch of their own.
Result on_device(const Case& c, const Batch& batch, std::int64_t pitch) {
  base::cuda::Buffer<float> logits(index(c.rows * pitch)), gradient(index(c.rows * pitch)),
      weights(c.options.class_weights.size());
  base::cuda::Buffer<std::int32_t> labels(batch.labels.size()), predictions(batch.labels.size());
  base::cuda::Buffer<sparseconv::cuda::LossSum> sums(index(sparseconv::cuda::loss_blocks(c.rows)));
  const auto width = index(c.classes) * sizeof(float), line = index(pitch) * sizeof(float);
  if (c.rows > 0) {
    CUDA_CHECK(cudaMemcpy2D(logits.data(), line, batch.logits.data(), width, width, index(c.rows),
                            cudaMemcpyHostToDevice));
    CUDA_CHECK(
        cudaMemcpy(labels.data(), batch.labels.data(), labels.nbytes(), cudaMemcpyHostToDevice));
  }
  if (weights.size() > 0)
    CUDA_CHECK(cudaMemcpy(weights.data(), c.options.class_weights.data(), weights.nbytes(),
                          cudaMemcpyHostToDevice));
  std::vector<std::int64_t> positives(index(c.classes), 0);
  double weight = 0;
  for (const std::int32_t label : batch.labels) {
    if (label < 0) continue;
    ++positives[index(label)];
    weight += weights.size() > 0 ? c.options.class_weights[index(label)] : 1.0;
  }
  const base::ConstTensorView view{
      logits.data(), DType::f32, kDevice, {c.rows, c.classes}, {pitch, 1}};
  sparseconv::cuda::LovaszLoss lovasz;
  lovasz.enqueue(view, labels.data(), positives, nullptr);
  const bool has_lovasz = lovasz.present() > 0;
  sparseconv::cuda::cross_entropy(
      {.logits = view,
       .labels = labels.data(),
       .class_weights = weights.size() > 0 ? weights.data() : nullptr,
       .label_smoothing = static_cast<float>(c.options.label_smoothing),
       .lovasz = has_lovasz ? lovasz.derivatives() : nullptr,
       .lovasz_pitch = c.rows,
       .lovasz_scale =
           static_cast<float>(has_lovasz ? c.options.lovasz_weight / lovasz.present() : 0),
       .gradient_scale = static_cast<float>(weight > 0 ? 1 / weight : 0),
       .gradient = {gradient.data(), DType::f32, kDevice, {c.rows, c.classes}, {pitch, 1}},
       .predictions = predictions.data()},
      {.bound = c.rows}, sums.data(), nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  Result result{.gradient = std::vector<float>(index(c.rows * c.classes))};
  std::vector<sparseconv::cuda::LossSum> blocks(sums.size());
  if (c.rows > 0) {
    CUDA_CHECK(cudaMemcpy2D(result.gradient.data(), width, gradient.data(), line, width,
                            index(c.rows), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(blocks.data(), sums.data(), sums.nbytes(), cudaMemcpyDeviceToHost));
  }
  for (const auto& block : blocks) result.loss += weight > 0 ? block.loss / weight : 0;
  result.loss += c.options.lovasz_weight * lovasz.loss();
  return result;
}

void compare(const Case& c) {
  const Batch batch(c);
  const Result expected = on_cpu(c, batch);
  const Result got = on_device(c, batch, c.classes + 3);
  EXPECT_NEAR(got.loss, expected.loss, 2e-6 * (1 + expected.loss));
  // Errors that differ in their last bits may change places, and with them derivatives that differ
  // by a 1 / (positives left) of themselves.
  float largest = 0, worst = 0;
  for (std::size_t i = 0; i < expected.gradient.size(); ++i) {
    largest = std::max(largest, std::abs(expected.gradient[i]));
    worst = std::max(worst, std::abs(expected.gradient[i] - got.gradient[i]));
  }
  EXPECT_LE(worst, 1e-3f * largest) << c.rows << " rows of " << c.classes << " classes";
  EXPECT_EQ(got.loss, on_device(c, batch, c.classes + 3).loss);
}

class CudaLosses : public testing::Test {
 protected:
  void SetUp() override { REQUIRE_DEVICE(); }
};

TEST_F(CudaLosses, LovaszSoftmaxEqualsTheCpus) {
  const LossOptions alone{.lovasz_weight = 1};
  for (const std::int64_t rows : {1, 31, 1000, 1024, 1025, 30000})
    compare({.rows = rows, .classes = 7, .options = alone});
  compare({.rows = 3000, .classes = 2, .options = alone});
  compare({.rows = 3000, .classes = 1, .options = alone});
}

TEST_F(CudaLosses, IgnoredRowsAndAbsentClassesHaveNoPart) {
  const LossOptions both{.label_smoothing = 0.1, .lovasz_weight = 0.7};
  compare({.rows = 5000, .classes = 20, .labelled = 0.6, .most_label = 11, .options = both});
  compare({.rows = 700, .classes = 5, .labelled = 0, .options = both});
  compare({.rows = 0, .classes = 5, .options = both});
}

TEST_F(CudaLosses, MoreClassesThanOneSortTakes) {
  compare({.rows = 4000, .classes = 75, .labelled = 0.9, .options = {.lovasz_weight = 1}});
}

TEST_F(CudaLosses, WeightsOfClassesAreTheCrossEntropysAlone) {
  compare({.rows = 2000,
           .classes = 4,
           .options = {.class_weights = {1, 2, 0.5f, 3}, .lovasz_weight = 1.5}});
}

}  // namespace
}  // namespace cuda_tests

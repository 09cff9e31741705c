// Softmax cross-entropy.
#include <algorithm>
#include <cmath>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/training/batch.hpp"
#include "sparseconv/training/losses.hpp"

namespace sparseconv::training {
namespace {

constexpr std::int64_t kGrain = 1024;  // rows

struct BlockSum {
  double loss = 0, weight = 0;
  std::int64_t labelled = 0, correct = 0;
};

class CrossEntropy {
 public:
  CrossEntropy(const LossOptions& options, const base::ConstTensorView& logits,
               std::span<const std::int32_t> labels)
      : options_(options), logits_(logits), labels_(labels), classes_(logits.shape[1]) {}

  double weight_of(std::int32_t label) const {
    return options_.class_weights.empty() ? 1.0
                                          : options_.class_weights[static_cast<std::size_t>(label)];
  }

  // Loss and gradient of a row, not yet divided by the sum of weights.
  double row(std::int64_t index, std::int32_t label, float* gradient, double* p) const {
    const float* z = logits_.as<float>() + index * logits_.stride[0];
    const float largest = *std::max_element(z, z + classes_);
    double sum = 0;
    for (std::int64_t c = 0; c < classes_; ++c) sum += p[c] = std::exp(double(z[c]) - largest);
    const double log_sum = std::log(sum);
    for (std::int64_t c = 0; c < classes_; ++c) p[c] /= sum;
    const auto log_p = [&](std::int64_t c) { return double(z[c]) - largest - log_sum; };
    const double w = weight_of(label), smoothing = options_.label_smoothing;
    const double share = smoothing / static_cast<double>(classes_);
    double loss = 0;
    for (std::int64_t c = 0; c < classes_; ++c) {
      const double target = share + (c == label ? 1 - smoothing : 0);
      if (target > 0) loss -= target * log_p(c);
      gradient[c] = static_cast<float>(w * (p[c] - target));
    }
    if (options_.focal_gamma > 0) {
      // L = (1 - p)^g CE, p of the label: dL = (1 - p)^g dCE - g (1 - p)^(g - 1) CE dp.
      const double rest = 1 - p[label], g = options_.focal_gamma;
      const double factor = std::pow(rest, g);
      const double slope = rest > 0 ? g * std::pow(rest, g - 1) * loss * p[label] : 0;
      for (std::int64_t c = 0; c < classes_; ++c) {
        const double dp = (c == label ? 1.0 : 0.0) - p[c];  // times p of the label
        gradient[c] = static_cast<float>(factor * gradient[c] - w * slope * dp);
      }
      loss *= factor;
    }
    return w * loss;
  }

 private:
  const LossOptions& options_;
  const base::ConstTensorView& logits_;
  std::span<const std::int32_t> labels_;
  std::int64_t classes_;
};

}  // namespace

void check_labels(std::span<const std::int32_t> labels, std::int64_t rows, std::int64_t classes) {
  ENSURE(static_cast<std::int64_t>(labels.size()) == rows, "loss: ", labels.size(), " labels for ",
         rows, " rows");
  for (std::size_t i = 0; i < labels.size(); ++i) {
    ENSURE(labels[i] == kIgnore || (labels[i] >= 0 && labels[i] < classes), "loss: label ",
           labels[i], " of row ", i, " is neither one of ", classes, " classes nor ", kIgnore,
           " (ignored)");
  }
}

void check(const LossOptions& o, std::int64_t classes) {
  ENSURE(o.class_weights.empty() || static_cast<std::int64_t>(o.class_weights.size()) == classes,
         "loss: ", o.class_weights.size(), " class weights for ", classes, " classes");
  for (std::size_t i = 0; i < o.class_weights.size(); ++i) {
    ENSURE(std::isfinite(o.class_weights[i]) && o.class_weights[i] >= 0, "loss: class weight ",
           o.class_weights[i], " of class ", i, " is negative or not finite");
  }
  ENSURE(o.label_smoothing >= 0 && o.label_smoothing < 1, "loss: label_smoothing ",
         o.label_smoothing, " is not in [0, 1)");
  ENSURE(o.focal_gamma >= 0, "loss: focal_gamma ", o.focal_gamma, " is negative");
  ENSURE(o.lovasz_weight >= 0, "loss: lovasz_weight ", o.lovasz_weight, " is negative");
}

ClassLoss class_loss(const LossOptions& options, const base::ConstTensorView& logits,
                     std::span<const std::int32_t> labels, const base::TensorView& gradient) {
  const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
  check(options, classes);
  ENSURE(logits.dtype == base::DType::f32 && gradient.dtype == base::DType::f32,
         "loss: logits are ", base::name(logits.dtype), ", the gradient ",
         base::name(gradient.dtype), ", both must be float32");
  check_labels(labels, rows, classes);
  ClassLoss result;
  result.predictions.resize(labels.size());
  std::vector<BlockSum> sums(static_cast<std::size_t>((rows + kGrain - 1) / kGrain));
  const CrossEntropy entropy(options, logits, labels);
  base::parallel_blocks(rows, kGrain, [&](std::int64_t begin, std::int64_t end) {
    BlockSum& sum = sums[static_cast<std::size_t>(begin / kGrain)];
    std::vector<double> p(static_cast<std::size_t>(classes));
    for (std::int64_t row = begin; row < end; ++row) {
      const float* z = logits.as<float>() + row * logits.stride[0];
      float* g = gradient.as<float>() + row * gradient.stride[0];
      const auto best = static_cast<std::int32_t>(std::max_element(z, z + classes) - z);
      const std::int32_t label = labels[static_cast<std::size_t>(row)];
      result.predictions[static_cast<std::size_t>(row)] = best;
      if (label == kIgnore) {
        std::fill_n(g, classes, 0.0f);
        continue;
      }
      ++sum.labelled;
      sum.correct += best == label;
      sum.weight += entropy.weight_of(label);
      sum.loss += entropy.row(row, label, g, p.data());
    }
  });
  BlockSum total;
  for (const BlockSum& sum : sums) {
    total.loss += sum.loss;
    total.weight += sum.weight;
    total.labelled += sum.labelled;
    total.correct += sum.correct;
  }
  result.labelled = total.labelled;
  result.correct = total.correct;
  const double scale = total.weight > 0 ? 1 / total.weight : 0;
  result.loss = total.loss * scale;
  base::parallel_blocks(rows, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* g = gradient.as<float>() + row * gradient.stride[0];
      for (std::int64_t c = 0; c < classes; ++c)
        g[c] = static_cast<float>(static_cast<double>(g[c]) * scale);
    }
  });
  if (options.lovasz_weight > 0)
    result.loss += add_lovasz_softmax(options.lovasz_weight, logits, labels, gradient);
  return result;
}

}  // namespace sparseconv::training

// Lovasz-softmax.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/training/batch.hpp"
#include "sparseconv/training/losses.hpp"

namespace sparseconv::training {
namespace {

constexpr std::int64_t kGrain = 1024;  // rows

// Softmax of the labelled rows, [labelled][classes].
struct Probabilities {
  std::vector<std::int64_t> rows;
  std::vector<std::int32_t> label;
  std::vector<float> value;
};

Probabilities probabilities(const base::ConstTensorView& logits,
                            std::span<const std::int32_t> labels) {
  Probabilities p;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kIgnore) continue;
    p.rows.push_back(static_cast<std::int64_t>(row));
    p.label.push_back(labels[row]);
  }
  const std::int64_t classes = logits.shape[1];
  p.value.resize(p.rows.size() * static_cast<std::size_t>(classes));
  base::parallel_blocks(
      static_cast<std::int64_t>(p.rows.size()), kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const float* z =
              logits.as<float>() + p.rows[static_cast<std::size_t>(i)] * logits.stride[0];
          float* to = p.value.data() + i * classes;
          const float largest = *std::max_element(z, z + classes);
          double sum = 0;
          for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(double(z[c]) - largest);
          for (std::int64_t c = 0; c < classes; ++c)
            to[c] = static_cast<float>(std::exp(double(z[c]) - largest) / sum);
        }
      });
  return p;
}

// Loss of one class over errors sorted downwards, and its derivative in each error: the discrete
// derivative of the Jaccard loss along the sorted order. Ties keep the order of rows.
double class_term(const Probabilities& p, std::int64_t classes, std::int32_t wanted,
                  std::int64_t positives, float* derivative) {
  const std::size_t count = p.rows.size();
  std::vector<float> error(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float value =
        p.value[i * static_cast<std::size_t>(classes) + static_cast<std::size_t>(wanted)];
    error[i] = p.label[i] == wanted ? 1 - value : value;
  }
  std::vector<std::int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return error[static_cast<std::size_t>(a)] > error[static_cast<std::size_t>(b)];
  });
  double loss = 0, before = 0;
  std::int64_t hit = 0, missed = 0;  // positives and negatives so far
  for (const std::int32_t i : order) {
    const auto at = static_cast<std::size_t>(i);
    (p.label[at] == wanted ? hit : missed) += 1;
    const double jaccard =
        1 - static_cast<double>(positives - hit) / static_cast<double>(positives + missed);
    const double step = jaccard - before;
    before = jaccard;
    loss += error[at] * step;
    derivative[at] = static_cast<float>(p.label[at] == wanted ? -step : step);  // in p
  }
  return loss;
}

}  // namespace

double add_lovasz_softmax(double weight, const base::ConstTensorView& logits,
                          std::span<const std::int32_t> labels, const base::TensorView& gradient) {
  const std::int64_t classes = logits.shape[1];
  ENSURE(logits.dtype == base::DType::f32 && gradient.dtype == base::DType::f32,
         "lovasz_softmax: logits are ", base::name(logits.dtype), ", the gradient ",
         base::name(gradient.dtype), ", both must be float32");
  const Probabilities p = probabilities(logits, labels);
  const std::size_t count = p.rows.size();
  std::vector<std::int64_t> positives(static_cast<std::size_t>(classes), 0);
  for (const std::int32_t label : p.label) ++positives[static_cast<std::size_t>(label)];
  std::vector<std::int32_t> present;
  for (std::int32_t c = 0; c < classes; ++c) {
    if (positives[static_cast<std::size_t>(c)] > 0) present.push_back(c);
  }
  if (present.empty()) return 0;
  std::vector<float> derivative(present.size() * count);  // [present][count], in probabilities
  std::vector<double> loss(present.size());
  base::parallel_blocks(
      static_cast<std::int64_t>(present.size()), 1, [&](std::int64_t i, std::int64_t) {
        const auto at = static_cast<std::size_t>(i);
        loss[at] =
            class_term(p, classes, present[at], positives[static_cast<std::size_t>(present[at])],
                       derivative.data() + at * count);
      });
  const double scale = weight / static_cast<double>(present.size());
  // Through the softmax: dz_c = p_c (d_c - sum_k p_k d_k).
  base::parallel_blocks(
      static_cast<std::int64_t>(count), kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          const float* of_row = p.value.data() + i * static_cast<std::size_t>(classes);
          float* g = gradient.as<float>() + p.rows[i] * gradient.stride[0];
          double sum = 0;
          for (std::size_t k = 0; k < present.size(); ++k)
            sum += double(of_row[present[k]]) * derivative[k * count + i];
          std::size_t k = 0;
          for (std::int32_t c = 0; c < classes; ++c) {
            const bool occurs = k < present.size() && present[k] == c;
            const double d = occurs ? derivative[k++ * count + i] : 0.0;
            g[c] += static_cast<float>(scale * of_row[c] * (d - sum));
          }
        }
      });
  return scale * std::accumulate(loss.begin(), loss.end(), 0.0);
}

}  // namespace sparseconv::training

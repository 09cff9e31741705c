// Losses of detection heads.
#include <algorithm>
#include <cmath>
#include <functional>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/training/losses.hpp"

namespace sparseconv::training {
namespace {

constexpr std::int64_t kGrain = 1024;  // rows

void check_shapes(const char* operation, const base::ConstTensorView& values,
                  const base::ConstTensorView& targets, const base::TensorView& gradient) {
  ENSURE(values.shape == targets.shape && values.shape == gradient.shape, operation,
         ": values have shape ", base::to_string(values.shape), ", targets ",
         base::to_string(targets.shape), ", the gradient ", base::to_string(gradient.shape));
  for (const base::DType type : {values.dtype, targets.dtype, gradient.dtype}) {
    ENSURE(type == base::DType::f32, operation, ": element type ", base::name(type),
           ", expected float32");
  }
}

double sum_over_rows(std::int64_t rows, const std::function<double(std::int64_t)>& row_value) {
  std::vector<double> sums(static_cast<std::size_t>((rows + kGrain - 1) / kGrain), 0.0);
  base::parallel_blocks(rows, kGrain, [&](std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (std::int64_t row = begin; row < end; ++row) sum += row_value(row);
    sums[static_cast<std::size_t>(begin / kGrain)] = sum;
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

double heatmap_loss(const base::ConstTensorView& logits, const base::ConstTensorView& targets,
                    const base::TensorView& gradient) {
  check_shapes("heatmap_loss", logits, targets, gradient);
  const std::int64_t rows = logits.shape[0], channels = logits.shape[1];
  const double centres = sum_over_rows(rows, [&](std::int64_t row) {
    const float* y = targets.as<float>() + row * targets.stride[0];
    return static_cast<double>(std::count(y, y + channels, 1.0f));
  });
  const double scale = 1 / std::max(1.0, centres);
  const double total = sum_over_rows(rows, [&](std::int64_t row) {
    const float* z = logits.as<float>() + row * logits.stride[0];
    const float* y = targets.as<float>() + row * targets.stride[0];
    float* g = gradient.as<float>() + row * gradient.stride[0];
    double loss = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double x = z[c], p = 1 / (1 + std::exp(-x)), q = 1 - p;
      // log p and log (1 - p) without loss for large |x|.
      const double softplus = std::log1p(std::exp(-std::fabs(x)));
      const double log_p = std::min(x, 0.0) - softplus, log_q = std::min(-x, 0.0) - softplus;
      if (y[c] == 1.0f) {  // -(1-p)^2 log p
        loss -= q * q * log_p;
        g[c] = static_cast<float>(scale * (2 * q * q * p * log_p - q * q * q));
      } else {  // -(1-y)^4 p^2 log (1-p)
        const double w = std::pow(1.0 - y[c], 4);
        loss -= w * p * p * log_q;
        g[c] = static_cast<float>(scale * w * (p * p * p - 2 * p * p * q * log_q));
      }
    }
    return loss;
  });
  return total * scale;
}

double l1_loss(const base::ConstTensorView& values, const base::ConstTensorView& targets,
               std::span<const std::uint8_t> mask, const base::TensorView& gradient) {
  check_shapes("l1_loss", values, targets, gradient);
  const std::int64_t rows = values.shape[0], channels = values.shape[1];
  ENSURE(mask.empty() || static_cast<std::int64_t>(mask.size()) == rows, "l1_loss: a mask of ",
         mask.size(), " for ", rows, " rows");
  const auto is_used = [&](std::int64_t row) {
    return mask.empty() || mask[static_cast<std::size_t>(row)] != 0;
  };
  double used = 0;
  for (std::int64_t row = 0; row < rows; ++row) used += is_used(row);
  const double scale = used > 0 ? 1 / used : 0;
  return scale * sum_over_rows(rows, [&](std::int64_t row) {
           const float* x = values.as<float>() + row * values.stride[0];
           const float* y = targets.as<float>() + row * targets.stride[0];
           float* g = gradient.as<float>() + row * gradient.stride[0];
           double loss = 0;
           for (std::int64_t c = 0; c < channels; ++c) {
             const double difference = is_used(row) ? double(x[c]) - y[c] : 0.0;
             loss += std::fabs(difference);
             g[c] = static_cast<float>(difference > 0 ? scale : difference < 0 ? -scale : 0.0);
           }
           return loss;
         });
}

}  // namespace sparseconv::training

#include "sparseconv/training/optimiser.hpp"

#include <cmath>

#include "gemm_core/base/parallel.hpp"

namespace sparseconv::training {
namespace {

constexpr std::int64_t kGrain = 16384;

bool is_share(double value) { return value >= 0 && value < 1; }

}  // namespace

Optimiser::Optimiser(const OptimiserOptions& o, const Parameters& parameters) : options_(o) {
  ENSURE(is_share(o.momentum), "optimiser: momentum ", o.momentum, " is not in [0, 1)");
  ENSURE(is_share(o.beta1), "optimiser: beta1 ", o.beta1, " is not in [0, 1)");
  ENSURE(is_share(o.beta2), "optimiser: beta2 ", o.beta2, " is not in [0, 1)");
  ENSURE(o.eps > 0, "optimiser: eps ", o.eps, " must be positive");
  ENSURE(o.weight_decay >= 0, "optimiser: weight_decay ", o.weight_decay, " is negative");
  first.assign(parameters.values.size(), 0.0f);
  if (o.kind == OptimiserOptions::Kind::adamw) second.assign(parameters.values.size(), 0.0f);
}

void Optimiser::step(Parameters& parameters, double rate, double scale) {
  ++steps;
  for (const Parameters::Entry& entry : parameters.trained()) {
    const auto decay = static_cast<float>(entry.decays ? options_.weight_decay : 0.0);
    base::parallel_blocks(entry.size, kGrain, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = entry.offset + begin;
      float* values = parameters.values.data() + at;
      const float* gradients = parameters.gradients.data() + at;
      if (options_.kind == OptimiserOptions::Kind::sgd) {
        sgd(values, gradients, first.data() + at, end - begin, decay, rate, scale);
      } else {
        adamw(values, gradients, first.data() + at, second.data() + at, end - begin, decay, rate,
              scale);
      }
    });
  }
}

// v = m v + g; w -= rate v, or with Nesterov's momentum w -= rate (g + m v).
void Optimiser::sgd(float* values, const float* gradients, float* momentum, std::int64_t count,
                    float decay, double rate, double scale) const {
  const auto m = static_cast<float>(options_.momentum), s = static_cast<float>(scale),
             lr = static_cast<float>(rate);
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = s * gradients[i] + decay * values[i];
    momentum[i] = m * momentum[i] + g;
    values[i] -= lr * (options_.nesterov ? g + m * momentum[i] : momentum[i]);
  }
}

// Kingma, Ba 2015, with the decay of Loshchilov, Hutter 2019.
void Optimiser::adamw(float* values, const float* gradients, float* mean, float* square,
                      std::int64_t count, float decay, double rate, double scale) const {
  const auto n = static_cast<double>(steps);
  const auto b1 = static_cast<float>(options_.beta1), b2 = static_cast<float>(options_.beta2);
  const auto step_size = static_cast<float>(rate / (1 - std::pow(options_.beta1, n)));
  const auto unbias = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, n)));
  const auto keep = static_cast<float>(1 - rate * decay), s = static_cast<float>(scale),
             eps = static_cast<float>(options_.eps);
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = s * gradients[i];
    mean[i] = b1 * mean[i] + (1 - b1) * g;
    square[i] = b2 * square[i] + (1 - b2) * g * g;
    values[i] = keep * values[i] - step_size * mean[i] / (std::sqrt(square[i]) * unbias + eps);
  }
}

double norm(std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<double> sums(static_cast<std::size_t>((count + kGrain - 1) / kGrain), 0.0);
  base::parallel_blocks(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const double v = values[static_cast<std::size_t>(i)];
      sum += v * v;
    }
    sums[static_cast<std::size_t>(begin / kGrain)] = sum;
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

}  // namespace sparseconv::training

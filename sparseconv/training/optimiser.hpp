// Updates of weights from gradients. State and arithmetic are fp32, element by element, so that any
// number of threads gives the same bits.
#pragma once
#include <span>
#include <vector>

#include "sparseconv/training/options.hpp"
#include "sparseconv/training/parameters.hpp"

namespace sparseconv::training {

class Optimiser {
 public:
  // Error naming the field for options without meaning.
  Optimiser(const OptimiserOptions& options, const Parameters& parameters);

  // Moves parameters.values against parameters.gradients * gradient_scale.
  void step(Parameters& parameters, double learning_rate, double gradient_scale);

  const OptimiserOptions& options() const { return options_; }
  // What a checkpoint keeps: momenta, and for adamw their second moments and the number of steps.
  std::vector<float> first, second;
  std::int64_t steps = 0;

 private:
  void sgd(float* values, const float* gradients, float* momentum, std::int64_t count, float decay,
           double rate, double scale) const;
  void adamw(float* values, const float* gradients, float* mean, float* square, std::int64_t count,
             float decay, double rate, double scale) const;
  OptimiserOptions options_;
};

// L2 norm, summed in blocks of a fixed size in fp64.
double norm(std::span<const float> values);

}  // namespace sparseconv::training

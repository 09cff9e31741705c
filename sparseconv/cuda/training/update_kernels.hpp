// Updates of all of a model's numbers on the device, from flat arrays (training/parameters.hpp,
// training/optimiser.hpp): one launch whatever the number of layers.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "sparseconv/cuda/step_kernels.hpp"

namespace sparseconv::cuda {

// Sums of squares of blocks of values, then *sum of all, fp64, in an order that `count` decides.
// `scratch`: norm_scratch(count).
std::int64_t norm_scratch(std::int64_t count);
void square_sum(const float* values, std::int64_t count, double* scratch, double* sum,
                cudaStream_t stream);

// Values of one decision: arrays are aligned by 16, and so are parameters in them.
inline constexpr std::int64_t kDecayGroup = 16;

struct FlatUpdate {
  float *values = nullptr, *first = nullptr, *second = nullptr, *average = nullptr;  // [count]
  const float* gradients = nullptr;
  const std::uint8_t* decays = nullptr;  // [count / kDecayGroup]: whether weight decay applies
  std::int64_t count = 0;
  float gradient_scale = 1, rate = 0, decay = 0;
  float average_keep = 0;  // average = keep * average + (1 - keep) * values, where there is one
};
struct SgdFactors {
  float momentum = 0;
  bool nesterov = false;
};
void update_sgd(const FlatUpdate& update, const SgdFactors& factors, cudaStream_t stream);
// Of the step that is made: rate / (1 - beta1^n), 1 / sqrt(1 - beta2^n).
struct AdamFactors {
  float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, step_size = 0, unbias = 1;
};
void update_adamw(const FlatUpdate& update, const AdamFactors& factors, cudaStream_t stream);

// running = (1 - share) running + share batch, with the unbiased variance: as Tape's
// update_statistics().
struct RunningJob {
  std::int64_t mean = 0, variance = 0;  // where in the flat arrays
  std::int32_t channels = 0;
  RowCount rows;
};
void update_statistics(const RunningJob* jobs, std::int32_t count, const double* batch,
                       float* running, double share, cudaStream_t stream);

}  // namespace sparseconv::cuda

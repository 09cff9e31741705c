// Steps of training that go over rows: batch norms and elementwise steps, forwards and back.
// Matrices have unit stride along channels; values and gradients are f32, f16 or bf16. Sums over
// rows are fp32 within strips of rows, fp64 over strips, in an order that sizes alone decide.
#pragma once
#include "sparseconv/cuda/step_kernels.hpp"

namespace sparseconv::cuda {

inline constexpr int kMaxAddends = 4;

// What a step does to a value: (x + centre) * scale + shift, where there are such, then sums, then
// an activation.
struct RowEpilogue {
  const float *centre = nullptr, *scale = nullptr, *shift = nullptr;  // [channels]
  base::ConstTensorView addend[kMaxAddends];                          // as the input
  int addends = 0;
  gemm_core::Activation activation = gemm_core::Activation::identity;
  float slope = 0;  // leaky_relu
};
void apply_rows(const base::ConstTensorView& input, const RowEpilogue& epilogue,
                const Destination& output, const RowCount& rows, cudaStream_t stream);

// Doubles of scratch that sums over rows of so many channels need, however many rows.
std::int64_t sum_scratch(std::int64_t channels);

// Statistics of a batch norm, and what it does with them.
// All vectors start at multiples of 16 bytes.
struct NormVectors {
  const float *weight = nullptr, *bias = nullptr;  // [channels], as all below
  double *mean = nullptr, *variance = nullptr;     // of the batch, biased; 0 without rows
  // Fixed statistics instead, where they are set.
  const float *running_mean = nullptr, *running_variance = nullptr;
  double eps = 1e-5;
  float *centre = nullptr, *scale = nullptr, *shift = nullptr;  // for RowEpilogue
};
void find_moments(const base::ConstTensorView& input, const NormVectors& norm, const RowCount& rows,
                  double* scratch, cudaStream_t stream);

// How a gradient goes to one place: stored or added to what is there.
struct GradientTarget {
  base::TensorView to;
  bool adds = false;
};

// A step's gradient on its way back through its activation and sums, in place: `value` is what the
// activation gave (of a leaky_relu with a negative slope: what went in).
struct EpilogueGradient {
  base::TensorView gradient;
  base::ConstTensorView value;
  gemm_core::Activation activation = gemm_core::Activation::identity;
  float slope = 0;
  GradientTarget addend[kMaxAddends];
  int addends = 0;
  bool rounds_to_tf32 = false;
};
// Without sums.
void pass_back(const EpilogueGradient& step, const RowCount& rows, cudaStream_t stream);
// And the sum of each channel: a bias's gradient.
void pass_back_to_bias(const EpilogueGradient& step, const RowCount& rows, float* bias_gradient,
                       double* scratch, cudaStream_t stream);

struct NormGradient {
  base::ConstTensorView input;  // of the forward pass
  NormVectors norm;
  float *weight_gradient = nullptr, *bias_gradient = nullptr;  // overwritten
  float* vectors = nullptr;  // scratch, two vectors of whole chunks of 8
  GradientTarget to;         // of the input; without data where nobody asks
};
// dx = w r (g - mean(g) - (x - mean) r^2 mean(g (x - mean))), r = 1 / sqrt(variance + eps).
void pass_back_through_norm(const EpilogueGradient& step, const NormGradient& norm,
                            const RowCount& rows, double* scratch, cudaStream_t stream);

// to = from or to += from.
void copy_rows(const base::ConstTensorView& from, const GradientTarget& to, bool rounds_to_tf32,
               const RowCount& rows, cudaStream_t stream);
void zero_rows(const base::TensorView& to, const RowCount& rows, cudaStream_t stream);
// [rows, channels] f32 or f16 as the frame has them; zeros in the output's further channels.
void load_rows(const base::ConstTensorView& from, const Destination& to, const RowCount& rows,
               cudaStream_t stream);

}  // namespace sparseconv::cuda

// Backward passes of the steps of a plan on the CPU, except products (those are
// gemm_core/device/gather_conv*.hpp). Matrices are [rows, channels] with unit stride along
// channels: values of the forward pass f32, f16 or bf16, gradients f32. Sums have an order that no
// thread count changes. Zero rows are legal everywhere.
#pragma once
#include <span>
#include <vector>

#include "gemm_core/atom/activation.hpp"
#include "sparseconv/cpu/ops.hpp"

namespace sparseconv::cpu {

enum class Write : std::uint8_t { store, add };

// to = from, or to += from. The operands may be parts of one buffer that do not overlap.
void copy_rows(const base::ConstTensorView& from, const base::TensorView& to, Write write);
void zero_rows(const base::TensorView& to);

// gradient *= derivative of the activation, in place. `value` is what the activation gave; of a
// leaky_relu with a negative slope it is what went in.
void activation_gradient(gemm_core::Activation activation, float slope,
                         const base::ConstTensorView& value, const base::TensorView& gradient);

// to[c] = sum over rows; [channels].
void sum_rows(const base::ConstTensorView& rows, float* to);

// --- batch norm ---------------------------------------------------------------------------------

// Mean and biased variance of each channel over the rows (Chan, Golub, LeVeque 1983, by blocks); 0
// without rows.
void moments(const base::ConstTensorView& rows, std::vector<double>& mean,
             std::vector<double>& variance);

struct BatchNormGradient {
  base::ConstTensorView input;
  const float* weight = nullptr;           // [channels]
  std::span<const double> mean, variance;  // of the input, as moments() gives
  double eps = 1e-5;
  bool is_frozen = false;  // mean and variance are constants, not the input's
  float *weight_gradient = nullptr, *bias_gradient = nullptr;  // [channels], overwritten
};
// dx = w r (g - mean(g) - (x - mean) r^2 mean(g (x - mean))), r = 1 / sqrt(variance + eps). Without
// `to` only the parameters' gradients are computed.
void batch_norm_gradient(const BatchNormGradient& arguments, const base::ConstTensorView& gradient,
                         const base::TensorView* to, Write write);

// --- pools and moves of rows
// ----------------------------------------------------------------------

struct PoolGradient {
  PlanStep::Kind kind = PlanStep::Kind::max_pool;
  const KernelMap* map = nullptr;      // of the forward pass
  const KernelMap* inverse = nullptr;  // pair (in, out, tap) as (out, in, tap)
  bool implicit_zero = false;
  base::ConstTensorView input;  // max_pool: the forward pass's
};
// max: to the first tap that attains the maximum; average: divided by the count that exists.
void pool_gradient(const PoolGradient& arguments, const base::ConstTensorView& gradient,
                   const base::TensorView& to, Write write);

// `input`: of the forward pass, read by global_max only; its first row that attains the maximum.
void global_pool_gradient(PlanStep::Kind kind, const Coordinates& coordinates,
                          const base::ConstTensorView& input, const base::ConstTensorView& gradient,
                          const base::TensorView& to, Write write);

// `to`: one a part; without data where a part needs no gradient.
void merge_gradient(const MergeMap& map, const base::ConstTensorView& gradient,
                    std::span<const base::TensorView> to, std::span<const Write> write);

// `gradient`: [N, C*D, H, W] f32, as to_dense() gives.
void to_dense_gradient(const Coordinates& coordinates, const base::Tensor& gradient,
                       const base::TensorView& to, Write write);

void devoxelize_gradient(const DevoxelizeArguments& arguments,
                         const base::ConstTensorView& gradient, const base::TensorView& to,
                         Write write);

}  // namespace sparseconv::cpu

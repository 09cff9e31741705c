// Backward passes of the steps that move rows (cpu/gradients.hpp has the CPU's): pools, merging,
// dense grids. Each value of the result is summed by one thread in a fixed order.
#pragma once
#include "sparseconv/cuda/norm_kernels.hpp"

namespace sparseconv::cuda {

// `table` is by output row, `inverse` by input row: pair (in, out, tap) as (out, in, tap).
struct PoolGradientStep {
  PoolStep forward;
  const std::int32_t* inverse = nullptr;  // [taps][inverse_pitch]
  std::int64_t inverse_pitch = 0;
  base::ConstTensorView input;     // max_pool: of the forward pass
  base::ConstTensorView gradient;  // of the output
  GradientTarget to;               // of the input
  RowCount output_rows, input_rows;
  std::int32_t* scratch = nullptr;  // max_pool, avg_pool: [output rows bound][channels]
  bool rounds_to_tf32 = false;
};
// max: to the first tap that attains the maximum; average: divided by the count that exists.
void pool_gradient(const PoolGradientStep& step, cudaStream_t stream);

struct GlobalPoolGradientStep {
  PlanStep::Kind kind = PlanStep::Kind::global_max;
  LevelRowsView level;
  base::ConstTensorView input, gradient;
  GradientTarget to;
  std::int32_t batch_size = 1;
  std::int32_t* scratch = nullptr;  // global_max: [batch_size][channels]
  bool rounds_to_tf32 = false;
};
// max: to the first row that attains the maximum.
void global_pool_gradient(const GlobalPoolGradientStep& step, cudaStream_t stream);

struct MergeGradientPart {
  GradientTarget to;  // without data where nobody asks
  const std::int32_t* rank_to_row = nullptr;
};
void merge_gradient(std::span<const MergeGradientPart> parts, const MergeView& view,
                    const base::ConstTensorView& gradient, const RowCount& rows,
                    bool rounds_to_tf32, cudaStream_t stream);

// dense: [N, C*D, H, W] f32.
void to_dense_gradient(const LevelRowsView& level, const float* dense,
                       const std::array<std::int64_t, 3>& shape, const GradientTarget& to,
                       bool rounds_to_tf32, cudaStream_t stream);

}  // namespace sparseconv::cuda

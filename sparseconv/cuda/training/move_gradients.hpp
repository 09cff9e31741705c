// Backward passes of the steps that move rows (cpu/gradients.hpp has the CPU's): pools, merging,
// dense grids, points. Each value of the result is summed by one thread in a fixed order, but for
// those of points, whose sums are of whole numbers.
#pragma once
#include "sparseconv/cuda/point_kernels.hpp"
#include "sparseconv/cuda/training/norm_kernels.hpp"

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

// The transpose of blend_points(). Shares of gradients are added up as multiples of a power of two
// below 2^-61 of what all points together could reach, so that the order of the sums, which atomics
// leave open, makes no difference. All NaN where some gradient is not finite.
struct BlendGradientStep {
  const Blend* blends = nullptr;
  RowCount points;
  base::ConstTensorView gradient;  // [points, channels]
  GradientTarget to;
  RowCount rows;                    // of `to`
  std::int64_t* scratch = nullptr;  // [blend_scratch()]
  bool rounds_to_tf32 = false;
};
std::int64_t blend_scratch(std::int64_t rows, std::int64_t channels);  // int64s
void blend_gradient(const BlendGradientStep& step, cudaStream_t stream);

}  // namespace sparseconv::cuda

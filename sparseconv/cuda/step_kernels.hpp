// The steps of a plan that are no products, on the device. Rows are bounded by the views' first
// extent and counted on the device; matrices have unit stride along channels. Sums are fp32 (fp64
// over whole batch entries) in a fixed order.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <span>

#include "gemm_core/base/tensor.hpp"
#include "gemm_core/collective/gather_table.hpp"
#include "gemm_core/epilogue/epilogue.hpp"
#include "sparseconv/coord.hpp"
#include "sparseconv/cuda/maps/merge_steps.cuh"
#include "sparseconv/plan.hpp"

namespace sparseconv::cuda {

// Rows that exist: `*count` where it is set, else `bound`.
struct RowCount {
  const std::int32_t* count = nullptr;
  std::int64_t bound = 0;
};

// A matrix whose values are rounded to tf32 when they are stored.
struct Destination {
  base::TensorView view;
  bool rounds_to_tf32 = false;
};

void elementwise(const base::ConstTensorView& input, const gemm_core::Epilogue& epilogue,
                 const Destination& output, const RowCount& rows, cudaStream_t stream);

struct PoolStep {
  PlanStep::Kind kind = PlanStep::Kind::max_pool;
  const std::int32_t* table = nullptr;  // [taps][pitch]
  std::int64_t pitch = 0;
  std::int32_t taps = 0;
  bool implicit_zero = false;
};
void pool(const PoolStep& step, const base::ConstTensorView& input, const Destination& output,
          const RowCount& rows, cudaStream_t stream);

// Coordinates of a level: ascending keys, and which row a rank is (null: the same).
struct LevelRowsView {
  const Key* keys = nullptr;
  const std::int32_t* rank_to_row = nullptr;
  RowCount rows;
};
void global_pool(PlanStep::Kind kind, const LevelRowsView& level,
                 const base::ConstTensorView& input, const Destination& output,
                 std::int32_t batch_size, cudaStream_t stream);
// dense: [N, C*D, H, W] f32, zeros before.
void to_dense(const LevelRowsView& level, const base::ConstTensorView& input, float* dense,
              const std::array<std::int64_t, 3>& shape, cudaStream_t stream);

// A row of the output sums, in order of the parts, the rows that fall on it.
struct MergePart {
  base::ConstTensorView input;
  const std::int32_t* rank_to_row = nullptr;  // null: the same
};
void merge(std::span<const MergePart> parts, const MergeView& view, const Destination& output,
           const RowCount& rows, cudaStream_t stream);

// *mismatch = 0x7fffffff - the first rank at which two levels differ; left alone where there is
// none.
void compare_levels(const LevelRowsView& first, const LevelRowsView& second, std::int32_t* mismatch,
                    cudaStream_t stream);

// Error naming the device's architecture where this build has no kernels for it.
void check_kernels_run_on(int device);

// The table of a layer with one tap that reads its own row: `iota` and `masks` have room for
// `capacity` slots.
struct IdentityTable {
  std::int64_t capacity = 0;  // a multiple of kSlotAlignment
  std::int32_t *iota = nullptr, *plane_begin = nullptr;
  std::uint32_t* masks = nullptr;
  gemm_core::GatherTable view() const { return {1, capacity, iota, iota, masks, plane_begin}; }
};
struct IdentityJob {
  IdentityTable table;
  RowCount rows;
};
inline constexpr int kMaxIdentities = 32;  // of one launch
void fill_identities(std::span<const IdentityJob> jobs, cudaStream_t stream);

}  // namespace sparseconv::cuda

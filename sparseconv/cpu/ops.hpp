// The steps of a plan that are no products: pooling, merging, spreading into a dense grid, and
// points from voxels. Matrices are [rows, channels] with unit stride along channels, f32, f16 or
// bf16; sums are f32 (f64 over whole clouds) in an order that no thread count changes, rounded once
// at the store. Zero rows are legal.
#pragma once
#include "gemm_core/base/tensor.hpp"
#include "sparseconv/cpu/frame.hpp"
#include "sparseconv/executor.hpp"

namespace sparseconv::cpu {

struct PoolArguments {
  PlanStep::Kind kind = PlanStep::Kind::max_pool;  // max_pool, avg_pool, sum_pool
  const KernelMap* map = nullptr;
  bool implicit_zero = false;
};
void pool(const PoolArguments& arguments, const base::ConstTensorView& input,
          const base::TensorView& output);

// output has a row a batch entry; an entry without rows gives 0.
void global_pool(PlanStep::Kind kind, const Coordinates& coordinates,
                 const base::ConstTensorView& input, const base::TensorView& output);

void merge(const MergeMap& map, std::span<const base::ConstTensorView> inputs,
           const base::TensorView& output);

// [N, C*D, H, W] f32: D = z, H = y, W = x, channel c*D + z. Error naming the shape that is missing
// or too large.
base::Tensor to_dense(const Coordinates& coordinates, const base::ConstTensorView& input,
                      const base::BlockCachePtr& cache = nullptr);

struct DevoxelizeArguments {
  const Coordinates* coordinates = nullptr;  // of the input's rows
  const Coordinates* voxels = nullptr;       // of the frame's input
  const FrameInput* frame = nullptr;
  LevelTransform transform;  // from the frame's input to `coordinates`
  bool is_input_level = true;
  bool trilinear = false;
};
// nearest: the row of the cell that a point lies in. trilinear: the rows of the eight nearest
// centres, weighted; weights of absent rows are shared out among those present. 0 where no row is
// there, and for points without a voxel.
void devoxelize(const DevoxelizeArguments& arguments, const base::ConstTensorView& input,
                const base::TensorView& output);

}  // namespace sparseconv::cpu

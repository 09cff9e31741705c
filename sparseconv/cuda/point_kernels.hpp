// From voxels to points on the device: devoxelize, and labels.
#pragma once
#include "sparseconv/cuda/maps/block_table.cuh"
#include "sparseconv/cuda/step_kernels.hpp"

namespace sparseconv::cuda {

// Points and the input's row that each lies in; null: every row is a point.
struct PointRows {
  const std::int32_t* rows = nullptr;  // [points] or -1
  RowCount points;
};

// Row rows[p] of input, or zeros where that is -1.
void gather_points(const PointRows& points, const base::ConstTensorView& input,
                   const Destination& output, cudaStream_t stream);

// Up to eight rows with weights that sum to 1.
struct Blend {
  std::int32_t row[8];  // those that exist first; -1 after them
  float weight[8];
};
struct BlendArguments {
  PointRows points;
  const double* positions = nullptr;  // [points][3], FrameInput; null: centres of the voxels
  const Key* voxel_keys = nullptr;    // of the frame's input, by row
  CoordinateView level;               // whose rows are blended
  LevelTransform transform;           // from the frame's input to it
  bool trilinear = false;
};
// As devoxelize() on the CPU, bit by bit.
void find_blends(const BlendArguments& arguments, Blend* blends, cudaStream_t stream);
void blend_points(const Blend* blends, const RowCount& points, const base::ConstTensorView& input,
                  const Destination& output, cudaStream_t stream);

// The largest channel of each row's scores, the lowest among equals; kNoClass where a point has no
// row. `by_point`: scores have a row a point already.
struct LabelArguments {
  base::ConstTensorView scores;
  PointRows points;
  bool by_point = false;
};
void label_points(const LabelArguments& arguments, std::uint16_t* classes, cudaStream_t stream);

// rows[b] = rows of batch entry b.
void count_batch_rows(const LevelRowsView& level, std::int32_t batch_size, std::int32_t* rows,
                      cudaStream_t stream);

}  // namespace sparseconv::cuda

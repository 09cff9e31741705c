#include "sparseconv/cuda/point_kernels.hpp"

#include "sparseconv/cuda/row_kernels.cuh"
#include "sparseconv/executor.hpp"

namespace sparseconv::cuda {
namespace {

__device__ std::int64_t row_of(const PointRows& points, std::int64_t point) {
  return points.rows != nullptr ? points.rows[point] : point;
}

template <class In, class Out>
__global__ void gather_point_rows(PointRows points, Matrix from, Matrix to) {
  wait_and_go_on();
  const std::int64_t items = rows_of(points.points) * to.channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t point = i / to.channels, column = i % to.channels;
    const std::int64_t row = row_of(points, point);
    const float v = row >= 0 ? DeviceElement<In>::load(from.data, row * from.pitch + column) : 0.f;
    DeviceElement<Out>::store(to.data, point * to.pitch + column, v);
  }
}

// --- blends. Products and sums are rounded one by one, as on the CPU.

struct Cell {
  double at[3];
};

__device__ std::int32_t find_row(const CoordinateView& level, std::int32_t batch,
                                 const Cell& cell) {
  Coord at{batch, 0, 0, 0};
  for (int a = 0; a < 3; ++a) {
    if (!(cell.at[a] >= kAxisMin && cell.at[a] <= kAxisMax)) return -1;
  }
  at.x = static_cast<std::int32_t>(cell.at[0]);
  at.y = static_cast<std::int32_t>(cell.at[1]);
  at.z = static_cast<std::int32_t>(cell.at[2]);
  if (!is_in_key_range(at)) return -1;
  const Key key = pack(at);
  const std::int32_t rank =
      rank_in(level.table.find(key >> kBlockBits), static_cast<int>(key & 63));
  return rank < 0 ? -1 : level.row(rank);
}

__device__ void blend_corners(const CoordinateView& level, std::int32_t batch, const Cell& at,
                              Blend& blend) {
  double total = 0, weight[8];
  int count = 0;
  for (int corner = 0; corner < 8; ++corner) {
    Cell cell;
    double share = 1;
    for (int a = 0; a < 3; ++a) {
      const double low = floor(at.at[a]), part = at.at[a] - low;
      const bool is_upper = (corner >> a & 1) != 0;
      cell.at[a] = is_upper ? low + 1 : low;
      share = __dmul_rn(share, is_upper ? part : 1 - part);
    }
    const std::int32_t row = share > 0 ? find_row(level, batch, cell) : -1;
    if (row < 0) continue;
    blend.row[count] = row;
    weight[count++] = share;
    total = __dadd_rn(total, share);
  }
  for (int i = 0; i < count; ++i) blend.weight[i] = static_cast<float>(weight[i] / total);
}

__global__ void find_point_blends(const __grid_constant__ BlendArguments a, Blend* blends) {
  wait_and_go_on();
  const std::int64_t points = rows_of(a.points.points);
  for (std::int64_t point = first_item(); point < points; point += item_step()) {
    Blend blend;
    for (int i = 0; i < 8; ++i) {
      blend.row[i] = -1;
      blend.weight[i] = 0;
    }
    const std::int64_t voxel = row_of(a.points, point);
    if (voxel >= 0) {
      const Coord coord = unpack(a.voxel_keys[voxel]);
      Cell at;
      for (int axis = 0; axis < 3; ++axis) {
        const double position = a.positions != nullptr ? a.positions[3 * point + axis]
                                                       : static_cast<double>(coord[axis]);
        at.at[axis] =
            __dadd_rn(__dmul_rn(position, a.transform.scale[axis]), a.transform.shift[axis]);
      }
      if (a.trilinear) {
        blend_corners(a.level, coord.batch, at, blend);
      } else {
        for (double& c : at.at) c = floor(c + 0.5);
        blend.row[0] = find_row(a.level, coord.batch, at);
        blend.weight[0] = 1;
      }
    }
    blends[point] = blend;
  }
}

template <class In, class Out>
__global__ void blend_point_rows(const Blend* blends, RowCount points, Matrix from, Matrix to) {
  wait_and_go_on();
  const std::int64_t items = rows_of(points) * to.channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t point = i / to.channels, column = i % to.channels;
    const Blend& blend = blends[point];
    float sum = 0;
    for (int k = 0; k < 8 && blend.row[k] >= 0; ++k) {
      const float v = DeviceElement<In>::load(from.data, blend.row[k] * from.pitch + column);
      sum = __fadd_rn(sum, __fmul_rn(blend.weight[k], v));
    }
    DeviceElement<Out>::store(to.data, point * to.pitch + column, sum);
  }
}

// --- labels

template <class In>
__global__ void label_point_rows(PointRows points, Matrix scores, bool by_point,
                                 std::uint16_t* classes) {
  wait_and_go_on();
  const std::int64_t count = rows_of(points.points);
  for (std::int64_t point = first_item(); point < count; point += item_step()) {
    const std::int64_t voxel = row_of(points, point), row = by_point ? point : voxel;
    int best = kNoClass;
    float largest = 0;
    for (int c = 0; c < scores.channels && voxel >= 0; ++c) {
      const float v = DeviceElement<In>::load(scores.data, row * scores.pitch + c);
      if (c == 0 || largest < v) {
        best = c;
        largest = v;
      }
    }
    classes[point] = static_cast<std::uint16_t>(best);
  }
}

__global__ void count_rows(LevelRowsView level, std::int32_t batch_size, std::int32_t* rows) {
  wait_and_go_on();
  const std::int64_t count = rows_of(level.rows);
  for (std::int64_t b = first_item(); b < batch_size; b += item_step()) {
    const auto entry = static_cast<std::int32_t>(b);
    rows[b] = static_cast<std::int32_t>(first_rank(level.keys, count, entry + 1) -
                                        first_rank(level.keys, count, entry));
  }
}

}  // namespace

void gather_points(const PointRows& points, const base::ConstTensorView& input,
                   const Destination& output, cudaStream_t stream) {
  visit_types(input.dtype, output, "devoxelize", [&]<class In, class Out>() {
    base::cuda::launch(gather_point_rows<In, Out>,
                       {.grid = blocks_for(points.points.bound * output.view.shape[1]),
                        .block = dim3(kThreads),
                        .overlap = true},
                       stream, points, matrix(input), matrix(output.view));
  });
}

void find_blends(const BlendArguments& arguments, Blend* blends, cudaStream_t stream) {
  base::cuda::launch(
      find_point_blends,
      {.grid = blocks_for(arguments.points.points.bound), .block = dim3(kThreads), .overlap = true},
      stream, arguments, blends);
}

void blend_points(const Blend* blends, const RowCount& points, const base::ConstTensorView& input,
                  const Destination& output, cudaStream_t stream) {
  visit_types(input.dtype, output, "devoxelize", [&]<class In, class Out>() {
    base::cuda::launch(blend_point_rows<In, Out>,
                       {.grid = blocks_for(points.bound * output.view.shape[1]),
                        .block = dim3(kThreads),
                        .overlap = true},
                       stream, blends, points, matrix(input), matrix(output.view));
  });
}

void label_points(const LabelArguments& arguments, std::uint16_t* classes, cudaStream_t stream) {
  base::visit_dtype<float, base::half_t, base::bf16_t>(
      arguments.scores.dtype, "labels", [&]<class In>() {
        base::cuda::launch(label_point_rows<In>,
                           {.grid = blocks_for(arguments.points.points.bound),
                            .block = dim3(kThreads),
                            .overlap = true},
                           stream, arguments.points, matrix(arguments.scores), arguments.by_point,
                           classes);
      });
}

void count_batch_rows(const LevelRowsView& level, std::int32_t batch_size, std::int32_t* rows,
                      cudaStream_t stream) {
  base::cuda::launch(count_rows,
                     {.grid = blocks_for(batch_size), .block = dim3(kThreads), .overlap = true},
                     stream, level, batch_size, rows);
}

}  // namespace sparseconv::cuda

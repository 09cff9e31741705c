#include "sparseconv/cuda/step_kernels.hpp"

#include <limits>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/lower_epilogue.hpp"

namespace sparseconv::cuda {
namespace {

using base::DType;
using gemm_core::DeviceElement;
using gemm_core::DeviceEpilogue;
using Kind = PlanStep::Kind;

constexpr int kThreads = 256;
// Enough blocks to fill any GPU; threads walk on by the size of the grid.
constexpr std::int64_t kMaxBlocks = 2048;

dim3 blocks_for(std::int64_t items) {
  return dim3(static_cast<unsigned>(std::min(kMaxBlocks, (items + kThreads - 1) / kThreads)));
}

struct Matrix {
  void* data = nullptr;
  std::int64_t pitch = 0;
  std::int32_t channels = 0;
};
template <class View>
Matrix matrix(const View& view) {
  return {const_cast<void*>(static_cast<const void*>(view.data)), view.stride[0],
          static_cast<std::int32_t>(view.shape[1])};
}

__device__ std::int64_t rows_of(const RowCount& rows) {
  return rows.count != nullptr ? min(static_cast<std::int64_t>(*rows.count), rows.bound)
                               : rows.bound;
}
__device__ std::int64_t first_item() {
  return blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x;
}
__device__ std::int64_t item_step() { return static_cast<std::int64_t>(gridDim.x) * kThreads; }

template <class In, class Out>
__global__ void elementwise_rows(Matrix from, Matrix to, RowCount rows,
                                 const __grid_constant__ DeviceEpilogue epilogue) {
  const std::int64_t items = rows_of(rows) * to.channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t row = i / to.channels;
    const auto column = static_cast<int>(i % to.channels);
    const float v = DeviceElement<In>::load(from.data, row * from.pitch + column);
    DeviceElement<Out>::store(to.data, row * to.pitch + column,
                              gemm_core::apply_epilogue<Out>(epilogue, v, row, column));
  }
}

template <class In, class Out>
__global__ void pool_rows(PoolStep step, Matrix from, Matrix to, RowCount rows) {
  const std::int64_t items = rows_of(rows) * to.channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t row = i / to.channels, column = i % to.channels;
    float sum = 0;
    int count = 0;
    for (int tap = 0; tap < step.taps; ++tap) {
      const std::int32_t in = __ldg(step.table + tap * step.pitch + row);
      if (in < 0) continue;
      const float v = DeviceElement<In>::load(from.data, in * from.pitch + column);
      const bool is_first = count++ == 0 && !step.implicit_zero;
      if (step.kind == Kind::max_pool)
        sum = is_first || v > sum ? v : sum;
      else
        sum += v;
    }
    if (step.kind == Kind::avg_pool && count > 0) sum /= static_cast<float>(count);
    DeviceElement<Out>::store(to.data, row * to.pitch + column, sum);
  }
}

// Rank of the first key of a batch entry or a later one.
__device__ std::int64_t first_rank(const Key* keys, std::int64_t count, std::int32_t batch) {
  std::int64_t low = 0, high = count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (static_cast<std::int32_t>(keys[middle] >> (3 * kAxisBits)) < batch)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// A block reduces one batch entry of 32 channels: 8 threads a channel take every eighth row, and
// their results are combined in the order of the threads.
constexpr int kPoolColumns = 32, kPoolParts = 8;

template <class In, class Out>
__global__ void __launch_bounds__(kPoolColumns* kPoolParts)
    global_pool_entries(Kind kind, LevelRowsView level, Matrix from, Matrix to) {
  __shared__ double parts[kPoolParts][kPoolColumns];
  const auto batch = static_cast<std::int32_t>(blockIdx.x);
  const int lane = threadIdx.x % kPoolColumns, part = threadIdx.x / kPoolColumns;
  const std::int32_t column = static_cast<std::int32_t>(blockIdx.y) * kPoolColumns + lane;
  const std::int64_t count = rows_of(level.rows);
  const std::int64_t begin = first_rank(level.keys, count, batch),
                     end = first_rank(level.keys, count, batch + 1);
  const bool is_max = kind == Kind::global_max;
  double sum = is_max ? -std::numeric_limits<double>::infinity() : 0;
  if (column < to.channels) {
    for (std::int64_t rank = begin + part; rank < end; rank += kPoolParts) {
      const std::int64_t row = level.rank_to_row != nullptr ? level.rank_to_row[rank] : rank;
      const double v = DeviceElement<In>::load(from.data, row * from.pitch + column);
      sum = is_max ? (v > sum ? v : sum) : sum + v;
    }
  }
  parts[part][lane] = sum;
  __syncthreads();
  if (part != 0 || column >= to.channels) return;
  for (int other = 1; other < kPoolParts; ++other) {
    const double v = parts[other][lane];
    sum = is_max ? (v > sum ? v : sum) : sum + v;
  }
  if (begin == end)
    sum = 0;
  else if (kind == Kind::global_avg)
    sum /= static_cast<double>(end - begin);
  DeviceElement<Out>::store(to.data, batch * to.pitch + column, static_cast<float>(sum));
}

template <class In>
__global__ void dense_rows(LevelRowsView level, Matrix from, float* dense, std::int64_t width,
                           std::int64_t height, std::int64_t depth) {
  const std::int64_t items = rows_of(level.rows) * from.channels;
  const std::int64_t plane = height * width, volume = from.channels * depth * plane;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t rank = i / from.channels, c = i % from.channels;
    const std::int64_t row = level.rank_to_row != nullptr ? level.rank_to_row[rank] : rank;
    const Coord at = unpack(level.keys[rank]);
    dense[at.batch * volume + (c * depth + at.z) * plane + at.y * width + at.x] =
        DeviceElement<In>::load(from.data, row * from.pitch + c);
  }
}

template <class In, class Out>
__global__ void point_rows_gather(const std::int64_t* point_rows, std::int64_t points, Matrix from,
                                  Matrix to) {
  const std::int64_t items = points * to.channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t point = i / to.channels, column = i % to.channels, row = point_rows[point];
    const float v = row >= 0 ? DeviceElement<In>::load(from.data, row * from.pitch + column) : 0.f;
    DeviceElement<Out>::store(to.data, point * to.pitch + column, v);
  }
}

__global__ void differing_ranks(LevelRowsView first, LevelRowsView second,
                                std::int32_t* mismatches) {
  const std::int64_t a = rows_of(first.rows), b = rows_of(second.rows);
  const auto row = [](const LevelRowsView& level, std::int64_t rank) {
    return level.rank_to_row != nullptr ? level.rank_to_row[rank] : rank;
  };
  for (std::int64_t i = first_item(); i < max(a, b); i += item_step()) {
    const bool differs =
        i >= a || i >= b || first.keys[i] != second.keys[i] || row(first, i) != row(second, i);
    if (differs) atomicAdd(mismatches, 1);
  }
}

__global__ void identity_slots(IdentityTable table, RowCount rows) {
  const std::int64_t count = rows_of(rows);
  for (std::int64_t i = first_item(); i < table.capacity; i += item_step()) {
    table.iota[i] = i < count ? static_cast<std::int32_t>(i) : -1;
    if (i % gemm_core::kSlotGroup == 0) table.masks[i / gemm_core::kSlotGroup] = i < count ? 1 : 0;
    if (i < 5) table.plane_begin[i] = i < 3 ? 0 : static_cast<std::int32_t>(count);
  }
}

// Calls body.operator()<In, Out>() for the element types of a step.
template <class Body>
void visit_types(DType in, const Destination& output, const char* operation, Body&& body) {
  base::visit_dtype<float, base::half_t, base::bf16_t>(in, operation, [&]<class In>() {
    if (output.rounds_to_tf32) {
      if constexpr (std::is_same_v<In, float>)
        body.template operator()<In, base::tf32_t>();
      else if constexpr (std::is_same_v<In, base::half_t>)
        body.template operator()<In, base::tf32_t>();
      else
        base::fail(operation, ": bfloat16 to tf32 is not supported");
      return;
    }
    base::visit_dtype<float, base::half_t, base::bf16_t>(
        output.view.dtype, operation, [&]<class Out>() { body.template operator()<In, Out>(); });
  });
}

}  // namespace

void elementwise(const base::ConstTensorView& input, const gemm_core::Epilogue& epilogue,
                 const Destination& output, const RowCount& rows, cudaStream_t stream) {
  const DeviceEpilogue lowered = gemm_core::cuda::lower_epilogue(epilogue, output.view);
  visit_types(input.dtype, output, "elementwise", [&]<class In, class Out>() {
    base::cuda::launch(
        elementwise_rows<In, Out>,
        {.grid = blocks_for(rows.bound * output.view.shape[1]), .block = dim3(kThreads)}, stream,
        matrix(input), matrix(output.view), rows, lowered);
  });
}

void pool(const PoolStep& step, const base::ConstTensorView& input, const Destination& output,
          const RowCount& rows, cudaStream_t stream) {
  visit_types(input.dtype, output, "pool", [&]<class In, class Out>() {
    base::cuda::launch(
        pool_rows<In, Out>,
        {.grid = blocks_for(rows.bound * output.view.shape[1]), .block = dim3(kThreads)}, stream,
        step, matrix(input), matrix(output.view), rows);
  });
}

void global_pool(Kind kind, const LevelRowsView& level, const base::ConstTensorView& input,
                 const Destination& output, std::int32_t batch_size, cudaStream_t stream) {
  const auto columns =
      static_cast<unsigned>((output.view.shape[1] + kPoolColumns - 1) / kPoolColumns);
  visit_types(input.dtype, output, "global pool", [&]<class In, class Out>() {
    base::cuda::launch(global_pool_entries<In, Out>,
                       {.grid = dim3(static_cast<unsigned>(batch_size), columns),
                        .block = dim3(kPoolColumns * kPoolParts)},
                       stream, kind, level, matrix(input), matrix(output.view));
  });
}

void to_dense(const LevelRowsView& level, const base::ConstTensorView& input, float* dense,
              const std::array<std::int64_t, 3>& shape, cudaStream_t stream) {
  base::visit_dtype<float, base::half_t, base::bf16_t>(input.dtype, "to_dense", [&]<class In>() {
    base::cuda::launch(
        dense_rows<In>,
        {.grid = blocks_for(level.rows.bound * input.shape[1]), .block = dim3(kThreads)}, stream,
        level, matrix(input), dense, shape[0], shape[1], shape[2]);
  });
}

void gather_points(const std::int64_t* point_rows, std::int64_t points,
                   const base::ConstTensorView& input, const Destination& output,
                   cudaStream_t stream) {
  visit_types(input.dtype, output, "devoxelize", [&]<class In, class Out>() {
    base::cuda::launch(point_rows_gather<In, Out>,
                       {.grid = blocks_for(points * output.view.shape[1]), .block = dim3(kThreads)},
                       stream, point_rows, points, matrix(input), matrix(output.view));
  });
}

void compare_levels(const LevelRowsView& first, const LevelRowsView& second,
                    std::int32_t* mismatches, cudaStream_t stream) {
  base::cuda::launch(
      differing_ranks,
      {.grid = blocks_for(std::max(first.rows.bound, second.rows.bound)), .block = dim3(kThreads)},
      stream, first, second, mismatches);
}

void fill_identity(const IdentityTable& table, const RowCount& rows, cudaStream_t stream) {
  base::cuda::launch(identity_slots, {.grid = blocks_for(table.capacity), .block = dim3(kThreads)},
                     stream, table, rows);
}

}  // namespace sparseconv::cuda

#include "sparseconv/cuda/step_kernels.hpp"

#include <limits>
#include <type_traits>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/base/fast_divmod.hpp"
#include "gemm_core/device/cuda/lower_epilogue.hpp"
#include "sparseconv/cuda/row_kernels.cuh"

namespace sparseconv::cuda {
namespace {

using gemm_core::DeviceEpilogue;
using Kind = PlanStep::Kind;

// `kWidth` neighbouring values; four where they start at a multiple of four.
template <class T, int kWidth>
__device__ __forceinline__ void load_piece(const void* data, std::int64_t at, float (&v)[kWidth]) {
  if constexpr (kWidth == 1) {
    v[0] = DeviceElement<T>::load(data, at);
  } else if constexpr (sizeof(T) == 4) {
    const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(data) + at);
    v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
  } else {
    const uint2 four =
        *reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(data) + at);
    const float2 low = DeviceElement<T>::unpack(four.x), high = DeviceElement<T>::unpack(four.y);
    v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
  }
}
template <class T, int kWidth>
__device__ __forceinline__ void store_piece(void* data, std::int64_t at, const float (&v)[kWidth]) {
  if constexpr (kWidth == 1) {
    DeviceElement<T>::store(data, at, v[0]);
  } else if constexpr (std::is_same_v<T, float>) {
    *reinterpret_cast<float4*>(static_cast<float*>(data) + at) =
        make_float4(v[0], v[1], v[2], v[3]);
  } else if constexpr (sizeof(T) == 4) {
    for (int i = 0; i < 4; ++i) DeviceElement<T>::store(data, at + i, v[i]);
  } else {
    *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(data) + at) =
        make_uint2(DeviceElement<T>::pack(v[0], v[1]), DeviceElement<T>::pack(v[2], v[3]));
  }
}

// `pieces`: of a row. Rows times pieces are below 2^32 where `is_short`.
template <class In, class Out, int kWidth>
__global__ void elementwise_rows(Matrix from, Matrix to, RowCount rows, base::FastDivMod pieces,
                                 bool is_short, const __grid_constant__ DeviceEpilogue epilogue) {
  wait_and_go_on();
  const std::int64_t items = rows_of(rows) * pieces.divisor();
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const auto [quotient, remainder] = pieces(static_cast<std::uint32_t>(i));
    const std::int64_t row = is_short ? quotient : i / pieces.divisor();
    const int column = kWidth * static_cast<int>(is_short ? remainder : i % pieces.divisor());
    float v[kWidth];
    load_piece<In>(from.data, row * from.pitch + column, v);
#pragma unroll
    for (int c = 0; c < kWidth; ++c)
      v[c] = gemm_core::apply_epilogue<Out>(epilogue, v[c], row, column + c);
    store_piece<Out>(to.data, row * to.pitch + column, v);
  }
}

template <class View>
bool has_fours(const View& v) {
  return v.shape[1] % 4 == 0 && v.stride[0] % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(v.data) %
                 static_cast<std::size_t>(4 * base::bytes(v.dtype)) ==
             0;
}

template <class In, class Out>
__global__ void pool_rows(PoolStep step, Matrix from, Matrix to, RowCount rows) {
  wait_and_go_on();
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

// A block reduces one batch entry of 32 channels: 8 threads a channel take every eighth row, and
// their results are combined in the order of the threads.
constexpr int kPoolColumns = 32, kPoolParts = 8;

template <class In, class Out>
__global__ void __launch_bounds__(kPoolColumns* kPoolParts)
    global_pool_entries(Kind kind, LevelRowsView level, Matrix from, Matrix to) {
  wait_and_go_on();
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
  wait_and_go_on();
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

struct MergedParts {
  Matrix input[kMaxMergedParts];
  const std::int32_t* rank_to_row[kMaxMergedParts];
  std::int32_t count = 0;
};

template <class In, class Out>
__global__ void merge_rows(const __grid_constant__ MergedParts parts, MergeView view, Matrix to,
                           RowCount rows) {
  wait_and_go_on();
  const std::int64_t items = rows_of(rows) * to.channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t row = i / to.channels, column = i % to.channels;
    float sum = 0;
    int p = 0;
    for (std::int32_t j = view.begin[row]; j < view.begin[row + 1]; ++j) {
      const std::int32_t item = view.items[j];
      while (p + 1 < parts.count && item >= view.part_begin[p + 1]) ++p;
      std::int64_t in = item - view.part_begin[p];
      if (parts.rank_to_row[p] != nullptr) in = parts.rank_to_row[p][in];
      sum += DeviceElement<In>::load(parts.input[p].data, in * parts.input[p].pitch + column);
    }
    DeviceElement<Out>::store(to.data, row * to.pitch + column, sum);
  }
}

__global__ void differing_ranks(LevelRowsView first, LevelRowsView second, std::int32_t* mismatch) {
  wait_and_go_on();
  const std::int64_t a = rows_of(first.rows), b = rows_of(second.rows);
  const auto row = [](const LevelRowsView& level, std::int64_t rank) {
    return level.rank_to_row != nullptr ? level.rank_to_row[rank] : rank;
  };
  for (std::int64_t i = first_item(); i < max(a, b); i += item_step()) {
    const bool differs =
        i >= a || i >= b || first.keys[i] != second.keys[i] || row(first, i) != row(second, i);
    if (differs) atomicMax(mismatch, 0x7fffffff - static_cast<std::int32_t>(i));
  }
}

struct IdentityJobs {
  IdentityJob job[kMaxIdentities];
};

// A row of blocks a job.
__global__ void identity_slots(const __grid_constant__ IdentityJobs jobs) {
  wait_and_go_on();
  const IdentityTable& table = jobs.job[blockIdx.y].table;
  const std::int64_t count = rows_of(jobs.job[blockIdx.y].rows);
  for (std::int64_t i = first_item(); i < table.capacity; i += item_step()) {
    table.iota[i] = i < count ? static_cast<std::int32_t>(i) : -1;
    if (i % gemm_core::kSlotGroup == 0) table.masks[i / gemm_core::kSlotGroup] = i < count ? 1 : 0;
    if (i < 5) table.plane_begin[i] = i < 3 ? 0 : static_cast<std::int32_t>(count);
  }
}

}  // namespace

void elementwise(const base::ConstTensorView& input, const gemm_core::Epilogue& epilogue,
                 const Destination& output, const RowCount& rows, cudaStream_t stream) {
  const DeviceEpilogue lowered = gemm_core::cuda::lower_epilogue(epilogue, output.view);
  visit_types(input.dtype, output, "elementwise", [&]<class In, class Out>() {
    const auto run = [&]<int kWidth>() {
      const std::int64_t pieces = output.view.shape[1] / kWidth;
      if (pieces == 0) return;
      base::cuda::launch(
          elementwise_rows<In, Out, kWidth>,
          {.grid = blocks_for(rows.bound * pieces), .block = dim3(kThreads), .overlap = true},
          stream, matrix(input), matrix(output.view), rows,
          base::FastDivMod(static_cast<std::uint32_t>(pieces)),
          rows.bound * pieces < std::int64_t{1} << 32, lowered);
    };
    if (has_fours(input) && has_fours(output.view))
      run.template operator()<4>();
    else
      run.template operator()<1>();
  });
}

void pool(const PoolStep& step, const base::ConstTensorView& input, const Destination& output,
          const RowCount& rows, cudaStream_t stream) {
  visit_types(input.dtype, output, "pool", [&]<class In, class Out>() {
    base::cuda::launch(pool_rows<In, Out>,
                       {.grid = blocks_for(rows.bound * output.view.shape[1]),
                        .block = dim3(kThreads),
                        .overlap = true},
                       stream, step, matrix(input), matrix(output.view), rows);
  });
}

void global_pool(Kind kind, const LevelRowsView& level, const base::ConstTensorView& input,
                 const Destination& output, std::int32_t batch_size, cudaStream_t stream) {
  const auto columns =
      static_cast<unsigned>((output.view.shape[1] + kPoolColumns - 1) / kPoolColumns);
  visit_types(input.dtype, output, "global pool", [&]<class In, class Out>() {
    base::cuda::launch(global_pool_entries<In, Out>,
                       {.grid = dim3(static_cast<unsigned>(batch_size), columns),
                        .block = dim3(kPoolColumns * kPoolParts),
                        .overlap = true},
                       stream, kind, level, matrix(input), matrix(output.view));
  });
}

void to_dense(const LevelRowsView& level, const base::ConstTensorView& input, float* dense,
              const std::array<std::int64_t, 3>& shape, cudaStream_t stream) {
  base::visit_dtype<float, base::half_t, base::bf16_t>(input.dtype, "to_dense", [&]<class In>() {
    base::cuda::launch(dense_rows<In>,
                       {.grid = blocks_for(level.rows.bound * input.shape[1]),
                        .block = dim3(kThreads),
                        .overlap = true},
                       stream, level, matrix(input), dense, shape[0], shape[1], shape[2]);
  });
}

void merge(std::span<const MergePart> parts, const MergeView& view, const Destination& output,
           const RowCount& rows, cudaStream_t stream) {
  MergedParts merged;
  for (const MergePart& part : parts) {
    merged.input[merged.count] = matrix(part.input);
    merged.rank_to_row[merged.count++] = part.rank_to_row;
  }
  visit_types(parts[0].input.dtype, output, "merge", [&]<class In, class Out>() {
    base::cuda::launch(merge_rows<In, Out>,
                       {.grid = blocks_for(rows.bound * output.view.shape[1]),
                        .block = dim3(kThreads),
                        .overlap = true},
                       stream, merged, view, matrix(output.view), rows);
  });
}

void compare_levels(const LevelRowsView& first, const LevelRowsView& second, std::int32_t* mismatch,
                    cudaStream_t stream) {
  base::cuda::launch(differing_ranks,
                     {.grid = blocks_for(std::max(first.rows.bound, second.rows.bound)),
                      .block = dim3(kThreads),
                      .overlap = true},
                     stream, first, second, mismatch);
}

void fill_identities(std::span<const IdentityJob> all, cudaStream_t stream) {
  while (!all.empty()) {
    const auto now = all.first(std::min<std::size_t>(all.size(), kMaxIdentities));
    all = all.subspan(now.size());
    IdentityJobs jobs{};
    std::copy(now.begin(), now.end(), jobs.job);
    std::int64_t largest = 0;
    for (const IdentityJob& job : now) largest = std::max(largest, job.table.capacity);
    base::cuda::launch(identity_slots,
                       {.grid = dim3(blocks_for(largest).x, static_cast<unsigned>(now.size())),
                        .block = dim3(kThreads),
                        .overlap = true},
                       stream, jobs);
  }
}

void check_kernels_run_on(int device) {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, identity_slots);
  const auto& info = base::cuda::device_info(device);
  ENSURE(error == cudaSuccess, "device cuda:", device, ": this build has no kernels for sm_",
         info.major, info.minor, " (", cudaGetErrorString(error),
         "); CMAKE_CUDA_ARCHITECTURES names those that it has");
}

}  // namespace sparseconv::cuda

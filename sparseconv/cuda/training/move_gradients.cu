#include "sparseconv/cuda/training/move_gradients.hpp"

#include "sparseconv/cuda/row_kernels.cuh"

namespace sparseconv::cuda {
namespace {

using Kind = PlanStep::Kind;

struct Target {
  Matrix to;
  bool adds = false;
};
template <class T, class Stored>
__device__ void write(const Target& target, std::int64_t row, std::int64_t column, float v) {
  const std::int64_t at = row * target.to.pitch + column;
  if (target.adds) v += DeviceElement<T>::load(target.to.data, at);
  DeviceElement<Stored>::store(target.to.data, at, v);
}

// max_pool: the tap that gave each value, -1 where none did. avg_pool: how many rows it is made of.
template <class T>
__global__ void pool_sources(PoolStep step, Matrix input, RowCount rows, int channels,
                             std::int32_t* to) {
  wait_and_go_on();
  const std::int64_t items = rows_of(rows) * channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t row = i / channels, column = i % channels;
    float best = 0;
    int winner = -1, count = 0;
    for (int tap = 0; tap < step.taps; ++tap) {
      const std::int32_t in = step.table[tap * step.pitch + row];
      if (in < 0) continue;
      ++count;
      if (step.kind != Kind::max_pool) continue;
      const float v = DeviceElement<T>::load(input.data, in * input.pitch + column);
      const bool is_first = winner < 0 && !step.implicit_zero;
      if (!is_first && !(v > best)) continue;
      best = v;
      winner = tap;
    }
    to[i] = step.kind == Kind::max_pool ? winner : count;
  }
}

template <class T, class Stored>
__global__ void pool_gradient_rows(PoolStep step, const std::int32_t* inverse, std::int64_t pitch,
                                   Matrix gradient, Target target, const std::int32_t* sources,
                                   RowCount rows) {
  wait_and_go_on();
  const int channels = target.to.channels;
  const std::int64_t items = rows_of(rows) * channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t row = i / channels, column = i % channels;
    float sum = 0;
    for (int tap = 0; tap < step.taps; ++tap) {
      const std::int32_t out = inverse[tap * pitch + row];
      if (out < 0) continue;
      const float g = DeviceElement<T>::load(gradient.data, out * gradient.pitch + column);
      const std::int64_t source = static_cast<std::int64_t>(out) * channels + column;
      if (step.kind == Kind::max_pool)
        sum += sources[source] == tap ? g : 0.f;
      else
        sum += step.kind == Kind::avg_pool ? g / static_cast<float>(sources[source]) : g;
    }
    write<T, Stored>(target, row, column, sum);
  }
}

// A block a batch entry and 32 channels, 8 threads a channel: the first row, by number, that
// attains the maximum; -1 where the entry is empty.
constexpr int kColumns = 32, kParts = 8;
template <class T>
__global__ void __launch_bounds__(kColumns* kParts)
    global_winners(LevelRowsView level, Matrix input, std::int32_t* winners) {
  wait_and_go_on();
  __shared__ float values[kParts][kColumns];
  __shared__ std::int32_t rows[kParts][kColumns];
  const auto batch = static_cast<std::int32_t>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % kColumns;
  const int part = static_cast<int>(threadIdx.x) / kColumns;
  const int column = static_cast<int>(blockIdx.y) * kColumns + lane;
  const std::int64_t count = rows_of(level.rows);
  const std::int64_t begin = first_rank(level.keys, count, batch),
                     end = first_rank(level.keys, count, batch + 1);
  float best = 0;
  std::int32_t winner = -1;
  const auto offer = [&](float v, std::int32_t row) {
    if (row < 0 || (winner >= 0 && (v < best || (v == best && row > winner)))) return;
    best = v;
    winner = row;
  };
  if (column < input.channels) {
    for (std::int64_t rank = begin + part; rank < end; rank += kParts) {
      const auto row =
          static_cast<std::int32_t>(level.rank_to_row != nullptr ? level.rank_to_row[rank] : rank);
      offer(DeviceElement<T>::load(input.data, row * input.pitch + column), row);
    }
  }
  values[part][lane] = best;
  rows[part][lane] = winner;
  __syncthreads();
  if (part != 0 || column >= input.channels) return;
  for (int other = 1; other < kParts; ++other) offer(values[other][lane], rows[other][lane]);
  winners[static_cast<std::int64_t>(batch) * input.channels + column] = winner;
}

template <class T, class Stored>
__global__ void global_gradient_rows(Kind kind, LevelRowsView level, Matrix gradient, Target target,
                                     const std::int32_t* winners) {
  wait_and_go_on();
  const int channels = target.to.channels;
  const std::int64_t count = rows_of(level.rows), items = count * channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t rank = i / channels, column = i % channels;
    const std::int64_t row = level.rank_to_row != nullptr ? level.rank_to_row[rank] : rank;
    const auto batch = static_cast<std::int32_t>(level.keys[rank] >> (3 * kAxisBits));
    const float g = DeviceElement<T>::load(gradient.data, batch * gradient.pitch + column);
    if (kind == Kind::global_max) {
      const bool has_won = winners[static_cast<std::int64_t>(batch) * channels + column] == row;
      write<T, Stored>(target, row, column, has_won ? g : 0.f);
    } else {
      const std::int64_t size =
          first_rank(level.keys, count, batch + 1) - first_rank(level.keys, count, batch);
      write<T, Stored>(target, row, column, g / static_cast<float>(size));
    }
  }
}

struct MergeTargets {
  Target target[kMaxMergedParts];
  const std::int32_t* rank_to_row[kMaxMergedParts];
  int count = 0;
};
// Each row of a part falls on exactly one output row.
template <class T, class Stored>
__global__ void merge_gradient_rows(const __grid_constant__ MergeTargets parts, MergeView view,
                                    Matrix gradient, RowCount rows) {
  wait_and_go_on();
  const std::int64_t items = rows_of(rows) * gradient.channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t row = i / gradient.channels, column = i % gradient.channels;
    const float g = DeviceElement<T>::load(gradient.data, row * gradient.pitch + column);
    int p = 0;
    for (std::int32_t j = view.begin[row]; j < view.begin[row + 1]; ++j) {
      const std::int32_t item = view.items[j];
      while (p + 1 < parts.count && item >= view.part_begin[p + 1]) ++p;
      if (parts.target[p].to.data == nullptr) continue;
      std::int64_t in = item - view.part_begin[p];
      if (parts.rank_to_row[p] != nullptr) in = parts.rank_to_row[p][in];
      write<T, Stored>(parts.target[p], in, column, g);
    }
  }
}

template <class T, class Stored>
__global__ void dense_gradient_rows(LevelRowsView level, const float* dense, std::int64_t width,
                                    std::int64_t height, std::int64_t depth, Target target) {
  wait_and_go_on();
  const int channels = target.to.channels;
  const std::int64_t items = rows_of(level.rows) * channels;
  const std::int64_t plane = height * width, volume = channels * depth * plane;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t rank = i / channels, c = i % channels;
    const std::int64_t row = level.rank_to_row != nullptr ? level.rank_to_row[rank] : rank;
    const Coord at = unpack(level.keys[rank]);
    write<T, Stored>(target, row, c,
                     dense[at.batch * volume + (c * depth + at.z) * plane + at.y * width + at.x]);
  }
}

// --- points

// Whole numbers that stand for gradients: v * 2^exponent.
struct FixedPoint {
  const std::uint32_t* largest;  // bits of the largest magnitude among the gradients
  RowCount points;
  __device__ bool is_finite() const { return *largest < 0x7f800000u; }
  // Sums over all points stay below 2^62.
  __device__ int exponent() const {
    int above = 0;
    frexpf(__uint_as_float(*largest), &above);
    return 62 - above - (64 - __clzll(rows_of(points)));
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    find_largest(Matrix gradient, RowCount points, std::uint32_t* largest) {
  wait_and_go_on();
  const std::int64_t items = rows_of(points) * gradient.channels;
  std::uint32_t own = 0;  // as integers, bits of magnitudes are in order, NaN above infinity
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t at = i / gradient.channels * gradient.pitch + i % gradient.channels;
    own = max(own, __float_as_uint(fabsf(DeviceElement<T>::load(gradient.data, at))));
  }
  own = __reduce_max_sync(~0u, own);
  if (threadIdx.x % 32 == 0 && own > 0) atomicMax(largest, own);
}

template <class T>
__global__ void add_shares(const Blend* blends, Matrix gradient, FixedPoint fixed,
                           unsigned long long* sums) {
  wait_and_go_on();
  const int channels = gradient.channels;
  const std::int64_t items = rows_of(fixed.points) * channels;
  if (items == 0 || !fixed.is_finite()) return;
  const double unit = ldexp(1.0, fixed.exponent());
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t point = i / channels, column = i % channels;
    const Blend& blend = blends[point];
    const double g = DeviceElement<T>::load(gradient.data, point * gradient.pitch + column) * unit;
    for (int k = 0; k < 8 && blend.row[k] >= 0; ++k) {
      const long long share = __double2ll_rn(blend.weight[k] * g);
      atomicAdd(sums + std::int64_t{blend.row[k]} * channels + column,
                static_cast<unsigned long long>(share));
    }
  }
}

template <class T, class Stored>
__global__ void write_shares(const std::int64_t* sums, FixedPoint fixed, Target target,
                             RowCount rows) {
  wait_and_go_on();
  const int channels = target.to.channels;
  const std::int64_t items = rows_of(rows) * channels;
  const bool is_finite = fixed.is_finite();
  const double unit = rows_of(fixed.points) > 0 && is_finite ? ldexp(1.0, -fixed.exponent()) : 0;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const double sum = is_finite ? static_cast<double>(sums[i]) * unit : nan("");
    write<T, Stored>(target, i / channels, i % channels, static_cast<float>(sum));
  }
}

// Calls body.operator()<T, Stored>().
template <class Body>
void visit(base::DType dtype, bool rounds_to_tf32, const Body& body) {
  base::visit_dtype<float, base::half_t, base::bf16_t>(dtype, "gradient", [&]<class T>() {
    if constexpr (std::is_same_v<T, float>) {
      if (rounds_to_tf32) return body.template operator()<T, base::tf32_t>();
    }
    body.template operator()<T, T>();
  });
}

base::cuda::LaunchShape items(std::int64_t count) {
  return {.grid = blocks_for(count), .block = dim3(kThreads), .overlap = true};
}
Target lower(const GradientTarget& target) {
  return target.to.data == nullptr ? Target{} : Target{matrix(target.to), target.adds};
}

}  // namespace

void pool_gradient(const PoolGradientStep& s, cudaStream_t stream) {
  const std::int64_t channels = s.gradient.shape[1];
  visit(s.gradient.dtype, s.rounds_to_tf32, [&]<class T, class Stored>() {
    if (s.forward.kind != Kind::sum_pool) {
      base::cuda::launch(pool_sources<T>, items(s.output_rows.bound * channels), stream, s.forward,
                         matrix(s.input), s.output_rows, static_cast<int>(channels), s.scratch);
    }
    base::cuda::launch(pool_gradient_rows<T, Stored>, items(s.input_rows.bound * channels), stream,
                       s.forward, s.inverse, s.inverse_pitch, matrix(s.gradient), lower(s.to),
                       s.scratch, s.input_rows);
  });
}

void global_pool_gradient(const GlobalPoolGradientStep& s, cudaStream_t stream) {
  const std::int64_t channels = s.gradient.shape[1];
  visit(s.gradient.dtype, s.rounds_to_tf32, [&]<class T, class Stored>() {
    if (s.kind == Kind::global_max) {
      base::cuda::launch(global_winners<T>,
                         {.grid = dim3(static_cast<unsigned>(s.batch_size),
                                       static_cast<unsigned>((channels + kColumns - 1) / kColumns)),
                          .block = dim3(kColumns * kParts),
                          .overlap = true},
                         stream, s.level, matrix(s.input), s.scratch);
    }
    base::cuda::launch(global_gradient_rows<T, Stored>, items(s.level.rows.bound * channels),
                       stream, s.kind, s.level, matrix(s.gradient), lower(s.to), s.scratch);
  });
}

void merge_gradient(std::span<const MergeGradientPart> parts, const MergeView& view,
                    const base::ConstTensorView& gradient, const RowCount& rows,
                    bool rounds_to_tf32, cudaStream_t stream) {
  MergeTargets targets{};
  for (const MergeGradientPart& part : parts) {
    targets.target[targets.count] = lower(part.to);
    targets.rank_to_row[targets.count++] = part.rank_to_row;
  }
  visit(gradient.dtype, rounds_to_tf32, [&]<class T, class Stored>() {
    base::cuda::launch(merge_gradient_rows<T, Stored>, items(rows.bound * gradient.shape[1]),
                       stream, targets, view, matrix(gradient), rows);
  });
}

void to_dense_gradient(const LevelRowsView& level, const float* dense,
                       const std::array<std::int64_t, 3>& shape, const GradientTarget& to,
                       bool rounds_to_tf32, cudaStream_t stream) {
  visit(to.to.dtype, rounds_to_tf32, [&]<class T, class Stored>() {
    base::cuda::launch(dense_gradient_rows<T, Stored>, items(level.rows.bound * to.to.shape[1]),
                       stream, level, dense, shape[0], shape[1], shape[2], lower(to));
  });
}

std::int64_t blend_scratch(std::int64_t rows, std::int64_t channels) { return rows * channels + 1; }

void blend_gradient(const BlendGradientStep& s, cudaStream_t stream) {
  const std::int64_t channels = s.to.to.shape[1], size = s.rows.bound * channels;
  CUDA_CHECK(cudaMemsetAsync(
      s.scratch, 0,
      static_cast<std::size_t>(blend_scratch(s.rows.bound, channels)) * sizeof(std::int64_t),
      stream));
  auto* const largest = reinterpret_cast<std::uint32_t*>(s.scratch + size);
  const FixedPoint fixed{largest, s.points};
  visit(s.gradient.dtype, s.rounds_to_tf32, [&]<class T, class Stored>() {
    base::cuda::launch(find_largest<T>, items(s.points.bound * channels), stream,
                       matrix(s.gradient), s.points, largest);
    base::cuda::launch(add_shares<T>, items(s.points.bound * channels), stream, s.blends,
                       matrix(s.gradient), fixed, reinterpret_cast<unsigned long long*>(s.scratch));
    base::cuda::launch(write_shares<T, Stored>, items(size), stream, s.scratch, fixed, lower(s.to),
                       s.rows);
  });
}

}  // namespace sparseconv::cuda

#include "sparseconv/cuda/training/lovasz_kernels.hpp"

#include <bit>

#include "sparseconv/cuda/maps/radix_sort.cuh"
#include "sparseconv/cuda/room.hpp"
#include "sparseconv/cuda/row_kernels.cuh"

namespace sparseconv::cuda {
namespace {

// Classes that are sorted together: the class is the key's highest bits, the error the others.
constexpr int kErrorBits = 27, kGroup = 1 << (32 - kErrorBits);
constexpr std::uint32_t kErrorMask = (1u << kErrorBits) - 1;
constexpr std::uint32_t kLargest = kErrorMask - 1;  // key of error 0; rows without a label: after

constexpr int kTileItems = 4;
constexpr std::int64_t kTile = kThreads * kTileItems;
std::int64_t tiles_of(std::int64_t rows) { return (rows + kTile - 1) / kTile; }

struct Group {
  std::int32_t item[kGroup];
  std::int32_t positives[kGroup];
};

// A row a thread: its keys in all classes of the group, and twice its number, plus 1 where the
// class is its label.
template <class T>
__global__ void __launch_bounds__(kThreads)
    lovasz_keys(Matrix logits, const std::int32_t* labels, std::int32_t rows,
                const __grid_constant__ Group group, int count, std::uint32_t* keys,
                std::int32_t* values) {
  wait_and_go_on();
  const std::int64_t row = first_item();
  if (row >= rows) return;
  const auto logit = [&](int c) {
    return DeviceElement<T>::load(logits.data, row * logits.pitch + c);
  };
  const int label = labels[row];
  float largest = logit(0), sum = 0;
  for (int c = 1; c < logits.channels; ++c) largest = fmaxf(largest, logit(c));
  for (int c = 0; c < logits.channels; ++c) sum += expf(logit(c) - largest);
  for (int i = 0; i < count; ++i) {
    const int c = group.item[i];
    const float p = expf(logit(c) - largest) / sum;
    const float error = c == label ? 1 - p : p;
    std::uint32_t key = kErrorMask;
    if (label >= 0) key = kLargest - min(kLargest, __float2uint_rn(error * float(kLargest)));
    const std::int64_t to = static_cast<std::int64_t>(i) * rows + row;
    keys[to] = static_cast<std::uint32_t>(i) << kErrorBits | key;
    values[to] = static_cast<std::int32_t>(row) * 2 + (c == label ? 1 : 0);
  }
}

// Rows of a tile whose class it is: block (tile, class).
template <int = 0>
__global__ void __launch_bounds__(kThreads)
    lovasz_counts(const std::int32_t* values, std::int32_t rows, std::int32_t* counts) {
  wait_and_go_on();
  const std::int64_t first = blockIdx.x * kTile, last = min(first + kTile, std::int64_t{rows});
  const std::int32_t* const own = values + static_cast<std::int64_t>(blockIdx.y) * rows;
  int count = 0;
  for (std::int64_t i = first + threadIdx.x; i < last; i += kThreads) count += own[i] & 1;
  __shared__ int warps[kThreads / 32];
  count = __reduce_add_sync(~0u, count);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  count = 0;
  for (const int w : warps) count += w;
  counts[blockIdx.y * gridDim.x + blockIdx.x] = count;
}

// With h of P positives and m negatives among the first places, the loss there is 1 - (P - h) / (P
// + m): each place adds 1 / (P + m) where it is a positive, else (P - h) / ((P + m - 1) (P + m)).
template <int = 0>
__global__ void __launch_bounds__(kThreads)
    lovasz_steps(const std::uint32_t* keys, const std::int32_t* values, std::int32_t rows,
                 const __grid_constant__ Group group, const std::int32_t* counts,
                 float* derivatives, double* sums) {
  __shared__ std::int32_t warp_sums[kSortWarps];
  __shared__ double warp_losses[kThreads / 32];
  wait_and_go_on();
  static_assert(kThreads == kSortThreads, "exclusive_sum is of a sort's threads");
  const int tile = static_cast<int>(blockIdx.x), tiles = static_cast<int>(gridDim.x);
  std::int32_t before = 0, hits = 0;
  for (int t = static_cast<int>(threadIdx.x); t < tile; t += kThreads)
    before += counts[blockIdx.y * tiles + t];
  exclusive_sum(before, warp_sums, hits);

  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * rows;
  const std::int64_t first = tile * kTile + threadIdx.x * kTileItems;
  std::int32_t value[kTileItems], own = 0, all = 0;
#pragma unroll
  for (int i = 0; i < kTileItems; ++i) {
    value[i] = first + i < rows ? values[begin + first + i] : 0;
    own += value[i] & 1;
  }
  hits += exclusive_sum(own, warp_sums, all);
  const double positives = group.positives[blockIdx.y];
  float* const to = derivatives + static_cast<std::int64_t>(group.item[blockIdx.y]) * rows;
  double loss = 0;
#pragma unroll
  for (int i = 0; i < kTileItems; ++i) {
    if (first + i >= rows) break;
    const std::uint32_t key = keys[begin + first + i] & kErrorMask;
    if (key == kErrorMask) break;  // no label
    const bool is_hit = (value[i] & 1) != 0;
    hits += is_hit ? 1 : 0;
    const auto missed = static_cast<double>(first + i + 1 - hits), all_seen = positives + missed;
    const double step = is_hit ? 1 / all_seen : (positives - hits) / ((all_seen - 1) * all_seen);
    loss += step * (kLargest - key) / kLargest;
    to[value[i] >> 1] = static_cast<float>(is_hit ? -step : step);
  }
  for (int step = 16; step > 0; step /= 2) loss += __shfl_xor_sync(~0u, loss, step);
  if (threadIdx.x % 32 == 0) warp_losses[threadIdx.x / 32] = loss;
  __syncthreads();
  if (threadIdx.x != 0) return;
  loss = 0;
  for (const double w : warp_losses) loss += w;
  sums[blockIdx.y * tiles + tile] = loss;
}

}  // namespace

void LovaszLoss::enqueue(const base::ConstTensorView& logits, const std::int32_t* labels,
                         std::span<const std::int64_t> positives, cudaStream_t stream) {
  const std::int64_t rows = logits.shape[0], classes = logits.shape[1];
  ENSURE(static_cast<std::int64_t>(positives.size()) == classes,
         "lovasz_softmax: ", positives.size(), " counts for ", classes, " classes");
  ENSURE(rows < std::int64_t{1} << 30, "lovasz_softmax: ", rows, " rows, fewer than 2^30 expected");
  std::vector<std::int32_t> classes_present;
  for (std::int32_t c = 0; c < classes; ++c)
    if (positives[at(c)] > 0) classes_present.push_back(c);
  present_ = static_cast<int>(classes_present.size());
  sum_count_ = classes_present.size() * at(tiles_of(rows));
  make_room(derivatives_, at(rows * classes));
  make_room(sums_, sum_count_);
  make_room(host_sums_, sum_count_);
  if (rows == 0) return;
  CUDA_CHECK(cudaMemsetAsync(derivatives_.data(), 0, at(rows * classes) * sizeof(float), stream));
  const std::span<const std::int32_t> all = classes_present;
  for (std::size_t first = 0; first < all.size(); first += kGroup) {
    sort_group(logits, labels,
               all.subspan(first, std::min<std::size_t>(kGroup, all.size() - first)), positives,
               stream);
    const std::size_t sums = at(tiles_of(rows)) * std::min<std::size_t>(kGroup, all.size() - first);
    CUDA_CHECK(cudaMemcpyAsync(host_sums_.data() + first * at(tiles_of(rows)), sums_.data(),
                               sums * sizeof(double), cudaMemcpyDeviceToHost, stream));
  }
}

void LovaszLoss::sort_group(const base::ConstTensorView& logits, const std::int32_t* labels,
                            std::span<const std::int32_t> group,
                            std::span<const std::int64_t> positives, cudaStream_t stream) {
  using base::cuda::launch;
  const std::int64_t rows = logits.shape[0], tiles = tiles_of(rows);
  const auto count = static_cast<int>(group.size());
  const auto n = static_cast<std::int32_t>(rows);
  Group lowered{};
  for (std::size_t i = 0; i < group.size(); ++i) {
    lowered.item[i] = group[i];
    lowered.positives[i] = static_cast<std::int32_t>(positives[at(group[i])]);
  }
  const ItemCount number{.capacity = rows * count};
  ENSURE(number.capacity < std::int64_t{1} << 31, "lovasz_softmax: ", rows, " rows of ", count,
         " classes, fewer than 2^31 pairs expected");
  for (int i = 0; i < 2; ++i) {
    make_room(keys_[i], at(number.capacity));
    make_room(values_[i], at(number.capacity));
  }
  make_room(digits_, at(sort_scratch_counts(number)));
  make_room(counts_, at(tiles * count));
  base::visit_dtype<float, base::half_t, base::bf16_t>(logits.dtype, "loss", [&]<class T>() {
    launch(lovasz_keys<T>,
           {.grid = dim3(static_cast<unsigned>((rows + kThreads - 1) / kThreads)),
            .block = dim3(kThreads),
            .overlap = true},
           stream, matrix(logits), labels, n, lowered, count, keys_[0].data(), values_[0].data());
  });
  const int class_bits = std::bit_width(static_cast<unsigned>(count - 1));
  const auto sorted = radix_sort<std::uint32_t>(
      {keys_[0].data(), values_[0].data()}, {keys_[1].data(), values_[1].data()}, number,
      {.low = kErrorBits + class_bits}, digits_.data(), stream);
  const base::cuda::LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(count)),
      .block = dim3(kThreads),
      .overlap = true};
  launch(lovasz_counts<>, shape, stream, sorted.values, n, counts_.data());
  launch(lovasz_steps<>, shape, stream, sorted.keys, sorted.values, n, lowered, counts_.data(),
         derivatives_.data(), sums_.data());
}

double LovaszLoss::loss() const {
  double loss = 0;
  for (std::size_t i = 0; i < sum_count_; ++i) loss += host_sums_.data()[i];
  return present_ > 0 ? loss / present_ : 0;
}

}  // namespace sparseconv::cuda

#include <algorithm>
#include <limits>

#include "gemm_core/base/parallel.hpp"
#include "sparseconv/cpu/ops.hpp"

namespace sparseconv::cpu {
namespace {

using base::bf16_t;
using base::half_t;
using Kind = PlanStep::Kind;

constexpr std::int64_t kGrain = 512;        // rows
constexpr std::int64_t kChannelGrain = 16;  // channels of a global pool: a cache line of floats

template <class T>
class PoolRows {
 public:
  PoolRows(const PoolArguments& arguments, const base::ConstTensorView& input,
           const base::TensorView& output)
      : arguments_(arguments),
        from_(input.as<T>()),
        to_(output.as<T>()),
        pitch_from_(input.stride[0]),
        pitch_to_(output.stride[0]),
        rows_(output.shape[0]),
        channels_(output.shape[1]) {}

  void run(std::int64_t begin, std::int64_t end) const {
    thread_local std::vector<float> sum;
    sum.resize(static_cast<std::size_t>(channels_));
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t count = gather(row, sum.data());
      const bool is_average = arguments_.kind == Kind::avg_pool && count > 0;
      const auto divisor = static_cast<float>(is_average ? count : 1);
      T* to = to_ + row * pitch_to_;
      for (std::int64_t c = 0; c < channels_; ++c) {
        to[c] = T(sum[static_cast<std::size_t>(c)] / divisor);
      }
    }
  }

 private:
  // Combines the rows that exist; returns how many there are. No row gives zeros.
  std::int64_t gather(std::int64_t row, float* sum) const {
    const bool is_max = arguments_.kind == Kind::max_pool;
    std::fill_n(sum, channels_, 0.0f);
    std::int64_t count = 0;
    const auto taps = static_cast<std::int64_t>(arguments_.map->geometry.taps());
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const auto in = arguments_.map->table[static_cast<std::size_t>(tap * rows_ + row)];
      if (in < 0) continue;
      const T* from = from_ + in * pitch_from_;
      const bool is_first = count++ == 0 && !arguments_.implicit_zero;
      for (std::int64_t c = 0; c < channels_; ++c) {
        const auto value = static_cast<float>(from[c]);
        if (is_max) {
          sum[c] = is_first ? value : std::max(sum[c], value);
        } else {
          sum[c] += value;
        }
      }
    }
    return count;
  }

  const PoolArguments& arguments_;
  const T* from_;
  T* to_;
  std::int64_t pitch_from_, pitch_to_, rows_, channels_;
};

// One strip of channels over all rows, so that every sum has the order of the rows.
template <class T>
void global_strip(Kind kind, const Coordinates& coordinates, const base::ConstTensorView& input,
                  const base::TensorView& output, std::int64_t begin, std::int64_t end) {
  const auto batches = static_cast<std::size_t>(output.shape[0]);
  const auto width = static_cast<std::size_t>(end - begin);
  std::vector<double> sum(batches * width, 0.0);
  std::vector<std::int64_t> count(batches, 0);
  const auto coords = coordinates.coords();
  for (std::size_t row = 0; row < coords.size(); ++row) {
    const auto batch = static_cast<std::size_t>(coords[row].batch);
    const bool is_first = count[batch]++ == 0;
    const T* from = input.as<T>() + static_cast<std::int64_t>(row) * input.stride[0] + begin;
    double* to = sum.data() + batch * width;
    for (std::size_t c = 0; c < width; ++c) {
      const double value = static_cast<float>(from[c]);
      if (kind == Kind::global_max) {
        to[c] = is_first ? value : std::max(to[c], value);
      } else {
        to[c] += value;
      }
    }
  }
  for (std::size_t batch = 0; batch < batches; ++batch) {
    const bool is_average = kind == Kind::global_avg && count[batch] > 0;
    const double divisor = is_average ? static_cast<double>(count[batch]) : 1.0;
    T* to = output.as<T>() + static_cast<std::int64_t>(batch) * output.stride[0] + begin;
    for (std::size_t c = 0; c < width; ++c) {
      to[c] = T(static_cast<float>(sum[batch * width + c] / divisor));
    }
  }
}

template <class T>
void merge_rows(const MergeMap& map, std::span<const base::ConstTensorView> inputs,
                const base::TensorView& output, std::int64_t begin, std::int64_t end) {
  const std::int64_t channels = output.shape[1];
  thread_local std::vector<float> sum;
  for (std::int64_t row = begin; row < end; ++row) {
    sum.assign(static_cast<std::size_t>(channels), 0.0f);
    const auto last = map.begin[static_cast<std::size_t>(row) + 1];
    for (auto i = static_cast<std::size_t>(map.begin[static_cast<std::size_t>(row)]);
         i < static_cast<std::size_t>(last); ++i) {
      const auto& input = inputs[static_cast<std::size_t>(map.part[i])];
      const T* from = input.as<T>() + map.row[i] * input.stride[0];
      for (std::int64_t c = 0; c < channels; ++c) {
        sum[static_cast<std::size_t>(c)] += static_cast<float>(from[c]);
      }
    }
    T* to = output.as<T>() + row * output.stride[0];
    for (std::int64_t c = 0; c < channels; ++c) to[c] = T(sum[static_cast<std::size_t>(c)]);
  }
}

}  // namespace

void pool(const PoolArguments& arguments, const base::ConstTensorView& input,
          const base::TensorView& output) {
  base::visit_dtype<float, half_t, bf16_t>(input.dtype, "pool", [&]<class T>() {
    const PoolRows<T> rows(arguments, input, output);
    base::parallel_blocks(output.shape[0], kGrain,
                          [&](std::int64_t begin, std::int64_t end) { rows.run(begin, end); });
  });
}

void global_pool(Kind kind, const Coordinates& coordinates, const base::ConstTensorView& input,
                 const base::TensorView& output) {
  base::visit_dtype<float, half_t, bf16_t>(input.dtype, "global pool", [&]<class T>() {
    base::parallel_blocks(output.shape[1], kChannelGrain,
                          [&](std::int64_t begin, std::int64_t end) {
                            global_strip<T>(kind, coordinates, input, output, begin, end);
                          });
  });
}

void merge(const MergeMap& map, std::span<const base::ConstTensorView> inputs,
           const base::TensorView& output) {
  base::visit_dtype<float, half_t, bf16_t>(output.dtype, "merge", [&]<class T>() {
    base::parallel_blocks(output.shape[0], kGrain, [&](std::int64_t begin, std::int64_t end) {
      merge_rows<T>(map, inputs, output, begin, end);
    });
  });
}

}  // namespace sparseconv::cpu

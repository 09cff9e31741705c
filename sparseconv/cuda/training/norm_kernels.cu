#include "sparseconv/cuda/training/norm_kernels.hpp"

#include "sparseconv/cuda/training/row_sums.cuh"

namespace sparseconv::cuda {
namespace {

using gemm_core::Activation;

struct ApplyParams {
  const float *centre, *scale, *shift;
  Matrix addend[kMaxAddends];
  int addends;
  Activation activation;
  bool is_piecewise_linear;
  float slope;
};
// The last rows of a strip first: they were read last by whoever was here before, and may still be
// in the L2 cache.
template <class T, class Stored, int kWidth, bool kAdds>
__global__ void __launch_bounds__(kThreads)
    apply_strip(Matrix from, Matrix to, const __grid_constant__ ApplyParams p, RowCount rows,
                ChunkShape shape) {
  wait_and_go_on();
  extern __shared__ uint4 shared[];
  const Place at(rows, shape);
  if (at.y >= shape.down) return;
  for (int chunk = at.x; chunk < shape.chunks; chunk += shape.across) {
    const int column = chunk * kWidth;
    float centre[kWidth], scale[kWidth], shift[kWidth];
    load_vector(p.centre, column, 0.f, centre);
    load_vector(p.scale, column, 1.f, scale);
    load_vector(p.shift, column, 0.f, shift);
    Matrix read[kAdds ? 2 : 1] = {from};
    if constexpr (kAdds) read[1] = p.addend[0];
    RowStreams<T, kWidth, kAdds ? 2 : 1> streams;
    streams.walk(read, at, shape, column, shared, true, [&](std::int64_t row, const auto& get) {
      float v[kWidth];
      get(0, v);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) v[i] = fmaf(v[i] + centre[i], scale[i], shift[i]);
      if constexpr (kAdds) {
        float other[kWidth];
        get(1, other);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) v[i] += other[i];
        for (int a = 1; a < p.addends; ++a) {
          const Matrix& addend = p.addend[a];
          Chunk<T, kWidth>::load(addend.data, row * addend.pitch + column, other);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) v[i] += other[i];
        }
      }
      if (p.is_piecewise_linear) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) v[i] = gemm_core::piecewise_linear(v[i], p.slope);
      } else {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) v[i] = gemm_core::activate(v[i], p.activation, p.slope);
      }
      Chunk<Stored, kWidth>::store(to.data, row * to.pitch + column, v);
    });
  }
}

// Of each strip its mean and the squares about it, from sums about its first row.
template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    strip_moments(Matrix from, RowCount rows, ChunkShape shape, double* moments) {
  wait_and_go_on();
  extern __shared__ uint4 shared[];
  const Place at(rows, shape);
  if (at.first >= at.last) return;
  double* const means = moments + blockIdx.x * 2ll * from.channels;
  const auto count = static_cast<double>(at.last - at.first);
  for (int begin = 0; begin < shape.chunks; begin += shape.across) {
    const int column = (begin + at.x) * kWidth;
    float pivot[kWidth], sum[kWidth] = {}, squares[kWidth] = {};
    if (at.y < shape.down && column < from.channels) {
      Chunk<T, kWidth>::load(from.data, at.first * from.pitch + column, pivot);
      RowStreams<T, kWidth, 1> streams;
      streams.walk({from}, at, shape, column, shared, false, [&](std::int64_t, const auto& get) {
        float v[kWidth];
        get(0, v);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          const float d = v[i] - pivot[i];
          sum[i] += d;
          squares[i] = fmaf(d, d, squares[i]);
        }
      });
    }
    sum_down<kWidth>(at, shape, sum, squares, shared, [&](int c, double one, double two) {
      const int channel = begin * kWidth + c;
      if (channel >= from.channels) return;
      const double about = DeviceElement<T>::load(from.data, at.first * from.pitch + channel);
      means[channel] = about + one / count;
      means[from.channels + channel] = max(0.0, two - one * one / count);
    });
  }
}

// Moments of all strips, from sums about the mean of the first row's strip.
__global__ void __launch_bounds__(kFinishThreads)
    finish_moments(const double* moments, int channels, RowCount rows,
                   const __grid_constant__ NormVectors norm) {
  wait_and_go_on();
  const std::int64_t count = rows_of(rows);
  double one = 0, two = 0;
  int c = channel_of_warp(channels);
  const bool is_fixed = norm.running_mean != nullptr;
  const auto pivot_of = [&](int channel) {
    const std::int64_t strip = (kSumStrips + count - 1) / count - 1;
    return moments[strip * 2 * channels + channel];
  };
  if (!is_fixed && count > 0) {
    const int own = channel_of_thread();
    const double pivot = own < channels ? pivot_of(own) : 0;
    c = sum_strips(
        moments, channels, count,
        [&](double n, double mean, double squares) {
          const double off = mean - pivot;
          one += n * off;
          two += squares + n * off * off;
        },
        one, two);
  }
  if (threadIdx.x % 32 != 0 || c >= channels) return;
  double mean = 0, variance = 0;
  if (is_fixed) {
    mean = norm.running_mean[c];
    variance = norm.running_variance[c];
  } else if (count > 0) {
    const auto n = static_cast<double>(count);
    mean = pivot_of(c) + one / n;
    variance = max(0.0, (two - one * (one / n)) / n);
  }
  norm.mean[c] = mean;
  norm.variance[c] = variance;
  const double scale = norm.weight[c] / sqrt(variance + norm.eps);
  const float centre = -static_cast<float>(mean);
  norm.centre[c] = centre;
  norm.scale[c] = static_cast<float>(scale);
  norm.shift[c] = static_cast<float>(norm.bias[c] - scale * (mean + centre));
}

template <class In, class Out>
__global__ void load_items(Matrix from, Matrix to, RowCount rows) {
  wait_and_go_on();
  const std::int64_t items = rows_of(rows) * to.channels;
  for (std::int64_t i = first_item(); i < items; i += item_step()) {
    const std::int64_t row = i / to.channels;
    const auto column = static_cast<int>(i % to.channels);
    const float v = column < from.channels
                        ? DeviceElement<In>::load(from.data, row * from.pitch + column)
                        : 0.f;
    DeviceElement<Out>::store(to.data, row * to.pitch + column, v);
  }
}

template <class T>
__global__ void zero_items(Matrix to, RowCount rows) {
  wait_and_go_on();
  const std::int64_t items = rows_of(rows) * to.channels;
  for (std::int64_t i = first_item(); i < items; i += item_step())
    DeviceElement<T>::store(to.data, i / to.channels * to.pitch + i % to.channels, 0.f);
}

}  // namespace

void apply_rows(const base::ConstTensorView& input, const RowEpilogue& epilogue,
                const Destination& output, const RowCount& rows, cudaStream_t stream) {
  ENSURE(epilogue.addends <= kMaxAddends, "elementwise: a sum of more than ", kMaxAddends + 1,
         " operands");
  ApplyParams p{.centre = epilogue.centre,
                .scale = epilogue.scale,
                .shift = epilogue.shift,
                .addend = {},
                .addends = epilogue.addends,
                .activation = epilogue.activation,
                .is_piecewise_linear = gemm_core::is_piecewise_linear(epilogue.activation),
                .slope = epilogue.activation == Activation::relu         ? 0.f
                         : epilogue.activation == Activation::leaky_relu ? epilogue.slope
                                                                         : 1.f};
  bool is_wide = has_chunks(input) && has_chunks(output.view);
  for (int a = 0; a < epilogue.addends; ++a) {
    p.addend[a] = matrix(epilogue.addend[a]);
    is_wide = is_wide && has_chunks(epilogue.addend[a]);
  }
  const std::int64_t channels = output.view.shape[1];
  visit_rows(
      input.dtype, output.rounds_to_tf32, is_wide, "elementwise",
      [&]<class T, class Stored, int kWidth>() {
        const auto launch = [&](auto kernel, int streams_bytes) {
          base::cuda::launch(kernel, strips(streams_bytes), stream, matrix(input),
                             matrix(output.view), p, rows, ChunkShape(channels, kWidth));
        };
        if (epilogue.addends > 0)
          launch(apply_strip<T, Stored, kWidth, true>, RowStreams<T, kWidth, 2>::kSharedBytes);
        else
          launch(apply_strip<T, Stored, kWidth, false>, RowStreams<T, kWidth, 1>::kSharedBytes);
      });
}

std::int64_t sum_scratch(std::int64_t channels) { return std::int64_t{kSumStrips} * 2 * channels; }

void find_moments(const base::ConstTensorView& input, const NormVectors& norm, const RowCount& rows,
                  double* scratch, cudaStream_t stream) {
  const std::int64_t channels = input.shape[1];
  if (norm.running_mean == nullptr) {
    visit_rows(input.dtype, false, has_chunks(input), "batch_norm",
               [&]<class T, class Stored, int kWidth>() {
                 base::cuda::launch(strip_moments<T, kWidth>,
                                    strips_of_sums<RowStreams<T, kWidth, 1>>(kWidth), stream,
                                    matrix(input), rows, ChunkShape(channels, kWidth), scratch);
               });
  }
  base::cuda::launch(finish_moments, channels_of_strips(channels), stream, scratch,
                     static_cast<int>(channels), rows, norm);
}

void copy_rows(const base::ConstTensorView& from, const GradientTarget& to, bool rounds_to_tf32,
               const RowCount& rows, cudaStream_t stream) {
  RowEpilogue epilogue;
  if (to.adds) {
    epilogue.addend[0] = {to.to.data, to.to.dtype, to.to.device, to.to.shape, to.to.stride};
    epilogue.addends = 1;
  }
  apply_rows(from, epilogue, {to.to, rounds_to_tf32}, rows, stream);
}

void zero_rows(const base::TensorView& to, const RowCount& rows, cudaStream_t stream) {
  base::visit_dtype<float, base::half_t, base::bf16_t>(to.dtype, "zero", [&]<class T>() {
    base::cuda::launch(
        zero_items<T>,
        {.grid = blocks_for(rows.bound * to.shape[1]), .block = dim3(kThreads), .overlap = true},
        stream, matrix(to), rows);
  });
}

void load_rows(const base::ConstTensorView& from, const Destination& to, const RowCount& rows,
               cudaStream_t stream) {
  visit_types(from.dtype, to, "features", [&]<class In, class Out>() {
    base::cuda::launch(load_items<In, Out>,
                       {.grid = blocks_for(rows.bound * to.view.shape[1]),
                        .block = dim3(kThreads),
                        .overlap = true},
                       stream, matrix(from), matrix(to.view), rows);
  });
}

}  // namespace sparseconv::cuda

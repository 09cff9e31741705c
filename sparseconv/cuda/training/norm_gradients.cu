#include "sparseconv/cuda/training/norm_kernels.hpp"
#include "sparseconv/cuda/training/row_sums.cuh"

namespace sparseconv::cuda {
namespace {

using gemm_core::Activation;

struct Target {
  Matrix to;
  bool adds = false;
};
struct BackParams {
  Matrix gradient, value, input;
  Target addend[kMaxAddends];
  int addends;
  Activation activation;
  float slope;
  bool stores_gradient;                 // after the activation, where there is one
  const float *centre, *scale, *shift;  // of the norm; centre = -mean
  double* sums;                         // [strips][2][channels]: of g, of g (x - mean)
};

enum class Sums { none, one, two };

// What a batch norm gave: the sign that its activation saw, without reading it.
template <int kWidth>
struct NormOfInput {
  float centre[kWidth], scale[kWidth], shift[kWidth];
  __device__ void load(const float* c, const float* s, const float* t, int column) {
    load_vector(c, column, 0.f, centre);
    load_vector(s, column, 1.f, scale);
    load_vector(t, column, 0.f, shift);
  }
  __device__ float operator()(float x, int i) const {
    return fmaf(x + centre[i], scale[i], shift[i]);
  }
};

// Streams: the gradient, the value where an activation asks for it, the norm's input for two sums.
template <class T, int kWidth, Sums kSums>
using BackStreams = RowStreams<T, kWidth, kSums == Sums::two ? 3 : 2>;

template <class T, class Stored, int kWidth, Sums kSums>
__global__ void __launch_bounds__(kThreads)
    back_strip(const __grid_constant__ BackParams p, RowCount rows, ChunkShape shape) {
  wait_and_go_on();
  extern __shared__ uint4 shared[];
  const Place at(rows, shape);
  if (at.first >= at.last) return;
  const int channels = p.gradient.channels;
  const bool is_active = p.activation != Activation::identity;
  for (int begin = 0; begin < shape.chunks; begin += shape.across) {
    const int column = (begin + at.x) * kWidth;
    float sum[kWidth] = {}, products[kWidth] = {}, centre[kWidth] = {};
    if (at.y < shape.down && column < channels) {
      if constexpr (kSums == Sums::two) load_vector(p.centre, column, 0.f, centre);
      Matrix read[kSums == Sums::two ? 3 : 2] = {p.gradient, p.value};
      if constexpr (kSums == Sums::two) read[2] = p.input;
      BackStreams<T, kWidth, kSums> streams;
      streams.walk(read, at, shape, column, shared, false, [&](std::int64_t row, const auto& get) {
        float g[kWidth], v[kWidth];
        get(0, g);
        if (is_active) {
          get(1, v);
          if (p.activation == Activation::sigmoid) {
#pragma unroll
            for (int i = 0; i < kWidth; ++i) g[i] *= v[i] * (1 - v[i]);
          } else {
#pragma unroll
            for (int i = 0; i < kWidth; ++i) g[i] = v[i] > 0 ? g[i] : p.slope * g[i];
          }
          if (p.stores_gradient)
            Chunk<Stored, kWidth>::store(p.gradient.data, row * p.gradient.pitch + column, g);
        }
        for (int a = 0; a < p.addends; ++a) {
          const Target& target = p.addend[a];
          const std::int64_t to = row * target.to.pitch + column;
          float t[kWidth] = {};
          if (target.adds) Chunk<T, kWidth>::load(target.to.data, to, t);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) t[i] += g[i];
          Chunk<Stored, kWidth>::store(target.to.data, to, t);
        }
        if constexpr (kSums != Sums::none) {
#pragma unroll
          for (int i = 0; i < kWidth; ++i) sum[i] += g[i];
        }
        if constexpr (kSums == Sums::two) {
          get(2, v);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) products[i] = fmaf(g[i], v[i] + centre[i], products[i]);
        }
      });
    }
    if constexpr (kSums != Sums::none) {
      double* const to = p.sums + blockIdx.x * 2ll * channels;
      sum_down<kWidth>(at, shape, sum, products, shared, [&](int c, double one, double two) {
        const int channel = begin * kWidth + c;
        if (channel >= channels) return;
        to[channel] = one;
        to[channels + channel] = two;
      });
    }
  }
}

// The sums of a batch norm whose piecewise linear activation its input tells: nothing is written.
template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads, 3)
    masked_sums_strip(const __grid_constant__ BackParams p, RowCount rows, ChunkShape shape) {
  wait_and_go_on();
  extern __shared__ uint4 shared[];
  const Place at(rows, shape);
  if (at.first >= at.last) return;
  const int channels = p.gradient.channels;
  for (int begin = 0; begin < shape.chunks; begin += shape.across) {
    const int column = (begin + at.x) * kWidth;
    float sum[kWidth] = {}, products[kWidth] = {};
    if (at.y < shape.down && column < channels) {
      NormOfInput<kWidth> norm;
      norm.load(p.centre, p.scale, p.shift, column);
      RowStreams<T, kWidth, 2> streams;
      streams.walk({p.gradient, p.input}, at, shape, column, shared, false,
                   [&](std::int64_t, const auto& get) {
                     float g[kWidth], x[kWidth];
                     get(0, g);
                     get(1, x);
#pragma unroll
                     for (int i = 0; i < kWidth; ++i) {
                       const float d = norm(x[i], i) > 0 ? g[i] : p.slope * g[i];
                       sum[i] += d;
                       products[i] = fmaf(d, x[i] + norm.centre[i], products[i]);
                     }
                   });
    }
    double* const to = p.sums + blockIdx.x * 2ll * channels;
    sum_down<kWidth>(at, shape, sum, products, shared, [&](int c, double one, double two) {
      const int channel = begin * kWidth + c;
      if (channel >= channels) return;
      to[channel] = one;
      to[channels + channel] = two;
    });
  }
}

// Of what strips left: the totals of the warp's channel, which is returned.
__device__ int totals(const double* sums, int channels, std::int64_t count, double& one,
                      double& two) {
  one = two = 0;
  return sum_strips(
      sums, channels, count,
      [&](double, double first, double second) {
        one += first;
        two += second;
      },
      one, two);
}

__global__ void __launch_bounds__(kFinishThreads)
    finish_bias(const double* sums, int channels, RowCount rows, float* to) {
  wait_and_go_on();
  double sum, unused;
  const int c = totals(sums, channels, rows_of(rows), sum, unused);
  if (threadIdx.x % 32 == 0 && c < channels) to[c] = static_cast<float>(sum);
}

struct NormResult {
  float *weight_gradient, *bias_gradient, *vectors;  // vectors: slope, shift, `pitch` apart
  int pitch;
};
__global__ void __launch_bounds__(kFinishThreads)
    finish_norm(const double* sums, int channels, RowCount rows,
                const __grid_constant__ NormVectors norm, NormResult to) {
  wait_and_go_on();
  const std::int64_t count = rows_of(rows);
  double sum, products;
  const int c = totals(sums, channels, count, sum, products);
  if (threadIdx.x % 32 != 0 || c >= channels) return;
  const double r = 1 / sqrt(norm.variance[c] + norm.eps), s = norm.weight[c] * r;
  to.bias_gradient[c] = static_cast<float>(sum);
  to.weight_gradient[c] = static_cast<float>(products * r);
  const bool is_constant = norm.running_mean != nullptr || count == 0;
  const auto n = static_cast<double>(count);
  to.vectors[c] = is_constant ? 0.f : static_cast<float>(-s * r * r * products / n);
  to.vectors[to.pitch + c] = is_constant ? 0.f : static_cast<float>(-s * sum / n);
}

// kIsMasked: the gradient has not passed the activation yet. The last rows of a strip first: the
// sums read them last.
template <class T, class Stored, int kWidth, bool kIsMasked>
__global__ void __launch_bounds__(kThreads, 3)
    norm_gradient_strip(const __grid_constant__ BackParams p, const float* vectors, int pitch,
                        Target target, RowCount rows, ChunkShape shape) {
  wait_and_go_on();
  extern __shared__ uint4 shared[];
  const Place at(rows, shape);
  if (at.y >= shape.down) return;
  for (int chunk = at.x; chunk < shape.chunks; chunk += shape.across) {
    const int column = chunk * kWidth;
    // dx = scale g + slope (x - mean) + shift; the scale is the forward pass's.
    NormOfInput<kWidth> norm;
    norm.load(p.centre, p.scale, p.shift, column);
    float slope[kWidth], shift[kWidth];
    load_vector(vectors, column, 0.f, slope);
    load_vector(vectors + pitch, column, 0.f, shift);
    RowStreams<T, kWidth, 2> streams;
    streams.walk({p.gradient, p.input}, at, shape, column, shared, true,
                 [&](std::int64_t row, const auto& get) {
                   float g[kWidth], x[kWidth], d[kWidth] = {};
                   get(0, g);
                   get(1, x);
                   const std::int64_t to = row * target.to.pitch + column;
                   if (target.adds) Chunk<T, kWidth>::load(target.to.data, to, d);
#pragma unroll
                   for (int i = 0; i < kWidth; ++i) {
                     float own = g[i];
                     if constexpr (kIsMasked) own = norm(x[i], i) > 0 ? own : p.slope * own;
                     d[i] +=
                         fmaf(norm.scale[i], own, fmaf(slope[i], x[i] + norm.centre[i], shift[i]));
                   }
                   Chunk<Stored, kWidth>::store(target.to.data, to, d);
                 });
  }
}

Target lower(const GradientTarget& target) { return {matrix(target.to), target.adds}; }

struct LoweredBack {
  BackParams params{};
  bool is_wide = false;
};
LoweredBack lower(const EpilogueGradient& step, double* scratch) {
  ENSURE(step.addends <= kMaxAddends, "gradient: a sum of more than ", kMaxAddends + 1,
         " operands");
  LoweredBack lowered;
  BackParams& p = lowered.params;
  p.gradient = matrix(step.gradient);
  lowered.is_wide = has_chunks(step.gradient);
  p.activation = step.activation;
  p.slope = step.activation == Activation::leaky_relu ? step.slope : 0.f;
  if (step.activation != Activation::identity) {
    p.value = matrix(step.value);
    lowered.is_wide = lowered.is_wide && has_chunks(step.value);
  }
  p.addends = step.addends;
  for (int a = 0; a < step.addends; ++a) {
    p.addend[a] = lower(step.addend[a]);
    lowered.is_wide = lowered.is_wide && has_chunks(step.addend[a].to);
  }
  p.stores_gradient = true;
  p.sums = scratch;
  return lowered;
}

void run_back(const EpilogueGradient& step, const LoweredBack& lowered, Sums wanted,
              const RowCount& rows, cudaStream_t stream) {
  const std::int64_t channels = step.gradient.shape[1];
  visit_rows(step.gradient.dtype, step.rounds_to_tf32, lowered.is_wide, "gradient",
             [&]<class T, class Stored, int kWidth>() {
               const auto launch = [&]<Sums kSums>() {
                 using Streams = BackStreams<T, kWidth, kSums>;
                 base::cuda::launch(back_strip<T, Stored, kWidth, kSums>,
                                    kSums == Sums::none ? strips(Streams::kSharedBytes)
                                                        : strips_of_sums<Streams>(kWidth),
                                    stream, lowered.params, rows, ChunkShape(channels, kWidth));
               };
               if (wanted == Sums::two)
                 launch.template operator()<Sums::two>();
               else if (wanted == Sums::one)
                 launch.template operator()<Sums::one>();
               else
                 launch.template operator()<Sums::none>();
             });
}

}  // namespace

void pass_back(const EpilogueGradient& step, const RowCount& rows, cudaStream_t stream) {
  run_back(step, lower(step, nullptr), Sums::none, rows, stream);
}

void pass_back_to_bias(const EpilogueGradient& step, const RowCount& rows, float* bias_gradient,
                       double* scratch, cudaStream_t stream) {
  const std::int64_t channels = step.gradient.shape[1];
  run_back(step, lower(step, scratch), Sums::one, rows, stream);
  base::cuda::launch(finish_bias, channels_of_strips(channels), stream, scratch,
                     static_cast<int>(channels), rows, bias_gradient);
}

void pass_back_through_norm(const EpilogueGradient& step, const NormGradient& norm,
                            const RowCount& rows, double* scratch, cudaStream_t stream) {
  const std::int64_t channels = step.gradient.shape[1];
  LoweredBack lowered = lower(step, scratch);
  BackParams& p = lowered.params;
  p.input = matrix(norm.input);
  p.centre = norm.norm.centre;
  p.scale = norm.norm.scale;
  p.shift = norm.norm.shift;
  const auto pitch = static_cast<int>((channels + 7) / 8 * 8);
  lowered.is_wide = lowered.is_wide && has_chunks(norm.input) &&
                    (norm.to.to.data == nullptr || has_chunks(norm.to.to));
  // Five passes over memory instead of seven.
  const bool is_masked =
      step.addends == 0 && (step.activation == Activation::relu ||
                            (step.activation == Activation::leaky_relu && step.slope >= 0));
  if (is_masked) {
    visit_rows(step.gradient.dtype, false, lowered.is_wide, "batch_norm",
               [&]<class T, class Stored, int kWidth>() {
                 base::cuda::launch(masked_sums_strip<T, kWidth>,
                                    strips_of_sums<RowStreams<T, kWidth, 2>>(kWidth), stream, p,
                                    rows, ChunkShape(channels, kWidth));
               });
  } else {
    // What a sum's operand gets is what passed the activation: one place to write it is enough.
    const Target* const copy = std::find_if(p.addend, p.addend + p.addends,
                                            [](const Target& target) { return !target.adds; });
    const bool has_copy = copy != p.addend + p.addends;
    p.stores_gradient = !has_copy;
    run_back(step, lowered, Sums::two, rows, stream);
    if (has_copy) p.gradient = copy->to;
  }
  base::cuda::launch(finish_norm, channels_of_strips(channels), stream, scratch,
                     static_cast<int>(channels), rows, norm.norm,
                     NormResult{norm.weight_gradient, norm.bias_gradient, norm.vectors, pitch});
  if (norm.to.to.data == nullptr) return;
  visit_rows(step.gradient.dtype, step.rounds_to_tf32, lowered.is_wide, "batch_norm",
             [&]<class T, class Stored, int kWidth>() {
               const auto launch = [&](auto kernel) {
                 base::cuda::launch(kernel, strips(RowStreams<T, kWidth, 2>::kSharedBytes), stream,
                                    p, norm.vectors, pitch, lower(norm.to), rows,
                                    ChunkShape(channels, kWidth));
               };
               if (is_masked)
                 launch(norm_gradient_strip<T, Stored, kWidth, true>);
               else
                 launch(norm_gradient_strip<T, Stored, kWidth, false>);
             });
}

}  // namespace sparseconv::cuda

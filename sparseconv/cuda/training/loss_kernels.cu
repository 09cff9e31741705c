#include "sparseconv/cuda/training/loss_kernels.hpp"

#include "sparseconv/cuda/row_kernels.cuh"

namespace sparseconv::cuda {
namespace {

struct Params {
  Matrix logits, gradient;
  const std::int32_t* labels;
  const float* class_weights;
  float smoothing, gamma, scale;
  const float* lovasz;
  std::int64_t lovasz_pitch;
  float lovasz_scale;
  std::int32_t* predictions;
};

// A row a thread.
template <class T>
__global__ void __launch_bounds__(kLossRows)
    cross_entropy_rows(const __grid_constant__ Params p, RowCount rows, LossSum* sums) {
  wait_and_go_on();
  const std::int64_t row = blockIdx.x * kLossRows + threadIdx.x;
  const int classes = p.logits.channels;
  double loss = 0;
  int is_correct = 0;
  if (row < rows_of(rows)) {
    const auto logit = [&](int c) {
      return DeviceElement<T>::load(p.logits.data, row * p.logits.pitch + c);
    };
    const auto write = [&](int c, float g) {
      DeviceElement<T>::store(p.gradient.data, row * p.gradient.pitch + c, g);
    };
    float largest = logit(0);
    int best = 0;
    for (int c = 1; c < classes; ++c) {
      const float z = logit(c);
      if (z > largest) largest = z, best = c;
    }
    p.predictions[row] = best;
    const int label = p.labels[row];
    if (label < 0) {
      for (int c = 0; c < classes; ++c) write(c, 0.f);
    } else {
      float sum = 0;
      for (int c = 0; c < classes; ++c) sum += expf(logit(c) - largest);
      const float log_sum = logf(sum), share = p.smoothing / static_cast<float>(classes);
      const float weight = p.class_weights != nullptr ? p.class_weights[label] : 1.f;
      float entropy = 0;
      for (int c = 0; c < classes; ++c) {
        const float target = share + (c == label ? 1 - p.smoothing : 0.f);
        if (target > 0) entropy -= target * (logit(c) - largest - log_sum);
      }
      // With a focal factor, L = (1 - p)^g CE, p of the label: dL = (1 - p)^g dCE - g (1 - p)^(g -
      // 1) CE dp.
      float factor = 1, slope = 0;
      if (p.gamma > 0) {
        const float own = expf(logit(label) - largest - log_sum), rest = 1 - own;
        factor = powf(rest, p.gamma);
        slope = rest > 0 ? p.gamma * powf(rest, p.gamma - 1) * entropy * own : 0.f;
      }
      // Through the softmax: dz_c = p_c (d_c - sum_k p_k d_k).
      const auto derivative = [&](int c) { return p.lovasz[c * p.lovasz_pitch + row]; };
      float mean = 0;
      for (int c = 0; p.lovasz != nullptr && c < classes; ++c)
        mean += expf(logit(c) - largest - log_sum) * derivative(c);
      for (int c = 0; c < classes; ++c) {
        const float probability = expf(logit(c) - largest - log_sum);
        const float is_label = c == label ? 1.f : 0.f;
        const float target = share + is_label * (1 - p.smoothing);
        const float g = factor * (probability - target) - slope * (is_label - probability);
        const float other =
            p.lovasz != nullptr ? p.lovasz_scale * probability * (derivative(c) - mean) : 0.f;
        write(c, weight * g * p.scale + other);
      }
      loss = static_cast<double>(weight) * factor * entropy;
      is_correct = best == label;
    }
  }
  // In a fixed order: lanes of a warp, then warps.
  for (int step = 16; step > 0; step /= 2) loss += __shfl_xor_sync(~0u, loss, step);
  const int correct = __reduce_add_sync(~0u, is_correct);
  constexpr int kWarps = static_cast<int>(kLossRows) / 32;
  __shared__ double losses[kWarps];
  __shared__ int corrects[kWarps];
  if (threadIdx.x % 32 == 0) {
    losses[threadIdx.x / 32] = loss;
    corrects[threadIdx.x / 32] = correct;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  LossSum total;
  for (int w = 0; w < kWarps; ++w) {
    total.loss += losses[w];
    total.correct += corrects[w];
  }
  sums[blockIdx.x] = total;
}

}  // namespace

void cross_entropy(const CrossEntropyArguments& a, const RowCount& rows, LossSum* sums,
                   cudaStream_t stream) {
  const Params p{.logits = matrix(a.logits),
                 .gradient = matrix(a.gradient),
                 .labels = a.labels,
                 .class_weights = a.class_weights,
                 .smoothing = a.label_smoothing,
                 .gamma = a.focal_gamma,
                 .scale = a.gradient_scale,
                 .lovasz = a.lovasz,
                 .lovasz_pitch = a.lovasz_pitch,
                 .lovasz_scale = a.lovasz_scale,
                 .predictions = a.predictions};
  base::visit_dtype<float, base::half_t, base::bf16_t>(a.logits.dtype, "loss", [&]<class T>() {
    base::cuda::launch(cross_entropy_rows<T>,
                       {.grid = dim3(static_cast<unsigned>(loss_blocks(rows.bound))),
                        .block = dim3(static_cast<unsigned>(kLossRows)),
                        .overlap = true},
                       stream, p, rows, sums);
  });
}

}  // namespace sparseconv::cuda

#include "sparseconv/cuda/training/update_kernels.hpp"

#include "sparseconv/cuda/row_kernels.cuh"

namespace sparseconv::cuda {
namespace {

constexpr std::int64_t kNormBlock = 8192;  // values

// The same bits in every thread of the block.
__device__ double block_sum(double v) {
  __shared__ double warps[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  double sum = 0;
  for (const double w : warps) sum += w;
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    square_blocks(const float* values, std::int64_t count, double* sums) {
  wait_and_go_on();
  const std::int64_t first = blockIdx.x * kNormBlock, last = min(first + kNormBlock, count);
  double sum = 0;
  for (std::int64_t i = first + threadIdx.x; i < last; i += kThreads) {
    const double v = values[i];
    sum += v * v;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    add_blocks(const double* sums, std::int64_t count, double* to) {
  wait_and_go_on();
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += sums[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *to = sum;
}

struct Sgd {
  SgdFactors f;
  __device__ void operator()(const FlatUpdate& u, std::int64_t i, float decay) const {
    float w = u.values[i];
    const float g = u.gradient_scale * u.gradients[i] + decay * w;
    const float v = f.momentum * u.first[i] + g;
    u.first[i] = v;
    w -= u.rate * (f.nesterov ? g + f.momentum * v : v);
    u.values[i] = w;
    if (u.average != nullptr)
      u.average[i] = u.average_keep * u.average[i] + (1 - u.average_keep) * w;
  }
};

struct AdamW {
  AdamFactors f;
  __device__ void operator()(const FlatUpdate& u, std::int64_t i, float decay) const {
    const float g = u.gradient_scale * u.gradients[i];
    const float m = f.beta1 * u.first[i] + (1 - f.beta1) * g;
    const float s = f.beta2 * u.second[i] + (1 - f.beta2) * g * g;
    u.first[i] = m;
    u.second[i] = s;
    const float w =
        (1 - u.rate * decay) * u.values[i] - f.step_size * m / (sqrtf(s) * f.unbias + f.eps);
    u.values[i] = w;
    if (u.average != nullptr)
      u.average[i] = u.average_keep * u.average[i] + (1 - u.average_keep) * w;
  }
};

template <class Rule>
__global__ void __launch_bounds__(kThreads)
    update_flat(const __grid_constant__ FlatUpdate u, const Rule rule) {
  wait_and_go_on();
  for (std::int64_t i = first_item(); i < u.count; i += item_step())
    rule(u, i, u.decays[i / kDecayGroup] != 0 ? u.decay : 0.f);
}

template <class Rule>
void run_update(const FlatUpdate& update, const Rule& rule, cudaStream_t stream) {
  base::cuda::launch(update_flat<Rule>,
                     {.grid = blocks_for(update.count), .block = dim3(kThreads), .overlap = true},
                     stream, update, rule);
}

__global__ void __launch_bounds__(kThreads)
    running_statistics(const RunningJob* jobs, const double* batch, float* running, double share) {
  wait_and_go_on();
  const RunningJob job = jobs[blockIdx.x];
  const std::int64_t rows = rows_of(job.rows);
  if (rows == 0) return;
  const auto n = static_cast<double>(rows);
  for (auto c = static_cast<std::int64_t>(threadIdx.x); c < job.channels; c += kThreads) {
    float& mean = running[job.mean + c];
    float& variance = running[job.variance + c];
    mean = static_cast<float>((1 - share) * mean + share * batch[job.mean + c]);
    if (rows > 1) {
      variance = static_cast<float>((1 - share) * variance +
                                    share * batch[job.variance + c] * n / (n - 1));
    }
  }
}

}  // namespace

std::int64_t norm_scratch(std::int64_t count) { return (count + kNormBlock - 1) / kNormBlock; }

void square_sum(const float* values, std::int64_t count, double* scratch, double* sum,
                cudaStream_t stream) {
  const std::int64_t blocks = norm_scratch(count);
  base::cuda::launch(
      square_blocks,
      {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads), .overlap = true},
      stream, values, count, scratch);
  base::cuda::launch(add_blocks, {.block = dim3(kThreads), .overlap = true}, stream, scratch,
                     blocks, sum);
}

void update_sgd(const FlatUpdate& update, const SgdFactors& factors, cudaStream_t stream) {
  run_update(update, Sgd{factors}, stream);
}
void update_adamw(const FlatUpdate& update, const AdamFactors& factors, cudaStream_t stream) {
  run_update(update, AdamW{factors}, stream);
}

void update_statistics(const RunningJob* jobs, std::int32_t count, const double* batch,
                       float* running, double share, cudaStream_t stream) {
  base::cuda::launch(
      running_statistics,
      {.grid = dim3(static_cast<unsigned>(count)), .block = dim3(kThreads), .overlap = true},
      stream, jobs, batch, running, share);
}

}  // namespace sparseconv::cuda

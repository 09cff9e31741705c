#include "gemm_core/device/cuda/conv/depthwise_rows.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/conv_lowering.hpp"
#include "gemm_core/device/cuda/conv/depthwise.hpp"
#include "gemm_core/kernel/depthwise_rows.cuh"

namespace gemm_core::cuda {
namespace {

std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
base::FastDivMod divisor(std::int64_t x) { return base::FastDivMod(static_cast<std::uint32_t>(x)); }

// body.template operator()<DepthwiseRows<...>>() for the kernel of the arguments.
template <class Element, class Body>
void visit_size(const ConvArguments& g, const Body& body) {
  const auto stride = g.problem.stride[2];
  switch (g.problem.kernel[2]) {
    case 3:
      return stride == 1 ? body.template operator()<DepthwiseRows<Element, 3, 1>>()
                         : body.template operator()<DepthwiseRows<Element, 3, 2>>();
    case 5:
      return stride == 1 ? body.template operator()<DepthwiseRows<Element, 5, 1>>()
                         : body.template operator()<DepthwiseRows<Element, 5, 2>>();
    default:
      return body.template operator()<DepthwiseRows<Element, 7, 1>>();
  }
}
template <class Body>
void visit_rows(const ConvArguments& g, const Body& body) {
  base::visit_dtype<base::half_t, base::bf16_t, float>(
      g.a.dtype, "depthwise", [&]<class Element>() { visit_size<Element>(g, body); });
}

// Rows of a thread: some 14, so that two more of halo cost little and blocks are many.
DepthwiseWalk walk_over(const ConvProblem& p, const Axes& result, int channels_of_thread) {
  constexpr std::int64_t kRows = 14;
  DepthwiseWalk walk;
  const std::int64_t strips = ceil_div(result[2], kDepthwiseColumns);
  walk.segment = static_cast<int>(ceil_div(result[1], ceil_div(result[1], kRows)));
  const std::int64_t segments = ceil_div(result[1], walk.segment);
  walk.by_strips = divisor(strips);
  walk.by_segments = divisor(segments);
  walk.by_planes = divisor(result[0]);
  walk.units = static_cast<std::uint32_t>(p.batch * result[0] * segments * strips);
  walk.block_chunks =
      static_cast<int>(std::min<std::int64_t>(p.channels / channels_of_thread, kDepthwiseChunks));
  return walk;
}

}  // namespace

bool takes_depthwise_rows(const ConvArguments& g) {
  const ConvProblem& p = g.problem;
  const Axes output = p.output();
  const std::int64_t size = p.kernel[2], stride = p.stride[2];
  const bool is_plane = p.kernel[0] == 1 && p.stride[0] == 1 && p.lower[0] == 0 &&
                        p.input[0] == output[0] && p.kernel[1] == size && p.stride[1] == stride &&
                        p.dilation[1] == 1 && p.dilation[2] == 1;
  const bool has_kernel =
      ((size == 3 || size == 5) && (stride == 1 || stride == 2)) || (size == 7 && stride == 1);
  return is_plane && has_kernel && output[1] > 0 && output[2] > 0 &&
         (g.operation != ConvOperation::activation_gradient || stride == 1) &&
         takes_depthwise_strips(g);
}

void run_depthwise_rows(const ConvArguments& g, cudaStream_t stream) {
  const ConvProblem& p = g.problem;
  const ConvTensors t = conv_tensors(g);
  const bool is_forward = g.operation == ConvOperation::forward;
  const Axes from = is_forward ? p.input : p.output(), to = is_forward ? p.output() : p.input;
  DepthwiseRowsParams params;
  params.from = depthwise_tensor(is_forward ? t.activation : t.output);
  params.to = depthwise_tensor(is_forward ? t.output : t.activation);
  params.filter = depthwise_tensor(t.filter);
  params.from_rows = static_cast<int>(from[1]);
  params.from_columns = static_cast<int>(from[2]);
  params.rows = static_cast<int>(to[1]);
  params.columns = static_cast<int>(to[2]);
  // The gradient is a convolution with the taps in reverse.
  for (std::size_t i = 0; i < 2; ++i)
    params.lower[i] =
        static_cast<int>(is_forward ? p.lower[i + 1] : p.kernel[i + 1] - 1 - p.lower[i + 1]);
  params.channels = static_cast<int>(p.channels);
  params.flip = p.flip == is_forward;
  params.alpha = static_cast<float>(g.alpha);
  visit_rows(g, [&]<class Rows>() {
    params.walk = walk_over(p, to, Rows::kChannels);
    const std::int64_t lanes = kDepthwiseThreads / params.walk.block_chunks;
    const dim3 grid(
        static_cast<unsigned>(ceil_div(params.walk.units, lanes)),
        static_cast<unsigned>(ceil_div(p.channels, params.walk.block_chunks * Rows::kChannels)));
    base::cuda::launch(depthwise_rows<Rows>, {.grid = grid, .block = dim3(kDepthwiseThreads)},
                       stream, params);
  });
}

int depthwise_filter_blocks(const ConvArguments& g, int multiprocessors) {
  int blocks = 1;
  visit_rows(g, [&]<class Rows>() {
    const DepthwiseWalk walk = walk_over(g.problem, g.problem.output(), Rows::kChannels);
    const std::int64_t lanes = kDepthwiseThreads / walk.block_chunks;
    const std::int64_t parts = ceil_div(g.problem.channels, walk.block_chunks * Rows::kChannels);
    blocks = static_cast<int>(std::clamp<std::int64_t>(
        ceil_div(Rows::kBlocks * multiprocessors, parts), 1, ceil_div(walk.units, lanes)));
  });
  return blocks;
}

void run_depthwise_filter_rows(const ConvArguments& g, int blocks, float* sums,
                               cudaStream_t stream) {
  const ConvProblem& p = g.problem;
  const ConvTensors t = conv_tensors(g);
  const Axes output = p.output();
  DepthwiseFilterRowsParams params;
  params.output = depthwise_tensor(t.output);
  params.input = depthwise_tensor(t.activation);
  params.input_rows = static_cast<int>(p.input[1]);
  params.input_columns = static_cast<int>(p.input[2]);
  params.rows = static_cast<int>(output[1]);
  params.columns = static_cast<int>(output[2]);
  params.lower[0] = static_cast<int>(p.lower[1]);
  params.lower[1] = static_cast<int>(p.lower[2]);
  params.channels = static_cast<int>(p.channels);
  params.flip = p.flip;
  params.sums = sums;
  visit_rows(g, [&]<class Rows>() {
    params.walk = walk_over(p, output, Rows::kChannels);
    const dim3 grid(
        static_cast<unsigned>(ceil_div(p.channels, params.walk.block_chunks * Rows::kChannels)),
        static_cast<unsigned>(blocks));
    base::cuda::launch(depthwise_filter_rows<Rows>,
                       {.grid = grid, .block = dim3(kDepthwiseThreads)}, stream, params);
  });
}

}  // namespace gemm_core::cuda

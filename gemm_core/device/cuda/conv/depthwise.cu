#include "gemm_core/device/cuda/conv/depthwise.hpp"

#include <algorithm>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/collective/cpu_element.hpp"
#include "gemm_core/device/conv_lowering.hpp"
#include "gemm_core/device/cuda/conv/depthwise_rows.hpp"
#include "gemm_core/device/cuda/dense_node.hpp"
#include "gemm_core/kernel/depthwise_conv.cuh"

namespace gemm_core::cuda {
namespace {

using base::DType;

std::int64_t product(const Axes& x) { return x[0] * x[1] * x[2]; }
std::int64_t ceil_div(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }
constexpr std::int64_t kMostWeightBytes = 96 << 10;  // in shared memory
constexpr int kStrip = 4;                            // positions a thread
bool is_operand(DType t) { return is_narrow_float(t) || is_fp8(t); }

template <std::size_t... kAxis>
void set_divisors(base::FastDivMod (&to)[3], const Axes& extent, std::index_sequence<kAxis...>) {
  ((to[kAxis] = base::FastDivMod(static_cast<std::uint32_t>(extent[kAxis]))), ...);
}

template <class Params>
void set_geometry(Params& params, const ConvProblem& p) {
  for (std::size_t i = 0; i < 3; ++i) {
    params.kernel[i] = static_cast<int>(p.kernel[i]);
    params.lower[i] = static_cast<int>(p.lower[i]);
    params.stride[i] = static_cast<int>(p.stride[i]);
    params.dilation[i] = static_cast<int>(p.dilation[i]);
  }
  params.channels = static_cast<int>(p.channels);
  params.flip = p.flip;
}

Axes result_extent(const ConvArguments& g) {
  return g.operation == ConvOperation::forward           ? g.problem.output()
         : g.operation == ConvOperation::filter_gradient ? g.problem.kernel
                                                         : g.problem.input;
}

}  // namespace

DepthwiseTensor depthwise_tensor(const ConvTensor& t) {
  DepthwiseTensor to;
  to.data = t.data;
  to.type = t.dtype;
  to.batch_step = t.outer_stride;
  std::copy(t.axis_strides.begin(), t.axis_strides.end(), to.step);
  return to;
}

bool takes_depthwise_strips(const ConvArguments& g) {
  const ConvProblem& p = g.problem;
  const bool is_filter = g.operation == ConvOperation::filter_gradient;
  const DType type = g.a.dtype;
  if (!is_narrow_float(type) || g.b.dtype != type || g.compute != type ||
      p.channels % kDenseRun != 0)
    return false;
  if (!is_filter &&
      (g.d.dtype != type || g.beta != 0 || !g.epilogue.nodes.empty() ||
       p.taps() * p.channels * static_cast<std::int64_t>(sizeof(float)) > kMostWeightBytes)) {
    return false;
  }
  const ConvTensors t = conv_tensors(g);
  const std::int64_t bytes = base::bytes(type);
  for (const ConvTensor* x : {&t.activation, &t.output}) {
    if (reinterpret_cast<std::uintptr_t>(x->data) % 16 != 0 || x->outer_stride * bytes % 16 != 0)
      return false;
    for (const std::int64_t step : x->axis_strides) {
      if (step * bytes % 16 != 0) return false;
    }
  }
  return true;
}

bool Depthwise::takes(const ConvArguments& g) {
  const ConvProblem& p = g.problem;
  if (p.groups != p.channels || p.groups != p.filters || p.batch == 0) return false;
  if (!is_operand(g.a.dtype) || !is_operand(g.b.dtype)) return false;
  if (!is_narrow_float(g.compute) && g.compute != DType::tf32 && !is_fp8(g.compute)) return false;
  const ConvTensors t = conv_tensors(g);
  const ConvTensor c = packed_strides(g.c, result_extent(g), p.channels);
  if (t.activation.channel_stride != 1 || t.output.channel_stride != 1) return false;
  if (g.operation != ConvOperation::filter_gradient && g.beta != 0 && c.channel_stride != 1)
    return false;
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  const std::int64_t chunks = ceil_div(p.channels, kDenseRun);
  return p.batch * product(p.output()) * chunks < kLimit &&
         p.batch * product(p.input) * chunks < kLimit && p.taps() < 65536 &&
         p.taps() * p.channels < kLimit;
}

Depthwise::Depthwise(const ConvArguments& g, int multiprocessors)
    : arguments_(g), by_rows_(takes_depthwise_rows(g)) {
  if (g.operation != ConvOperation::filter_gradient) return;
  const ConvProblem& p = g.problem;
  // Enough blocks for eight an SM, with at least 256 positions each.
  const std::int64_t positions = p.batch * product(p.output());
  const std::int64_t blocks = takes_depthwise_strips(g)
                                  ? ceil_div(p.channels, 32 * kDenseRun) * ceil_div(p.taps(), 9)
                                  : ceil_div(p.channels, 32) * p.taps();
  const std::int64_t wanted =
      ceil_div((takes_depthwise_strips(g) ? 4 : 8) * multiprocessors, blocks);
  strips_ = by_rows_ ? depthwise_filter_blocks(g, multiprocessors)
                     : static_cast<int>(std::clamp<std::int64_t>(
                           std::min(wanted, ceil_div(positions, 256)), 1, 1024));
  workspace_bytes_ = static_cast<std::size_t>(strips_ * p.taps() * p.channels) * sizeof(float) + 16;
}

void Depthwise::run(void* workspace, cudaStream_t stream) const {
  const ConvArguments& g = arguments_;
  const ConvProblem& p = g.problem;
  const ConvTensors t = conv_tensors(g);
  const bool is_forward = g.operation == ConvOperation::forward;
  constexpr std::make_index_sequence<3> kAxes;
  if (g.operation == ConvOperation::filter_gradient) {
    DepthwiseGradientParams params;
    set_geometry(params, p);
    params.output = depthwise_tensor(t.output);
    params.input = depthwise_tensor(t.activation);
    params.rounds_to = g.compute;
    for (std::size_t i = 0; i < 3; ++i) params.input_extent[i] = static_cast<int>(p.input[i]);
    set_divisors(params.by_axis, p.output(), kAxes);
    params.positions = static_cast<std::uint32_t>(p.batch * product(p.output()));
    params.strip = static_cast<std::uint32_t>(ceil_div(params.positions, strips_));
    params.strips = strips_;
    params.taps = static_cast<int>(p.taps());
    params.sums =
        reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(workspace) + 15) / 16 * 16);
    if (by_rows_) {
      run_depthwise_filter_rows(g, strips_, params.sums, stream);
    } else if (takes_depthwise_strips(g)) {
      const std::int64_t chunks = p.channels / kDenseRun;
      params.block_chunks = static_cast<int>(std::min<std::int64_t>(chunks, 32));
      const dim3 grid(static_cast<unsigned>(ceil_div(chunks, params.block_chunks)),
                      static_cast<unsigned>(strips_),
                      static_cast<unsigned>(ceil_div(params.taps, 9)));
      base::visit_dtype<base::half_t, base::bf16_t, float>(g.a.dtype, "depthwise", [&]<class T>() {
        base::cuda::launch(depthwise_filter_strips<T>, {.grid = grid, .block = dim3(256)}, stream,
                           params);
      });
    } else {
      base::cuda::launch(
          depthwise_filter_sums,
          {.grid = dim3(static_cast<unsigned>(ceil_div(p.channels, 32)),
                        static_cast<unsigned>(params.taps), static_cast<unsigned>(strips_)),
           .block = dim3(256)},
          stream, params);
    }
    DepthwiseFinishParams finish;
    finish.sums = params.sums;
    finish.strips = strips_;
    finish.taps = params.taps;
    finish.channels = params.channels;
    std::copy(params.kernel, params.kernel + 3, finish.kernel);
    finish.to = depthwise_tensor(t.filter);
    finish.c = depthwise_tensor(packed_strides(g.c, p.kernel, 1));
    finish.alpha = static_cast<float>(g.alpha);
    finish.beta = static_cast<float>(g.beta);
    const auto blocks = static_cast<unsigned>(ceil_div(params.taps * p.channels, 8));
    base::cuda::launch(depthwise_filter_finish, {.grid = dim3(blocks), .block = dim3(256)}, stream,
                       finish);
    return;
  }
  if (by_rows_) return run_depthwise_rows(g, stream);
  DepthwiseParams params;
  set_geometry(params, p);
  params.from = depthwise_tensor(is_forward ? t.activation : t.output);
  params.to = depthwise_tensor(is_forward ? t.output : t.activation);
  params.filter = depthwise_tensor(t.filter);
  params.rounds_to = g.compute;
  const Axes from = is_forward ? p.input : p.output(), to = result_extent(g);
  for (std::size_t i = 0; i < 3; ++i) params.from_extent[i] = static_cast<int>(from[i]);
  set_divisors(params.by_axis, to, kAxes);
  params.is_gradient = !is_forward;
  const std::int64_t chunks = ceil_div(p.channels, kDenseRun);
  params.by_chunks = base::FastDivMod(static_cast<std::uint32_t>(chunks));
  params.work = static_cast<std::uint32_t>(p.batch * product(to) * chunks);
  params.result_extent = static_cast<int>(to[2]);
  params.alpha = static_cast<float>(g.alpha);
  params.beta = static_cast<float>(g.beta);
  if (g.beta != 0) params.c = depthwise_tensor(packed_strides(g.c, to, p.channels));
  for (const EpilogueNode& node : g.epilogue.nodes)
    params.nodes[params.count++] = device_node(node);
  if (takes_depthwise_strips(g)) {
    const Axes strips{to[0], to[1], ceil_div(to[2], kStrip)};
    set_divisors(params.by_axis, strips, kAxes);
    params.work = static_cast<std::uint32_t>(p.batch * product(strips) * chunks);
    const auto bytes = static_cast<std::size_t>(p.taps() * p.channels) * sizeof(float);
    int device = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    const std::int64_t most = 8 * base::cuda::device_info(device).multiprocessors;
    const dim3 grid(static_cast<unsigned>(std::min(ceil_div(params.work, 256), most)));
    base::visit_dtype<base::half_t, base::bf16_t, float>(g.a.dtype, "depthwise", [&]<class T>() {
      base::cuda::allow_shared_memory(depthwise_strips<T>, bytes);
      base::cuda::launch(depthwise_strips<T>,
                         {.grid = grid, .block = dim3(256), .shared_bytes = bytes}, stream, params);
    });
    return;
  }
  base::cuda::launch(
      depthwise_conv,
      {.grid = dim3(static_cast<unsigned>(ceil_div(params.work, 256))), .block = dim3(256)}, stream,
      params);
}

}  // namespace gemm_core::cuda

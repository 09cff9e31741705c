// Dense convolutions on CUDA: the 3 x 3 layers of ResNet-50, NHWC, and the product of the same size
// by the library's own dense kernels, in one run:
//   conv_cuda_bench [FILTER] [--all] [--rounds N] [--batch N] [--dtype f16|bf16|tf32]
// FILTER: part of a case's name. --all: every kernel that takes the case, not the model's choice
// alone. A round is a burst of launches of ours between two events, then one of the product; values
// are random and normal. The median of the rounds counts; `of product`: its time over ours.
// benchmarks/peers/torch_conv_peer.py times the same layers by cuDNN.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "benchmarks/support/dense_problem.cuh"
#include "gemm_core/device/cuda/conv/conv.hpp"
#include "gemm_core/device/cuda/gemm/gemm.hpp"

namespace {

using benchmarks::burst_ms;
using benchmarks::Bytes;
using benchmarks::DType;
using benchmarks::median;
using gemm_core::ConvArguments;
using gemm_core::ConvOperation;
using gemm_core::ConvProblem;

struct Options {
  std::string filter;
  bool all = false;
  int rounds = 15;
  std::int64_t batch = 64;
  DType dtype = DType::f16;
};

struct Case {
  std::string name;
  ConvOperation operation;
  ConvProblem problem;
};

std::vector<Case> cases(std::int64_t batch) {
  struct Layer {
    std::int64_t side, channels, stride, groups;
  };
  std::vector<Case> list;
  for (const auto& [operation, name] : {std::pair{ConvOperation::forward, "forward"},
                                        std::pair{ConvOperation::activation_gradient, "dgrad"},
                                        std::pair{ConvOperation::filter_gradient, "wgrad"}}) {
    for (const Layer& x : {Layer{56, 64, 1, 1},
                           {28, 128, 1, 1},
                           {14, 256, 1, 1},
                           {7, 512, 1, 1},
                           {56, 128, 2, 1},
                           {28, 256, 2, 1},
                           {14, 512, 2, 1},
                           {56, 256, 1, 256}}) {
      Case c{name, operation, {}};
      c.name = base::concat(name, " ", x.side, "x", x.channels, " s", x.stride,
                            x.groups > 1 ? " depthwise" : "");
      c.problem = {.axes = 2,
                   .batch = batch,
                   .channels = x.channels,
                   .filters = x.channels,
                   .groups = x.groups,
                   .input = {1, x.side, x.side},
                   .kernel = {1, 3, 3},
                   .lower = {0, 1, 1},
                   .upper = {0, 1, 1},
                   .stride = {1, x.stride, x.stride}};
      list.push_back(c);
    }
  }
  return list;
}

std::int64_t product(const gemm_core::Axes& x) { return x[0] * x[1] * x[2]; }

struct Layer {
  std::vector<Bytes> buffers;
  ConvArguments conv;
  gemm_core::GemmArguments gemm;  // of the same size, forward's layouts

  Layer(const Case& c, DType compute, cudaStream_t stream) {
    const DType type = compute == DType::tf32 ? DType::f32 : compute;
    const ConvProblem& p = c.problem;
    const std::int64_t in = p.batch * product(p.input) * p.channels,
                       out = p.batch * product(p.output()) * p.filters,
                       filter = p.filters * p.taps() * p.channels / p.groups;
    const auto filled = [&](std::int64_t count, unsigned seed) {
      return buffers.emplace_back(benchmarks::random_operand(type, count, seed, stream)).data();
    };
    void *x = filled(in, 1), *w = filled(filter, 2), *y = filled(out, 3);
    conv.operation = c.operation;
    conv.problem = p;
    conv.compute = compute;
    const bool forward = c.operation == ConvOperation::forward,
               wgrad = c.operation == ConvOperation::filter_gradient;
    conv.a = {forward ? x : y, type};
    conv.b = {wgrad ? x : w, type};
    conv.d = {forward ? y : wgrad ? w : x, type};
    if (p.groups > 1) return;
    // Positions that are multiplied: each output with each tap.
    const std::int64_t m = p.batch * product(p.output());
    gemm.m = wgrad ? p.filters : m;
    gemm.n = wgrad ? p.channels * p.taps() : p.filters;
    gemm.k = wgrad ? m : p.channels * p.taps();
    gemm.compute = compute;
    gemm.a.dtype = gemm.b.dtype = gemm.d.dtype = type;
    gemm.a.data = filled(gemm.m * gemm.k, 4);
    gemm.b.data = filled(gemm.k * gemm.n, 5);
    gemm.d.data = filled(gemm.m * gemm.n, 6);
    gemm.a.row_stride = wgrad ? 1 : gemm.k;
    gemm.a.column_stride = wgrad ? gemm.m : 1;
    gemm.b.row_stride = forward ? 1 : gemm.n;
    gemm.b.column_stride = forward ? gemm.k : 1;
    gemm.d.row_stride = gemm.n;
    gemm.schedule.decomposition = kernel::Decomposition::heuristic;
  }
};

void run_case(const Case& c, const Options& options, cudaStream_t stream) {
  Layer layer(c, options.dtype, stream);
  std::vector<std::string> kernels{""};
  if (options.all) kernels = gemm_core::cuda::conv_kernel_names(layer.conv);
  const bool has_product = layer.gemm.m > 0;
  gemm_core::cuda::Gemm gemm;
  Bytes gemm_workspace(gemm_core::cuda::Gemm::workspace_size(layer.gemm));
  if (has_product) {
    const auto status =
        gemm.initialize(layer.gemm, gemm_workspace.data(), gemm_workspace.size(), stream);
    ENSURE(status.ok(), c.name, ": ", status.message);
  }
  for (const std::string& kernel : kernels) {
    gemm_core::cuda::Conv conv;
    Bytes workspace(gemm_core::cuda::Conv::workspace_size(layer.conv, {kernel}));
    const auto status =
        conv.initialize(layer.conv, workspace.data(), workspace.size(), stream, {kernel});
    ENSURE(status.ok(), c.name, ": ", status.message);
    const auto ours = [&](int) { conv.run(stream); };
    const auto theirs = [&](int) { gemm.run(stream); };
    ours(0);
    const float once = burst_ms(1, stream, ours);
    const int count = std::clamp(static_cast<int>(5.f / once), 1, 50);
    std::vector<float> us, other;
    for (int round = 0; round < options.rounds; ++round) {
      us.push_back(burst_ms(count, stream, ours));
      if (has_product) other.push_back(burst_ms(count, stream, theirs));
    }
    const ConvProblem& p = c.problem;
    const double flop = 2.0 * double(p.batch * product(p.output()) * p.filters) *
                        double(p.channels / p.groups * p.taps());
    const double ms = median(us), other_ms = has_product ? median(other) : 0;
    std::printf("%-26s %-28s %8.1f us %7.1f T", c.name.c_str(), conv.kernel_name().c_str(),
                1e3 * ms, flop / ms * 1e-9);
    if (has_product)
      std::printf("  product %-20s %8.1f us  of product %.3f", gemm.kernel_name().c_str(),
                  1e3 * other_ms, other_ms / ms);
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--all")
      options.all = true;
    else if (word == "--rounds" && i + 1 < argc)
      options.rounds = std::max(1, std::atoi(argv[++i]));
    else if (word == "--batch" && i + 1 < argc)
      options.batch = std::max(1, std::atoi(argv[++i]));
    else if (word == "--dtype" && i + 1 < argc) {
      const std::string name = argv[++i];
      options.dtype = name == "bf16" ? DType::bf16 : name == "tf32" ? DType::tf32 : DType::f16;
    } else
      options.filter = word;
  }
  try {
    const auto stream = base::cuda::Stream::create();
    for (const Case& c : cases(options.batch)) {
      if (c.name.find(options.filter) != std::string::npos) run_case(c, options, stream.get());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

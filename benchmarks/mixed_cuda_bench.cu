// Narrow weights x bf16 activations on CUDA, in one run:
//   mixed_cuda_bench [--all] [--size M N K] [WEIGHTS]
// WEIGHTS: part of int4, int8, int2, float8_e4m3. --size: that product alone.
// Scales for groups of 128; few activations: what is read and written over the time, sums cut as
// the model likes; many: TFLOP/s beside cuBLAS's and our product of bf16 operands of that size.
// Weights rotate through more than L2 holds. --all: every kernel that takes a case. Medians of 9
// bursts taken in turn.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "benchmarks/peers/cublas.hpp"
#include "benchmarks/support/dense_problem.cuh"
#include "gemm_core/device/cuda/gemm/gemm.hpp"

namespace {

using namespace benchmarks;  // NOLINT: a benchmark
using gemm_core::GemmArguments;
using gemm_core::cuda::Gemm;

struct Case {
  std::int64_t m, n, k;
};

void check(const gemm_core::GemmStatus& status) { ENSURE(status.ok(), status.message); }

float median_us(cudaStream_t stream, const std::function<void(int)>& run) {
  const float once = burst_ms(2, stream, run);
  const int count = std::clamp(static_cast<int>(4.f / once), 1, 200);
  std::vector<float> times;
  for (int round = 0; round < 9; ++round) times.push_back(1e3f * burst_ms(count, stream, run));
  return median(times);
}

GemmArguments arguments(const Case& c, const void* x, const void* w, DType weights, void* d) {
  GemmArguments g;
  g.m = c.m, g.n = c.n, g.k = c.k;
  g.compute = g.a.dtype = g.d.dtype = DType::bf16;
  g.b.dtype = weights;
  g.a.data = x;
  g.a.row_stride = c.k;
  g.b.data = w;
  g.b.row_stride = 1;
  g.b.column_stride = c.k;
  g.d.data = d;
  g.d.row_stride = c.n;
  return g;
}

void time_mixed(const Case& c, DType weights, bool all, cudaStream_t stream) {
  const auto bytes_of = [&](DType t) {
    return static_cast<std::size_t>(base::bytes(t, c.n * c.k));
  };
  const std::size_t copies = std::clamp<std::size_t>((256u << 20) / bytes_of(weights), 1, 64);
  std::vector<Bytes> w;
  for (std::size_t i = 0; i < copies; ++i)
    w.push_back(random_operand(base::bits(weights) < 8 ? DType::i8 : weights,
                               static_cast<std::int64_t>(bytes_of(weights)), unsigned(i), stream));
  const Bytes x = random_operand(DType::bf16, c.m * c.k, 77, stream);
  const Bytes scales = random_operand(DType::bf16, c.n * c.k / 128, 78, stream);
  Bytes d(static_cast<std::size_t>(c.m * c.n * 2));
  std::vector<GemmArguments> sets;
  for (const Bytes& buffer : w) {
    GemmArguments g = arguments(c, x.data(), buffer.data(), weights, d.data());
    g.b.scale = {scales.data(), DType::bf16, 1, c.k / 128, 128, 1};
    if (c.m <= 256) g.schedule.decomposition = kernel::Decomposition::heuristic;
    sets.push_back(g);
  }
  std::vector<std::string> kernels{""};
  if (all) {
    kernels = gemm_core::cuda::dense_kernel_names(sets[0]);
    kernels.pop_back();  // the slow one
  }
  for (const std::string& kernel : kernels) {
    const gemm_core::cuda::GemmPlan plan{kernel, 8};
    const std::size_t bytes = Gemm::workspace_size(sets[0], plan);
    Bytes workspace(bytes);
    std::vector<Gemm> gemms(sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i)
      check(gemms[i].initialize(sets[i], workspace.data(), bytes, stream, plan));
    const float us = median_us(stream, [&](int i) {
      check(gemms[static_cast<std::size_t>(i) % gemms.size()].run(stream));
    });
    const double moved =
        static_cast<double>(bytes_of(weights) + scales.nbytes() + x.nbytes() + d.nbytes());
    std::printf("%-12s m %5ld n %5ld k %5ld %-30s %8.1f us %6.2f TB/s %7.1f TFLOP/s\n",
                std::string(base::name(weights)).c_str(), long(c.m), long(c.n), long(c.k),
                gemms[0].kernel_name().c_str(), double(us), moved / us * 1e-6,
                2e-6 * double(c.m) * double(c.n) * double(c.k) / us);
    std::fflush(stdout);
  }
}

void time_plain(const Case& c, Cublas& cublas, cudaStream_t stream) {
  const Bytes x = random_operand(DType::bf16, c.m * c.k, 77, stream);
  const Bytes w = random_operand(DType::bf16, c.n * c.k, 78, stream);
  Bytes d(static_cast<std::size_t>(c.m * c.n * 2));
  const GemmArguments g = arguments(c, x.data(), w.data(), DType::bf16, d.data());
  Gemm gemm;
  check(gemm.initialize(g, nullptr, 0, stream));
  const double flop = 2e-6 * double(c.m) * double(c.n) * double(c.k);
  const float us = median_us(stream, [&](int) { check(gemm.run(stream)); });
  const float theirs =
      cublas.found() ? median_us(stream, [&](int) { cublas.run(g, stream); }) : 0.f;
  std::printf("bfloat16     m %5ld n %5ld k %5ld %-18s %8.1f us %7.1f TFLOP/s, cuBLAS %.1f us\n",
              long(c.m), long(c.n), long(c.k), gemm.kernel_name().c_str(), double(us), flop / us,
              double(theirs));
}

}  // namespace

int main(int argc, char** argv) {
  bool all = false;
  std::string filter;
  std::vector<Case> cases;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--all")
      all = true;
    else if (std::string(argv[i]) == "--size" && i + 3 < argc) {
      cases.push_back({std::atol(argv[i + 1]), std::atol(argv[i + 2]), std::atol(argv[i + 3])});
      i += 3;
    } else
      filter = argv[i];
  }
  if (cases.empty()) {
    for (const std::int64_t m : {16, 32, 64}) {
      for (const auto& [n, k] : {std::pair<long, long>{4096, 4096}, {8192, 8192}, {28672, 8192}})
        cases.push_back({m, n, k});
    }
    cases.push_back({4096, 4096, 4096});
    cases.push_back({4096, 8192, 8192});
  }
  try {
    const auto stream = base::cuda::Stream::create();
    Cublas cublas;
    for (const DType weights : {DType::i4, DType::i8, DType::i2, DType::e4m3}) {
      if (std::string(base::name(weights)).find(filter) == std::string::npos) continue;
      for (const Case& c : cases) time_mixed(c, weights, all, stream.get());
    }
    for (const Case& c : cases) {
      if (c.m > 256) time_plain(c, cublas, stream.get());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

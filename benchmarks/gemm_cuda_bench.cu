// Dense products on CUDA beside cuBLAS, in one run:
//   gemm_cuda_bench [FILTER] [--all] [--rounds N] [--group G]
// FILTER: part of a case's name. --all: every kernel that takes the case, not the model's choice
// alone. A round is a burst of launches of ours between two events, then one of cuBLAS; operands
// rotate through more memory than L2 holds where they are small; values are random and normal. The
// median of the rounds counts. `differs`: largest difference from cuBLAS's result over the largest
// value (0 for integers).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "benchmarks/peers/cublas.hpp"
#include "benchmarks/support/dense_problem.cuh"
#include "gemm_core/device/cuda/gemm/gemm.hpp"

namespace {

using benchmarks::burst_ms;
using benchmarks::Bytes;
using benchmarks::DType;
using benchmarks::median;
using gemm_core::Accumulation;
using gemm_core::GemmArguments;

struct Case {
  std::string name;
  std::int64_t m, n, k;
  DType compute, operand, result;
  bool k_major_a = true, k_major_b = true;
  Accumulation accumulation = Accumulation::blocked;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const DType t : {DType::f16, DType::bf16}) {
    const std::string name(base::name(t));
    list.push_back({name + " 8192^3 TN", 8192, 8192, 8192, t, t, t});
    for (const std::int64_t k : {512, 4096, 16384})
      list.push_back({name + " 4096x4096x" + std::to_string(k) + " TN", 4096, 4096, k, t, t, t});
    for (const std::int64_t c : {32, 64, 128, 256})
      list.push_back({name + " conv C=" + std::to_string(c) + " TN", 100000, c, 27 * c, t, t, t});
  }
  const DType h = DType::f16;
  list.push_back({"float16 8192^3 NN", 8192, 8192, 8192, h, h, h, true, false});
  list.push_back({"float16 8192^3 TT", 8192, 8192, 8192, h, h, h, false, true});
  list.push_back({"float16 8192^3 NT", 8192, 8192, 8192, h, h, h, false, false});
  list.push_back({"float16 conv C=128 NN", 100000, 128, 27 * 128, h, h, h, true, false});
  list.push_back({"float16 to float32 8192^3 TN", 8192, 8192, 8192, h, h, DType::f32});
  list.push_back({"tf32 8192^3 TN", 8192, 8192, 8192, DType::tf32, DType::f32, DType::f32});
  list.push_back({"int8 8192^3 TN", 8192, 8192, 8192, DType::i8, DType::i8, DType::i32});
  for (const DType t : {DType::e4m3}) {
    list.push_back({"e4m3 fast 8192^3 TN", 8192, 8192, 8192, t, t, DType::bf16, true, true,
                    Accumulation::fast});
    list.push_back({"e4m3 promoted 8192^3 TN", 8192, 8192, 8192, t, t, DType::bf16, true, true,
                    Accumulation::promoted});
  }
  for (const std::int64_t n : {4096, 8192})
    list.push_back(
        {"float64 " + std::to_string(n) + "^3 TN", n, n, n, DType::f64, DType::f64, DType::f64});
  list.push_back({"float32 4096^3 TN", 4096, 4096, 4096, DType::f32, DType::f32, DType::f32});
  list.push_back({"float16 unaligned 4095^3 TN", 4095, 4095, 4095, h, h, h});
  return list;
}

struct Options {
  std::string filter;
  bool all = false;
  int rounds = 15;
  std::uint32_t group = 8;
};

struct Problem {
  std::vector<Bytes> buffers;
  std::vector<GemmArguments> sets, peers;  // one a copy of the operands; peers write elsewhere

  explicit Problem(const Case& c, cudaStream_t stream) {
    const auto size = [](std::int64_t count, DType t) {
      return static_cast<std::size_t>(count * base::bytes(t));
    };
    const std::size_t a = size(c.m * c.k, c.operand), b = size(c.k * c.n, c.operand),
                      d = size(c.m * c.n, c.result);
    const std::size_t copies = std::clamp<std::size_t>((200u << 20) / (a + b + d), 1, 16);
    for (std::size_t i = 0; i < copies; ++i) {
      GemmArguments g;
      g.m = c.m;
      g.n = c.n;
      g.k = c.k;
      g.compute = c.compute;
      g.a.dtype = g.b.dtype = c.operand;
      g.d.dtype = c.result;
      const auto filled = [&](std::int64_t count, unsigned seed) {
        return buffers.emplace_back(benchmarks::random_operand(c.operand, count, seed, stream))
            .data();
      };
      g.a.data = filled(c.m * c.k, 2 * unsigned(i));
      g.b.data = filled(c.k * c.n, 2 * unsigned(i) + 1);
      g.a.row_stride = c.k_major_a ? c.k : 1;
      g.a.column_stride = c.k_major_a ? 1 : c.m;
      g.b.row_stride = c.k_major_b ? 1 : c.n;
      g.b.column_stride = c.k_major_b ? c.k : 1;
      g.d.data = buffers.emplace_back(d).data();
      g.d.row_stride = c.n;
      g.accumulation = c.accumulation;
      sets.push_back(g);
      g.d.data = buffers.emplace_back(d).data();
      peers.push_back(g);
    }
  }
};

void run_case(const Case& c, const Options& options, benchmarks::Cublas& cublas,
              cudaStream_t stream) {
  Problem problem(c, stream);
  std::vector<std::string> kernels{""};
  if (options.all) kernels = gemm_core::cuda::dense_kernel_names(problem.sets[0]);
  for (const std::string& kernel : kernels) {
    std::vector<gemm_core::cuda::Gemm> gemms(problem.sets.size());
    for (std::size_t i = 0; i < gemms.size(); ++i) {
      const auto status =
          gemms[i].initialize(problem.sets[i], nullptr, 0, stream, {kernel, options.group});
      ENSURE(status.ok(), c.name, ": ", status.message);
    }
    bool has_peer = cublas.found() && cublas.run(problem.peers[0], stream);
    const auto ours = [&](int i) { gemms[std::size_t(i) % gemms.size()].run(stream); };
    const auto theirs = [&](int i) {
      cublas.run(problem.peers[std::size_t(i) % gemms.size()], stream);
    };
    ours(0);
    base::cuda::Buffer<unsigned> worst(2);
    CUDA_CHECK(cudaMemsetAsync(worst.data(), 0, 8, stream));
    benchmarks::compare<<<1024, 256, 0, stream>>>(problem.sets[0].d.data, problem.peers[0].d.data,
                                                  c.result, c.m * c.n, worst.data());
    float bounds[2];
    CUDA_CHECK(cudaMemcpyAsync(bounds, worst.data(), 8, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    // Bursts of about 5 ms.
    const float once = burst_ms(1, stream, ours);
    const int count = std::clamp(static_cast<int>(5.f / once), 1, 50);
    std::vector<float> us, peer;
    for (int round = 0; round < options.rounds; ++round) {
      us.push_back(burst_ms(count, stream, ours));
      if (has_peer) peer.push_back(burst_ms(count, stream, theirs));
    }
    const double flop = 2.0 * double(c.m) * double(c.n) * double(c.k);
    const double ms = median(us), peer_ms = has_peer ? median(peer) : 0;
    std::printf("%-30s %-26s %9.1f us %7.1f T", c.name.c_str(), gemms[0].kernel_name().c_str(),
                1e3 * ms, flop / ms * 1e-9);
    if (has_peer)
      std::printf("  cuBLAS %9.1f us %7.1f T  ratio %.3f  differs %.1e", 1e3 * peer_ms,
                  flop / peer_ms * 1e-9, peer_ms / ms, bounds[0] / bounds[1]);
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
    else if (word == "--group" && i + 1 < argc)
      options.group = static_cast<std::uint32_t>(std::atoi(argv[++i]));
    else
      options.filter = word;
  }
  try {
    const auto stream = base::cuda::Stream::create();
    benchmarks::Cublas cublas;
    if (!cublas.found()) std::printf("cuBLAS was not found\n");
    for (const Case& c : cases()) {
      if (c.name.find(options.filter) != std::string::npos)
        run_case(c, options, cublas, stream.get());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

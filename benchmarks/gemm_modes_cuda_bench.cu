// What dense products on CUDA cost beyond the plain one, in one run:
//   gemm_modes_cuda_bench [epilogue|grouped|stream_k]
// epilogue: bias + SiLU + residual beside the plain product, every kernel. grouped: 27 groups of 1k
// to 40k rows beside one product of all rows and beside a loop of cuBLAS calls. stream_k: 1.1
// and 1.5 waves of tiles beside data-parallel. fp16, random operands, medians of bursts taken in
// turn.
#include <cstdio>
#include <functional>
#include <random>
#include <string>

#include "benchmarks/peers/cublas.hpp"
#include "benchmarks/support/dense_problem.cuh"
#include "gemm_core/device/cuda/gemm.hpp"

namespace {

using namespace benchmarks;  // NOLINT: a benchmark
using gemm_core::GemmArguments;
using gemm_core::cuda::Gemm;
using gemm_core::cuda::GroupedGemm;

constexpr int kRounds = 11;

GemmArguments product(std::int64_t m, std::int64_t n, std::int64_t k, const void* a, const void* b,
                      void* d) {
  GemmArguments g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.compute = g.a.dtype = g.b.dtype = g.d.dtype = DType::f16;
  g.a.data = a;
  g.a.row_stride = k;
  g.b.data = b;
  g.b.row_stride = 1;
  g.b.column_stride = k;
  g.d.data = d;
  g.d.row_stride = n;
  return g;
}

// Medians of contenders that take turns, in milliseconds.
std::vector<float> medians(const std::vector<std::function<void()>>& contenders,
                           cudaStream_t stream) {
  std::vector<std::vector<float>> times(contenders.size());
  const float once = std::max(1e-3f, burst_ms(1, stream, [&](int) { contenders[0](); }));
  const int count = std::clamp(static_cast<int>(4.f / once), 1, 50);
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i)
      times[i].push_back(burst_ms(count, stream, [&](int) { contenders[i](); }));
  }
  std::vector<float> result;
  for (auto& t : times) result.push_back(median(t));
  return result;
}

void check(const gemm_core::GemmStatus& status) { ENSURE(status.ok(), status.message); }

void time_epilogue(cudaStream_t stream) {
  for (const std::int64_t k : {4096, 512}) {
    constexpr std::int64_t kM = 8192, kN = 8192;
    const Bytes a = random_operand(DType::f16, kM * k, 1, stream);
    const Bytes b = random_operand(DType::f16, kN * k, 2, stream);
    const Bytes residual = random_operand(DType::f16, kM * kN, 3, stream);
    const Bytes bias = random_operand(DType::f32, kN, 4, stream);
    Bytes d(kM * kN * 2);
    GemmArguments g = product(kM, kN, k, a.data(), b.data(), d.data());
    const auto names = gemm_core::cuda::dense_kernel_names(g);
    GemmArguments with_nodes = g;
    with_nodes.epilogue.scale_shift(nullptr, reinterpret_cast<const float*>(bias.data()))
        .activate(gemm_core::Activation::silu)
        .add({residual.data(), DType::f16, {base::Device::Kind::cuda, 0}, {kM, kN}, {kN, 1}});
    for (const std::string& name : names) {
      if (name.find("sm80") != std::string::npos) continue;
      Gemm plain, fused;
      check(plain.initialize(g, nullptr, 0, stream, {name, 8}));
      check(fused.initialize(with_nodes, nullptr, 0, stream, {name, 8}));
      const auto ms = medians({[&] { plain.run(stream); }, [&] { fused.run(stream); }}, stream);
      std::printf("epilogue 8192x8192x%-5ld %-22s plain %8.1f us, with nodes %8.1f us: %+.1f %%\n",
                  static_cast<long>(k), name.c_str(), 1e3 * ms[0], 1e3 * ms[1],
                  100 * (ms[1] / ms[0] - 1));
    }
  }
}

void time_grouped(Cublas& cublas, cudaStream_t stream) {
  for (const std::int64_t c : {64, 128, 256}) {
    std::mt19937 random(1);
    std::vector<std::int64_t> rows(27);
    std::int64_t total = 0;
    for (auto& r : rows) total += r = 1000 + static_cast<std::int64_t>(random() % 39001);
    const Bytes a = random_operand(DType::f16, total * c, 1, stream);
    const Bytes b = random_operand(DType::f16, 27 * c * c, 2, stream);
    Bytes d(static_cast<std::size_t>(total * c * 2));
    std::vector<GemmArguments> groups;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      groups.push_back(product(rows[i], c, c, a.data() + 2 * first * c,
                               b.data() + 2 * static_cast<std::int64_t>(i) * c * c,
                               d.data() + 2 * first * c));
      first += rows[i];
    }
    const std::size_t bytes = GroupedGemm::workspace_size(groups);
    Bytes workspace(bytes);
    GroupedGemm grouped;
    check(grouped.initialize(groups, workspace.data(), bytes, stream));
    Gemm one;
    check(one.initialize(product(total, c, c, a.data(), b.data(), d.data()), nullptr, 0, stream));
    std::vector<std::function<void()>> contenders{[&] { grouped.run(stream); },
                                                  [&] { one.run(stream); }};
    if (cublas.found())
      contenders.push_back([&] {
        for (const GemmArguments& g : groups) cublas.run(g, stream);
      });
    const auto ms = medians(contenders, stream);
    std::printf("grouped C=%-4ld %ld rows: %s %8.1f us, one product %8.1f us (%.2f of its speed)",
                static_cast<long>(c), static_cast<long>(total), grouped.kernel_name().c_str(),
                1e3 * ms[0], 1e3 * ms[1], ms[1] / ms[0]);
    if (cublas.found()) std::printf(", cuBLAS loop %8.1f us (%.2f x)", 1e3 * ms[2], ms[2] / ms[0]);
    std::printf("\n");
  }
}

void time_stream_k(cudaStream_t stream) {
  for (const std::int64_t tiles : {73, 99}) {  // of 66 clusters
    constexpr std::int64_t kN = 256, kK = 8192;
    const std::int64_t m = tiles * 256;
    const Bytes a = random_operand(DType::f16, m * kK, 1, stream);
    const Bytes b = random_operand(DType::f16, kN * kK, 2, stream);
    Bytes d(static_cast<std::size_t>(m * kN * 2));
    GemmArguments g = product(m, kN, kK, a.data(), b.data(), d.data());
    const gemm_core::cuda::GemmPlan plan{"f16_kk_128x256_c2", 8};
    Gemm whole, split;
    check(whole.initialize(g, nullptr, 0, stream, plan));
    g.schedule.decomposition = kernel::Decomposition::stream_k;
    const std::size_t bytes = Gemm::workspace_size(g, plan);
    Bytes workspace(bytes);
    check(split.initialize(g, workspace.data(), bytes, stream, plan));
    const auto ms = medians({[&] { whole.run(stream); }, [&] { split.run(stream); }}, stream);
    std::printf("stream-K %ldx256x8192 data-parallel %8.1f us, stream-K %8.1f us: %.2f x\n",
                static_cast<long>(m), 1e3 * ms[0], 1e3 * ms[1], ms[0] / ms[1]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    const auto stream = base::cuda::Stream::create();
    Cublas cublas;
    if (what.empty() || what == "epilogue") time_epilogue(stream.get());
    if (what.empty() || what == "grouped") time_grouped(cublas, stream.get());
    if (what.empty() || what == "stream_k") time_stream_k(stream.get());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

// What dense products on CUDA cost beyond the plain one, in one run:
//   gemm_modes_cuda_bench [epilogue|trees|grouped|stream_k|gather]
// epilogue: bias + SiLU + residual + amax beside the plain product; trees: its compiled forms
// alone. grouped: 27 groups of 1k to 40k rows beside one product of all rows and beside a loop of
// cuBLAS calls. stream_k: 1.1 and 1.5 waves of tiles beside data-parallel. gather: A's rows by
// index beside dense A. fp16, random operands, medians of bursts taken in turn.
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <string>

#include "benchmarks/peers/cublas.hpp"
#include "benchmarks/support/dense_problem.cuh"
#include "gemm_core/device/cuda/gather/gather_gemm.hpp"
#include "gemm_core/device/cuda/gemm/gemm.hpp"
#include "gemm_core/device/cuda/visitor/visitor_gemm.hpp"

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

// Bias, SiLU, a residual and amax behind 4096 x 4096 x k and 8192 x 8192 x k: every way to run them
// beside the fastest plain kernel.
// `others`: also the graph interpreted, and in a launch of its own.
void time_epilogue(cudaStream_t stream, bool others) {
  using namespace gemm_core::visitor;  // NOLINT: the graph's nodes
  for (const std::int64_t n : {4096, 8192}) {
    for (const std::int64_t k : {4096, 512}) {
      const std::int64_t m = n;
      const Bytes a = random_operand(DType::f16, m * k, 1, stream);
      const Bytes b = random_operand(DType::f16, n * k, 2, stream);
      const Bytes residual = random_operand(DType::f16, m * n, 3, stream);
      const Bytes bias = random_operand(DType::f32, n, 4, stream);
      Bytes d(static_cast<std::size_t>(m * n * 2)), amax(4);
      const GemmArguments g = product(m, n, k, a.data(), b.data(), d.data());
      const auto compute = [](gemm_core::ElementwiseOp op) {
        Compute node;
        node.op = op;
        return node;
      };
      const auto graph_of = [&](bool has_residual, bool has_amax, bool is_plain) {
        RuntimeGraph graph;
        const int acc = graph.add(Accumulator{});
        if (is_plain) return graph;
        const int vector = graph.add(RowLoad{reinterpret_cast<const float*>(bias.data())});
        const int sum = graph.add(compute(gemm_core::ElementwiseOp::plus), {acc, vector});
        int value = graph.add(compute(gemm_core::ElementwiseOp::silu), {sum});
        if (has_residual) {
          const int aux = graph.add(MatrixLoad{.matrix = {residual.data(), DType::f16, n, 1}});
          value = graph.add(compute(gemm_core::ElementwiseOp::plus), {value, aux});
        }
        if (has_amax)
          graph.add(
              Reduce{.reduction = Reduction::amax, .out = reinterpret_cast<float*>(amax.data())},
              {value});
        return graph;
      };
      struct Fused {
        std::string name;
        gemm_core::cuda::VisitorGemm gemm;
        Bytes workspace;
      };
      std::vector<Fused> fused(8);
      std::vector<Gemm> plain;
      std::vector<std::string> names;
      std::vector<std::function<void()>> contenders;
      for (const std::string& name : gemm_core::cuda::dense_kernel_names(g)) {
        if (name.find("sm80") != std::string::npos) continue;
        names.push_back(name);
        check(plain.emplace_back().initialize(g, nullptr, 0, stream, {name, 8}));
      }
      for (Gemm& x : plain) contenders.push_back([&x, stream] { x.run(stream); });
      const auto add = [&](Fused& x, std::string what, bool has_residual, bool has_amax,
                           gemm_core::cuda::VisitorPath path) {
        const RuntimeGraph graph = graph_of(has_residual, has_amax, what == "plain");
        const std::size_t bytes = gemm_core::cuda::VisitorGemm::workspace_size(g, graph, path);
        x.workspace = Bytes(bytes);
        check(x.gemm.initialize(g, graph, x.workspace.data(), bytes, stream, path));
        x.name = what + ", " + x.gemm.kernel_name();
        contenders.push_back([&x, stream] { x.gemm.run(stream); });
      };
      using gemm_core::cuda::VisitorPath;
      const char* const everything = "bias, silu, residual, amax";
      std::size_t count = 0;
      for (const auto path : {VisitorPath::compiled_128, VisitorPath::compiled_256}) {
        add(fused[count++], "plain", false, false, path);
        add(fused[count++], "bias, silu", false, false, path);
        add(fused[count++], everything, true, true, path);
      }
      if (others) {
        add(fused[count++], everything, true, true, VisitorPath::interpreted);
        add(fused[count++], everything, true, true, VisitorPath::separate);
      }
      const auto ms = medians(contenders, stream);
      const float best =
          *std::min_element(ms.begin(), ms.begin() + static_cast<long>(names.size()));
      for (std::size_t i = 0; i < ms.size(); ++i) {
        const bool is_plain = i < names.size();
        std::printf("epilogue %ldx%ldx%-5ld %-60s %8.1f us: %+.1f %% of the fastest plain kernel\n",
                    static_cast<long>(m), static_cast<long>(n), static_cast<long>(k),
                    (is_plain ? names[i] : fused[i - names.size()].name).c_str(), 1e3 * ms[i],
                    100 * (ms[i] / best - 1));
      }
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

// A's rows in the order of a random permutation, and rows of C channels by a random neighbour for
// each of 27 taps, beside the product of the same extents with dense A; then D scattered too.
void time_gather(cudaStream_t stream) {
  constexpr std::int64_t kM = 100000, kTaps = 27;
  std::mt19937 random(1);
  std::vector<std::int32_t> order(kM), neighbours(kM * kTaps);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (auto& x : neighbours) x = static_cast<std::int32_t>(random() % kM);
  const auto on_device = [](const std::vector<std::int32_t>& list) {
    Bytes bytes(list.size() * 4);
    CUDA_CHECK(cudaMemcpy(bytes.data(), list.data(), list.size() * 4, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());
    return bytes;
  };
  const Bytes rows = on_device(order), taps = on_device(neighbours);
  for (const std::int64_t c : {128, 256}) {
    const std::int64_t k = kTaps * c;
    const Bytes a = random_operand(DType::f16, kM * k, 1, stream);
    const Bytes b = random_operand(DType::f16, c * k, 2, stream);
    Bytes d(static_cast<std::size_t>(kM * c * 2));
    const GemmArguments dense_arguments = product(kM, c, k, a.data(), b.data(), d.data());
    Gemm dense;
    check(dense.initialize(dense_arguments, nullptr, 0, stream));
    gemm_core::cuda::GatherGemmArguments g;
    g.m = kM;
    g.n = c;
    g.k = k;
    g.a.data = a.data();
    g.a.rows = kM;
    g.a.row_stride = k;
    g.a.index = {rows.data(), DType::i32};
    g.a.index_count = kM;
    g.b = dense_arguments.b;
    g.d = dense_arguments.d;
    gemm_core::cuda::GatherGemm by_rows, scattered, by_taps;
    check(by_rows.initialize(g, nullptr, 0, stream));
    g.d.rows = {{rows.data(), DType::i32}, kM};
    check(scattered.initialize(g, nullptr, 0, stream));
    g.d.rows = {};
    g.a.row_stride = g.a.run = c;
    g.a.index = {taps.data(), DType::i32};
    g.a.index_count = kM * kTaps;
    g.a.row_slot_stride = kTaps;
    g.a.tap_slot_stride = 1;
    check(by_taps.initialize(g, nullptr, 0, stream));
    const auto ms = medians({[&] { dense.run(stream); }, [&] { by_rows.run(stream); },
                             [&] { scattered.run(stream); }, [&] { by_taps.run(stream); }},
                            stream);
    const char* const what[] = {"dense", "rows permuted", "and scattered", "27 taps"};
    for (std::size_t i = 0; i < ms.size(); ++i)
      std::printf("gather %ldx%ldx%-5ld %-14s %-28s %8.1f us, %6.1f TFLOP/s: %.2f of dense\n",
                  static_cast<long>(kM), static_cast<long>(c), static_cast<long>(k), what[i],
                  (i == 0 ? dense.kernel_name() : by_rows.kernel_name()).c_str(), 1e3 * ms[i],
                  2e-9 * static_cast<double>(kM * c * k) / ms[i], ms[0] / ms[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    const auto stream = base::cuda::Stream::create();
    Cublas cublas;
    if (what.empty() || what == "epilogue" || what == "trees")
      time_epilogue(stream.get(), what != "trees");
    if (what.empty() || what == "grouped") time_grouped(cublas, stream.get());
    if (what.empty() || what == "stream_k") time_stream_k(stream.get());
    if (what.empty() || what == "gather") time_gather(stream.get());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

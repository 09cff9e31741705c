// Operations beside products on CUDA: structured sparse products beside the dense one, contractions
// beside the product of the same size, reductions against the memory's bandwidth.
//   operations_cuda_bench [sparse|contraction|reduction]
// Medians of bursts of launches of about 5 ms, ours and the other in turn; random values.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "benchmarks/support/dense_problem.cuh"
#include "gemm_core/device/cuda/contraction/contraction.hpp"
#include "gemm_core/device/cuda/gemm/gemm.hpp"
#include "gemm_core/device/cuda/reduction.hpp"
#include "gemm_core/device/cuda/sparse/sparse_gemm.hpp"

namespace {

using benchmarks::burst_ms;
using benchmarks::Bytes;
using benchmarks::DType;
using benchmarks::median;
using benchmarks::random_operand;
using gemm_core::GemmArguments;
using gemm_core::ModeKind;

constexpr int kRounds = 9;

template <class Ours, class Theirs>
void report(const std::string& name, const std::string& kernel, double work, const char* unit,
            const char* other, cudaStream_t stream, const Ours& ours, const Theirs& theirs) {
  ours(0);
  const int count = std::clamp(static_cast<int>(5.f / burst_ms(1, stream, ours)), 1, 50);
  std::vector<float> us, peer;
  for (int round = 0; round < kRounds; ++round) {
    us.push_back(burst_ms(count, stream, ours));
    if (other != nullptr) peer.push_back(burst_ms(count, stream, theirs));
  }
  const double ms = median(us);
  std::printf("%-34s %-26s %8.1f us %8.1f %s", name.c_str(), kernel.c_str(), 1e3 * ms,
              work / ms * 1e-9, unit);
  if (other != nullptr)
    std::printf("  %s %8.1f us  ratio %.3f", other, 1e3 * median(peer), median(peer) / ms);
  std::printf("\n");
  std::fflush(stdout);
}

// A product with its own dense operands.
struct Product {
  std::vector<Bytes> buffers;
  gemm_core::cuda::Gemm gemm;
  GemmArguments g;
  Product(std::int64_t m, std::int64_t n, std::int64_t k, DType compute, DType type,
          cudaStream_t stream, std::int64_t batch = 1) {
    g.m = m;
    g.n = n;
    g.k = k;
    g.batch = batch;
    g.compute = compute;
    const auto filled = [&](std::int64_t count, unsigned seed) {
      return buffers.emplace_back(random_operand(type, count, seed, stream)).data();
    };
    g.a.data = filled(batch * m * k, 1);
    g.b.data = filled(batch * k * n, 2);
    g.d.data = filled(batch * m * n, 3);
    g.a.dtype = g.b.dtype = g.d.dtype = type;
    g.a.row_stride = g.b.column_stride = k;
    g.b.row_stride = 1;
    g.d.row_stride = n;
    g.a.batch_stride = m * k;
    g.b.batch_stride = k * n;
    g.d.batch_stride = m * n;
    const auto status = gemm.initialize(g, nullptr, 0, stream);
    ENSURE(status.ok(), status.message);
  }
};

void run_sparse(cudaStream_t stream) {
  for (const auto& [m, n, k] :
       {std::tuple{8192, 8192, 8192}, {4096, 4096, 4096}, {4096, 1024, 8192}}) {
    for (const DType type : {DType::f16, DType::bf16}) {
      Product dense(m, n, k, type, type, stream);
      gemm_core::DenseRows rows{const_cast<void*>(dense.g.a.data), type, m, k, k};
      Bytes values(static_cast<std::size_t>(std::int64_t{m} * k));
      const std::int64_t pitch = gemm_core::cuda::aligned_metadata_pitch(k);
      Bytes metadata(static_cast<std::size_t>(m * pitch));
      const gemm_core::cuda::SparseBuffers buffers{values.data(), metadata.data(), pitch};
      gemm_core::cuda::prune_2to4(rows, stream);
      gemm_core::cuda::compress_2to4(rows, buffers, stream);
      GemmArguments g = dense.g;
      g.a = gemm_core::cuda::sparse_operand(rows, buffers);
      gemm_core::cuda::SparseGemm sparse;
      Bytes workspace(gemm_core::cuda::SparseGemm::workspace_size(g));
      const auto status = sparse.initialize(g, workspace.data(), workspace.size(), stream);
      ENSURE(status.ok(), status.message);
      report(
          base::concat("sparse ", base::name(type), " ", m, "x", n, "x", k), sparse.kernel_name(),
          2.0 * m * n * k, "T (as dense)", "dense", stream, [&](int) { sparse.run(stream); },
          [&](int) { dense.gemm.run(stream); });
    }
  }
}

void run_contractions(cudaStream_t stream) {
  struct Case {
    const char* name;
    std::vector<gemm_core::ContractionMode> modes;
    std::int64_t a, b, d;
  };
  constexpr std::int64_t e = 64, big = e * e * e * e;
  const std::vector<Case> cases{{"abcd = abef cdef (a product)",
                                 {{ModeKind::m, e * e, {.a = e * e, .d = e * e}},
                                  {ModeKind::n, e * e, {.b = e * e, .d = 1}},
                                  {ModeKind::k, e * e, {.a = 1, .b = 1}}},
                                 big,
                                 big,
                                 big},
                                {"abcd = aebf cedf",
                                 {{ModeKind::m, e, {.a = e * e * e, .d = e * e * e}},
                                  {ModeKind::m, e, {.a = e, .d = e * e}},
                                  {ModeKind::n, e, {.b = e * e * e, .d = e}},
                                  {ModeKind::n, e, {.b = e, .d = 1}},
                                  {ModeKind::k, e, {.a = e * e, .b = e * e}},
                                  {ModeKind::k, e, {.a = 1, .b = 1}}},
                                 big,
                                 big,
                                 big},
                                {"abcd = aebf fdec",
                                 {{ModeKind::m, e, {.a = e * e * e, .d = e * e * e}},
                                  {ModeKind::m, e, {.a = e, .d = e * e}},
                                  {ModeKind::n, e, {.b = 1, .d = e}},
                                  {ModeKind::n, e, {.b = e * e, .d = 1}},
                                  {ModeKind::k, e, {.a = e * e, .b = e}},
                                  {ModeKind::k, e, {.a = 1, .b = e * e * e}}},
                                 big,
                                 big,
                                 big}};
  Product product(e * e, e * e, e * e, DType::f16, DType::f16, stream);
  for (const Case& c : cases) {
    const Bytes a = random_operand(DType::f16, c.a, 1, stream),
                b = random_operand(DType::f16, c.b, 2, stream);
    Bytes d(static_cast<std::size_t>(c.d) * 2);
    gemm_core::ContractionArguments g;
    g.modes = c.modes;
    g.compute = DType::f16;
    g.a = {const_cast<std::uint8_t*>(a.data()), DType::f16};
    g.b = {const_cast<std::uint8_t*>(b.data()), DType::f16};
    g.d = {d.data(), DType::f16};
    gemm_core::cuda::Contraction contraction;
    Bytes workspace(gemm_core::cuda::Contraction::workspace_size(g));
    const auto status = contraction.initialize(g, workspace.data(), workspace.size(), stream);
    ENSURE(status.ok(), c.name, ": ", status.message);
    report(
        c.name, contraction.kernel_name(), 2.0 * e * e * e * e * e * e, "T", "product", stream,
        [&](int) { contraction.run(stream); }, [&](int) { product.gemm.run(stream); });
  }
}

void run_reductions(cudaStream_t stream) {
  constexpr std::int64_t rows = 65536, columns = 4096;
  for (const DType type : {DType::f16, DType::f32}) {
    const Bytes x = random_operand(type, rows * columns, 1, stream);
    Bytes y(static_cast<std::size_t>(rows) * 4);
    for (const auto& [name, modes] :
         {std::pair<const char*, std::vector<gemm_core::ReductionMode>>{
              "rows", {{rows, columns, 1, true}, {columns, 1}}},
          {"columns", {{rows, columns}, {columns, 1, 1, true}}},
          {"all", {{rows, columns}, {columns, 1}}},
          {"middle of [256, 256, 4096]",
           {{256, 256 * columns, columns, true}, {256, columns}, {columns, 1, 1, true}}}}) {
      Bytes large(modes.size() == 3 ? 256 * columns * 4 : 16);
      gemm_core::ReductionArguments g;
      g.modes = modes;
      g.input = {const_cast<std::uint8_t*>(x.data()), type};
      g.output = {modes.size() == 3 ? large.data() : y.data(), DType::f32};
      gemm_core::cuda::Reduction op;
      Bytes workspace(gemm_core::cuda::Reduction::workspace_size(g));
      const auto status = op.initialize(g, workspace.data(), workspace.size());
      ENSURE(status.ok(), status.message);
      const auto run = [&](int) { op.run(stream); };
      report(base::concat("sum of ", name, " ", base::name(type)), "",
             double(rows * columns * base::bytes(type)) * 1e3, "GB/s", nullptr, stream, run, run);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  try {
    const auto stream = base::cuda::Stream::create();
    if (which.empty() || which == "sparse") run_sparse(stream.get());
    if (which.empty() || which == "contraction") run_contractions(stream.get());
    if (which.empty() || which == "reduction") run_reductions(stream.get());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

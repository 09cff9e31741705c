// Compiled epilogue trees over more tiles than a device has thread blocks.
#include <algorithm>

#include "tests/cuda/require_device.hpp"
#include "tests/cuda/visitor_case.hpp"

namespace {

using namespace visitor_case;  // NOLINT: a test file

// More tiles than thread blocks, sums longer than the ring of stages: every path rounds alike.
TEST(CudaVisitor, TilesOfAllSizesGiveTheSameBits) {
  REQUIRE_HOPPER();
  constexpr std::int64_t kM = 2500, kN = 4104, kK = 584, kBatch = 2;
  const auto integers = [](std::int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<base::half_t> values(static_cast<std::size_t>(count));
    for (auto& v : values) v = base::half_t(static_cast<float>(static_cast<int>(random() % 7) - 3));
    return Both<base::half_t>(std::move(values));
  };
  auto a = integers(kBatch * kM * kK, 1), b = integers(kN * kK, 2);
  auto residual = integers(kBatch * kM * kN, 3);
  auto row = random_both<float>(kN, 4);
  Both<base::half_t> d(std::vector<base::half_t>(static_cast<std::size_t>(kBatch * kM * kN)));
  GemmArguments g;
  g.m = kM, g.n = kN, g.k = kK, g.batch = kBatch;
  g.compute = g.a.dtype = g.b.dtype = g.d.dtype = DType::f16;
  g.a.data = a.data(), g.a.row_stride = kK, g.a.batch_stride = kM * kK;
  g.b.data = b.data(), g.b.row_stride = 1, g.b.column_stride = kK;
  g.d.data = d.data(), g.d.row_stride = kN, g.d.batch_stride = kM * kN;
  const auto plus = compute(ElementwiseOp::plus);
  Both<float> amax({0.f});
  for (const bool has_residual : {false, true}) {
    const auto biased =
        tree(compute(ElementwiseOp::silu), tree(plus, Accumulator{}, RowLoad{row.data()}));
    const MatrixLoad load{.matrix = {residual.data(), DType::f16, kN, 1}, .batch_stride = kM * kN};
    const RuntimeGraph graph =
        has_residual ? describe(tree(Reduce{.reduction = Reduction::amax, .out = amax.data()},
                                     tree(plus, biased, load)))
                     : describe(biased);
    std::vector<base::half_t> first;
    float first_amax = 0;
    for (const VisitorPath path : {VisitorPath::separate, VisitorPath::compiled_128,
                                   VisitorPath::compiled_256, VisitorPath::compiled_256}) {
      const auto stream = base::cuda::Stream::create();
      CUDA_CHECK(cudaMemset(d.data(), 0x5a, d.host.size() * 2));
      CUDA_CHECK(cudaDeviceSynchronize());
      const std::size_t bytes = VisitorGemm::workspace_size(g, graph, path);
      base::cuda::Buffer<std::uint8_t> workspace(bytes);
      VisitorGemm gemm;
      const GemmStatus status =
          gemm.initialize(g, graph, workspace.data(), bytes, stream.get(), path);
      ASSERT_TRUE(status.ok()) << status.message;
      ASSERT_TRUE(gemm.run(stream.get()).ok());
      stream.synchronize();
      d.download();
      amax.download();
      if (first.empty()) first = d.host, first_amax = amax.host[0];
      const auto different = std::mismatch(first.begin(), first.end(), d.host.begin(),
                                           [](auto x, auto y) { return float(x) == float(y); });
      ASSERT_TRUE(different.first == first.end())
          << gemm.kernel_name() << " at " << different.first - first.begin() << ": "
          << float(*different.second) << ", " << float(*different.first);
      ASSERT_EQ(amax.host[0], first_amax) << gemm.kernel_name();
    }
  }
}

}  // namespace

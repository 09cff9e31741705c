// Dense products whose results or strides pass 2^31 elements.
#include <gtest/gtest.h>

#include "tests/cuda/dense_case.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using gemm_core::cuda::Gemm;

constexpr DType f16 = DType::f16;

// Results of more than 2^31 elements: the last rows are those of a small product.
TEST(CudaGemm, ReachesElementsPast2To31) {
  REQUIRE_DEVICE();
  constexpr std::int64_t kM = 70000, kN = 40000, kK = 64, kLast = 2;
  std::size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  if (free < static_cast<std::size_t>(2 * kM * kN) + (std::size_t{1} << 30))
    GTEST_SKIP() << "needs 7 GB of device memory";
  std::mt19937 random(6);
  DenseMatrixCase a(kM, kK, f16, true, true, 1, random), b(kK, kN, f16, false, true, 1, random);
  a.upload();
  b.upload();
  base::cuda::Buffer<base::half_t> d(static_cast<std::size_t>(kM * kN));
  GemmArguments g{.m = kM, .n = kN, .k = kK};
  g.a = a.operand<gemm_core::GemmOperand>(true);
  g.b = b.operand<gemm_core::GemmOperand>(true);
  g.d = {d.data(), f16, kN, 1};
  g.compute = f16;
  std::vector<base::half_t> expected(static_cast<std::size_t>(kLast * kN)), got(expected.size());
  GemmArguments last = g;
  last.m = kLast;
  last.a = a.operand<gemm_core::GemmOperand>(false);
  last.a.data = static_cast<const base::half_t*>(last.a.data) + (kM - kLast) * a.row_stride;
  last.b = b.operand<gemm_core::GemmOperand>(false);
  last.d.data = expected.data();
  ASSERT_TRUE(gemm_case::run(last).ok());
  for (const std::string& name : gemm_core::cuda::dense_kernel_names(g)) {
    CUDA_CHECK(cudaMemset(d.data(), 0xff, d.nbytes()));
    Gemm gemm;
    ASSERT_TRUE(gemm.initialize(g, nullptr, 0, nullptr, {name, 8}).ok());
    ASSERT_TRUE(gemm.run(nullptr).ok());
    CUDA_CHECK(cudaMemcpy(got.data(), d.data() + (kM - kLast) * kN, got.size() * 2,
                          cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < got.size(); ++i) {
      // Sums of 64 products of normal numbers: rounded to f16 on either side.
      ASSERT_NEAR(float(got[i]), float(expected[i]), 2e-3f * std::fabs(float(expected[i])) + 1e-4f)
          << name << " at " << i;
    }
  }
}

// Rows further apart than 2^31 elements, of an operand or of the result.
TEST(CudaGemm, TakesStridesPast2To31) {
  REQUIRE_DEVICE();
  constexpr std::int64_t kStride = (std::int64_t{1} << 31) + 64, kRows = 5;
  std::size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const auto elements = static_cast<std::size_t>((kRows - 1) * kStride + 4096);
  if (free < 2 * elements + (std::size_t{1} << 30)) GTEST_SKIP() << "needs 18 GB of device memory";
  base::cuda::Buffer<base::half_t> wide(elements);
  const auto copy_rows = [&](void* to, std::int64_t to_stride, const void* from,
                             std::int64_t from_stride, std::int64_t columns) {
    for (std::int64_t i = 0; i < kRows; ++i) {
      CUDA_CHECK(cudaMemcpy(static_cast<base::half_t*>(to) + i * to_stride,
                            static_cast<const base::half_t*>(from) + i * from_stride,
                            static_cast<std::size_t>(2 * columns), cudaMemcpyDeviceToDevice));
    }
  };
  for (const bool of_result : {false, true}) {
    DenseProblem problem({.m = kRows, .n = 72, .k = 64});
    problem.compute_expected();
    const GemmArguments plain = problem.arguments();
    GemmArguments g = plain;
    if (of_result) {
      g.d.data = wide.data();
      g.d.row_stride = kStride;
    } else {
      copy_rows(wide.data(), kStride, plain.a.data, plain.a.row_stride, 64);
      g.a.data = wide.data();
      g.a.row_stride = kStride;
    }
    for (const std::string& name : gemm_core::cuda::dense_kernel_names(g)) {
      problem.clear_result();
      if (of_result) copy_rows(wide.data(), kStride, plain.d.data, plain.d.row_stride, 72);
      Gemm gemm;
      ASSERT_TRUE(gemm.initialize(g, nullptr, 0, nullptr, {name, 8}).ok());
      ASSERT_TRUE(gemm.run(nullptr).ok());
      CUDA_CHECK(cudaDeviceSynchronize());
      if (of_result) copy_rows(plain.d.data, plain.d.row_stride, wide.data(), kStride, 72);
      problem.d().download();
      problem.expect_right(name);
    }
  }
}

}  // namespace
}  // namespace cuda_tests

// The kernels of dense products that need no Hopper against the CPU's. A run with
// CUDA_FORCE_PTX_JIT=1 takes what was compiled for sm_80, where the build has it.
#include <gtest/gtest.h>

#include "tests/cuda/dense_case.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

TEST(CudaPortableGemm, EqualsTheCpuForEveryTypeAndLayout) {
  REQUIRE_DEVICE();
  using enum DType;
  for (const DenseTypes& types : {DenseTypes{f16, f16, f16, f16, f16},
                                  {bf16, bf16, bf16, f32, f32},
                                  {tf32, f32, f32, f32, f32},
                                  {f32, f32, f16, f32, f32},
                                  {f64, f64, f64, f64, f64},
                                  {i8, i8, i8, i32, i32},
                                  {i8, u8, i4, i32, i32},
                                  {e4m3, e4m3, e5m2, f32, f16}}) {
    for (const bool aligned : {true, false}) {
      for (int majors = 0; majors < 4; ++majors) {
        DenseCase c{.m = 139, .n = 150, .k = 95, .batch = 2, .types = types};
        c.a_rows = majors % 2 == 0;
        c.b_rows = majors / 2 == 0;
        c.aligned = aligned;
        DenseProblem problem(c, 3);
        problem.compute_expected();
        const GemmArguments g = problem.arguments();
        int count = 0;
        for (const std::string& name : gemm_core::cuda::dense_kernel_names(g)) {
          if (name.rfind("sm80", 0) != 0 && name.rfind("simt", 0) != 0) continue;
          problem.clear_result();
          const GemmStatus status = problem.run(g, {name, 4});
          ASSERT_TRUE(status.ok()) << status.message;
          problem.expect_right(name);
          if (HasFatalFailure()) return;
          ++count;
        }
        EXPECT_GE(count, 1) << describe(c);
      }
    }
  }
}

}  // namespace
}  // namespace cuda_tests

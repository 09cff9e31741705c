// Reductions on the device against the CPU's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/cuda/reduction.hpp"
#include "tests/cuda/require_device.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace {

using base::DType;
using gemm_core::ReductionArguments;
using gemm_core::ReductionMode;
using Bytes = base::cuda::Buffer<std::uint8_t>;
using Kind = gemm_core::visitor::Reduction;

constexpr Kind kKinds[] = {Kind::sum, Kind::maximum, Kind::minimum, Kind::amax};

struct Case {
  std::vector<ReductionMode> modes;
  DType in = DType::f32, out = DType::f32;
  Kind kind = Kind::sum;
  double scale = 1;
  bool with_nan = false;
};

std::int64_t span(const std::vector<ReductionMode>& modes, std::int64_t ReductionMode::*step) {
  std::int64_t last = 0;
  for (const auto& m : modes)
    if (m.extent > 0) last += (m.extent - 1) * (m.*step);
  return last + 1;
}

void check(const Case& c) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  const std::int64_t in = span(c.modes, &ReductionMode::in),
                     out = span(c.modes, &ReductionMode::out);
  std::vector<std::uint8_t> x(static_cast<std::size_t>(in * base::bytes(c.in))),
      y(static_cast<std::size_t>(out * base::bytes(c.out)), 0x55);
  for (std::int64_t i = 0; i < in; ++i) {
    const bool integer = c.in == DType::i8 || c.in == DType::i32;
    gemm_case::write(
        x.data(), c.in, i,
        integer ? static_cast<double>(static_cast<int>(random() % 255) - 127) : normal(random));
  }
  if (c.with_nan) gemm_case::write(x.data(), c.in, in / 2, std::nan(""));
  Bytes device_x(x.size() + 16), device_y(y.size());
  CUDA_CHECK(cudaMemcpy(device_x.data(), x.data(), x.size(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(device_y.data(), y.data(), y.size(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaDeviceSynchronize());
  ReductionArguments g{.modes = c.modes,
                       .input = {device_x.data(), c.in},
                       .output = {device_y.data(), c.out},
                       .reduction = c.kind,
                       .scale = c.scale};
  const auto stream = base::cuda::Stream::create();
  Bytes workspace(gemm_core::cuda::Reduction::workspace_size(g));
  gemm_core::cuda::Reduction op;
  auto status = op.initialize(g, workspace.data(), workspace.size());
  ASSERT_TRUE(status.ok()) << status.message;
  std::vector<std::uint8_t> got(y.size()), again(y.size());
  for (auto* to : {&got, &again}) {
    ASSERT_TRUE(op.run(stream.get()).ok());
    stream.synchronize();
    CUDA_CHECK(cudaMemcpy(to->data(), device_y.data(), y.size(), cudaMemcpyDeviceToHost));
  }
  EXPECT_EQ(got, again);
  g.input.data = x.data();
  g.output.data = y.data();
  gemm_core::Reduction cpu;
  ASSERT_TRUE(cpu.initialize(g).ok());
  ASSERT_TRUE(cpu.run().ok());
  double terms = 1;
  for (const auto& m : c.modes) terms *= m.kept ? 1 : static_cast<double>(m.extent);
  const bool exact = c.kind != Kind::sum || c.in == DType::i32;
  // A normal sum of n terms is below 6 sqrt(n); errors grow with the magnitudes, below 6 n.
  const double share = exact ? 0
                             : 6 * terms * (16 + std::log2(terms + 1) + 4096.0) *
                                   std::ldexp(1.0, c.in == DType::f64 ? -53 : -24) *
                                   (c.in == DType::i8 ? 20 : 1);
  for (std::int64_t i = 0; i < out; ++i) {
    const double a = gemm_case::read(got.data(), c.out, i), b = gemm_case::read(y.data(), c.out, i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (std::isinf(b)) {
      ASSERT_EQ(a, b) << i;
      continue;
    }
    const double tolerance =
        share * std::fabs(c.scale) + (exact && c.scale == 1 ? 0 : 1e-6 * std::fabs(b)) +
        (exact && c.scale == 1 ? 0 : 2 * gemm_case::unit_roundoff(c.out) * std::fabs(b));
    ASSERT_NEAR(a, b, tolerance) << "result " << i << " kind " << static_cast<int>(c.kind) << " of "
                                 << base::name(c.in) << " over " << terms << " terms";
  }
}

TEST(CudaReduction, RowsColumnsAndAllEqualTheCpu) {
  REQUIRE_DEVICE();
  for (const Kind kind : kKinds) {
    for (const DType in :
         {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i8, DType::e4m3}) {
      const DType out = in == DType::f64 || in == DType::i32 ? in : DType::f32;
      for (const auto& [rows, columns] :
           {std::pair{3, 5}, {1, 1}, {70, 33}, {5, 40000}, {40000, 5}, {300, 1024}}) {
        const std::int64_t r = rows, n = columns, pitch = (n + 15) / 8 * 8;
        check({{{r, pitch, 1, true}, {n, 1}}, in, out, kind});
        check({{{r, pitch}, {n, 1, 1, true}}, in, out, kind});
        check({{{r, n}, {n, 1}}, in, out, kind});
        check({{{r, pitch}, {n, 1}}, in, out, kind});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CudaReduction, AnyModesKeptAndAnyStridesEqualTheCpu) {
  REQUIRE_DEVICE();
  for (int kept = 0; kept < 16; ++kept) {
    for (const Kind kind : kKinds) {
      const std::int64_t extent[] = {7, 40, 3, 130};
      std::int64_t in = 1, out = 2;
      Case c{.in = DType::f16, .out = DType::f16, .kind = kind, .scale = 0.25};
      for (int i = 0; i < 4; ++i) {
        const bool keeps = (kept >> i & 1) != 0;
        c.modes.push_back({extent[i], in, keeps ? out : 0, keeps});
        in *= extent[i] + i % 2;
        if (keeps) out *= extent[i];
      }
      check(c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CudaReduction, NothingGivesTheIdentityAndNanPassesOn) {
  REQUIRE_DEVICE();
  for (const Kind kind : kKinds) {
    check({{{5, 1, 1, true}, {0, 5}}, DType::f32, DType::f32, kind});
    check({{{0, 1, 1, true}, {5, 5}}, DType::f32, DType::f32, kind});
    check({{{5, 1000, 1, true}, {1000, 1}}, DType::f32, DType::f32, kind, 1, true});
    check({{{5, 1, 1, true}, {1000, 5}}, DType::bf16, DType::f32, kind, 1, true});
  }
}

TEST(CudaReduction, RefusesWhatItCannotDo) {
  REQUIRE_DEVICE();
  using Code = gemm_core::GemmStatus::Code;
  std::vector<float> host(100000);
  base::cuda::Buffer<float> x(100000), y(4);
  ReductionArguments g{.modes = {{100000, 1}}, .input = {x.data()}, .output = {y.data()}};
  gemm_core::cuda::Reduction op;
  EXPECT_EQ(op.run(nullptr).code, Code::not_initialized);
  EXPECT_EQ(op.initialize(g, nullptr, 0).code, Code::small_workspace);
  g.input.data = host.data();
  EXPECT_EQ(gemm_core::cuda::Reduction::can_implement(g).code, Code::wrong_device);
  g.input.dtype = DType::i64;
  EXPECT_EQ(gemm_core::cuda::Reduction::can_implement(g).code, Code::unsupported);
}

}  // namespace

// Complex products on the device against sums in double, and the CPU's operation beside them.
#include <gtest/gtest.h>

#include <complex>

#include "tests/cuda/dense_case.hpp"
#include "tests/cuda/require_device.hpp"

namespace cuda_tests {
namespace {

using gemm_core::GemmOperand;
using gemm_core::GemmOutput;
using gemm_core::cuda::Gemm;

struct ComplexCase {
  std::int64_t m = 20, n = 30, k = 40, batch = 1;
  DType type = DType::c64;
  bool a_rows = true, b_rows = false, d_rows = true, conjugate_a = false, conjugate_b = false;
  std::complex<double> alpha{1, 0}, beta{0, 0};
};

// A matrix per batch, numbers side by side with a gap after each line.
struct ComplexMatrixCase {
  std::int64_t rows, columns, row_stride, column_stride, batch_stride;
  DType type;
  std::vector<std::uint8_t> host;
  base::cuda::Buffer<std::uint8_t> device;

  ComplexMatrixCase(std::int64_t r, std::int64_t c, DType t, bool row_major, std::int64_t batch,
                    std::mt19937& random)
      : rows(r), columns(c), type(t) {
    const std::int64_t length = std::max<std::int64_t>(1, row_major ? c : r) + 2;
    row_stride = row_major ? length : 1;
    column_stride = row_major ? 1 : length;
    batch_stride = length * std::max<std::int64_t>(1, row_major ? r : c) + 5;
    host.resize(static_cast<std::size_t>(batch * batch_stride * base::bytes(t)));
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < batch * batch_stride; ++i)
      set(i, {normal(random), normal(random)});
    device = base::cuda::Buffer<std::uint8_t>(host.size());
    upload();
  }
  void set(std::int64_t at, std::complex<double> v) {
    if (type == DType::c64)
      reinterpret_cast<std::complex<float>*>(host.data())[at] = std::complex<float>(v);
    else
      reinterpret_cast<std::complex<double>*>(host.data())[at] = v;
  }
  std::complex<double> operator()(std::int64_t i, std::int64_t j, std::int64_t l) const {
    const std::int64_t at = i * row_stride + j * column_stride + l * batch_stride;
    return type == DType::c64
               ? std::complex<double>(reinterpret_cast<const std::complex<float>*>(host.data())[at])
               : reinterpret_cast<const std::complex<double>*>(host.data())[at];
  }
  void upload() {
    CUDA_CHECK(cudaMemcpy(device.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  template <class Operand>
  Operand operand(bool on_device) {
    Operand o;
    o.data = on_device ? device.data() : host.data();
    o.dtype = type;
    o.row_stride = row_stride;
    o.column_stride = column_stride;
    o.batch_stride = batch_stride;
    return o;
  }
};

void check(const ComplexCase& c, unsigned seed) {
  std::mt19937 random(seed);
  ComplexMatrixCase a(c.m, c.k, c.type, c.a_rows, c.batch, random),
      b(c.k, c.n, c.type, c.b_rows, c.batch, random), in(c.m, c.n, c.type, true, c.batch, random),
      d(c.m, c.n, c.type, c.d_rows, c.batch, random);
  const auto arguments = [&](bool on_device) {
    GemmArguments g{.m = c.m, .n = c.n, .k = c.k, .batch = c.batch};
    g.a = a.operand<GemmOperand>(on_device);
    g.b = b.operand<GemmOperand>(on_device);
    g.c = in.operand<GemmOperand>(on_device);
    g.d = d.operand<GemmOutput>(on_device);
    g.a.conjugate = c.conjugate_a;
    g.b.conjugate = c.conjugate_b;
    g.compute = c.type;
    g.alpha = c.alpha.real();
    g.alpha_imag = c.alpha.imag();
    g.beta = c.beta.real();
    g.beta_imag = c.beta.imag();
    return g;
  };
  const auto expect_right = [&](const char* who) {
    const double u = std::ldexp(1.0, c.type == DType::c64 ? -24 : -53);
    for (std::int64_t l = 0; l < c.batch; ++l) {
      for (std::int64_t i = 0; i < c.m; ++i) {
        for (std::int64_t j = 0; j < c.n; ++j) {
          std::complex<double> sum = 0;
          double magnitude = 0;
          for (std::int64_t k = 0; k < c.k; ++k) {
            const auto x = c.conjugate_a ? std::conj(a(i, k, l)) : a(i, k, l);
            const auto y = c.conjugate_b ? std::conj(b(k, j, l)) : b(k, j, l);
            sum += x * y;
            magnitude += std::abs(x) * std::abs(y);
          }
          const auto expected = c.alpha * sum + c.beta * in(i, j, l);
          // Two products a step, each rounded; then alpha, beta and the result.
          const double tolerance =
              (2 * static_cast<double>(c.k) + 16) * u *
              (2 * std::abs(c.alpha) * magnitude + 2 * std::abs(c.beta) * std::abs(in(i, j, l)));
          ASSERT_LE(std::abs(d(i, j, l) - expected), tolerance + 1e-300)
              << who << " m " << c.m << " n " << c.n << " k " << c.k << " batch " << c.batch << " "
              << base::name(c.type) << " at " << l << ", " << i << ", " << j << ": got "
              << d(i, j, l) << ", expected " << expected;
        }
      }
    }
  };
  const auto before = d.host;
  ASSERT_TRUE(gemm_case::run(arguments(false)).ok());
  expect_right("cpu");
  d.host = before;
  Gemm gemm;
  const GemmStatus status = gemm.initialize(arguments(true), nullptr, 0, nullptr);
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_TRUE(gemm.run(nullptr).ok());
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemcpy(d.host.data(), d.device.data(), d.host.size(), cudaMemcpyDeviceToHost));
  expect_right("cuda");
  // Gaps are as they were.
  std::vector<bool> inside(d.host.size() / static_cast<std::size_t>(base::bytes(c.type)));
  for (std::int64_t l = 0; l < c.batch; ++l) {
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j)
        inside[static_cast<std::size_t>(i * d.row_stride + j * d.column_stride +
                                        l * d.batch_stride)] = true;
    }
  }
  const auto size = static_cast<std::size_t>(base::bytes(c.type));
  for (std::size_t i = 0; i < d.host.size(); ++i) {
    ASSERT_TRUE(inside[i / size] || d.host[i] == before[i]) << "byte " << i << " beside D";
  }
}

TEST(CudaComplexGemm, SmallCasesForSanitizers) {
  REQUIRE_DEVICE();
  for (const DType type : {DType::c64, DType::c128})
    check({.m = 70, .n = 65, .k = 19, .type = type, .conjugate_a = true, .beta = {0, 1}}, 3);
}

TEST(CudaComplexGemm, EqualsTheDefinitionOnRandomShapesAndLayouts) {
  REQUIRE_DEVICE();
  constexpr std::int64_t kExtents[] = {0, 1, 2, 3, 7, 8, 17, 63, 64, 65, 127, 130, 200};
  std::mt19937 random(8);
  const auto extent = [&] { return kExtents[random() % std::size(kExtents)]; };
  for (int round = 0; round < 200; ++round) {
    ComplexCase c{.m = extent(), .n = extent(), .k = extent()};
    c.type = random() % 2 ? DType::c64 : DType::c128;
    c.batch = random() % 4 == 0 ? 3 : 1;
    c.a_rows = random() % 2;
    c.b_rows = random() % 2;
    c.d_rows = random() % 2;
    c.conjugate_a = random() % 2;
    c.conjugate_b = random() % 2;
    if (random() % 2) c.alpha = {0.5, -1.25};
    if (random() % 2) c.beta = {random() % 2 ? 0.0 : -0.75, 0.5};
    check(c, static_cast<unsigned>(random()));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace cuda_tests

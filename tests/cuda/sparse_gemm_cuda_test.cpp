// Structured sparse products on the device: the compressor bit by bit the CPU's, products against
// the CPU's.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/cuda/sparse/sparse_gemm.hpp"
#include "tests/cuda/require_device.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace {

using base::DType;
using gemm_core::Activation;
using gemm_core::DenseRows;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;
using gemm_core::SparseMatrix;
using gemm_core::cuda::SparseBuffers;
using gemm_core::cuda::SparseGemm;
using Bytes = base::cuda::Buffer<std::uint8_t>;
using Host = std::vector<std::uint8_t>;

Host random_values(DType type, std::int64_t count, std::mt19937& random) {
  Host values(static_cast<std::size_t>(count * base::bytes(type)));
  std::normal_distribution<double> normal;
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = type == DType::i8 ? static_cast<double>(static_cast<int>(random() % 255) - 127)
                                       : normal(random);
    gemm_case::write(values.data(), type, i,
                     type == DType::f32 ? base::round_to_tf32(static_cast<float>(v)) : v);
  }
  return values;
}
Bytes upload(const Host& host) {
  Bytes device(host.size());
  CUDA_CHECK(cudaMemcpy(device.data(), host.data(), host.size(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaDeviceSynchronize());
  return device;
}
Host download(const Bytes& device) {
  Host host(device.size());
  CUDA_CHECK(cudaMemcpy(host.data(), device.data(), host.size(), cudaMemcpyDeviceToHost));
  return host;
}

TEST(CudaSparse, PrunesAndCompressesBitByBitLikeTheCpu) {
  REQUIRE_DEVICE();
  std::mt19937 random(1);
  for (const DType type :
       {DType::f32, DType::f16, DType::bf16, DType::e4m3, DType::e5m2, DType::i8}) {
    for (const auto& [rows, columns] : {std::pair{1, 4}, {7, 12}, {70, 136}, {3, 2048}}) {
      const std::int64_t stride = columns + 4;
      Host host = random_values(type, rows * stride, random);
      gemm_case::write(host.data(), type, 1, 0);  // equal magnitudes
      gemm_case::write(host.data(), type, 2, 0);
      const Bytes device = upload(host);
      const DenseRows dense{host.data(), type, rows, columns, stride};
      DenseRows there = dense;
      there.data = const_cast<std::uint8_t*>(device.data());
      gemm_core::prune_2to4(dense);
      gemm_core::cuda::prune_2to4(there, nullptr);
      ASSERT_EQ(download(device), host) << base::name(type) << " " << rows << " x " << columns;

      const SparseMatrix expected = gemm_core::compress_2to4(dense);
      Bytes values(expected.values.size()), metadata(expected.metadata.size());
      base::cuda::Buffer<unsigned long long> bad(1);
      const SparseBuffers buffers{values.data(), metadata.data(), expected.metadata_pitch(),
                                  bad.data()};
      gemm_core::cuda::compress_2to4(there, buffers, nullptr);
      CUDA_CHECK(cudaDeviceSynchronize());
      EXPECT_EQ(download(values), Host(expected.values.begin(), expected.values.end()));
      Host got = download(metadata), wanted = expected.metadata;
      if (columns % 8 != 0) {  // the last half byte of a row stands for nothing
        for (std::int64_t i = 1; i <= rows; ++i) {
          got[static_cast<std::size_t>(i * expected.metadata_pitch() - 1)] &= 15;
          wanted[static_cast<std::size_t>(i * expected.metadata_pitch() - 1)] &= 15;
        }
      }
      EXPECT_EQ(got, wanted);
      unsigned long long first = 0;
      base::cuda::download(&first, bad, 1, nullptr);
      CUDA_CHECK(cudaDeviceSynchronize());
      EXPECT_EQ(first, ~0ull);
    }
  }
}

TEST(CudaSparse, NamesTheFirstGroupThatIsNotSparse) {
  REQUIRE_DEVICE();
  std::vector<float> host(8 * 16, 0.f);
  host[3 * 16 + 8] = host[3 * 16 + 9] = host[3 * 16 + 11] = 1;
  host[5 * 16] = host[5 * 16 + 1] = host[5 * 16 + 2] = 1;
  base::cuda::Buffer<float> device(host.size());
  CUDA_CHECK(cudaMemcpy(device.data(), host.data(), device.nbytes(), cudaMemcpyHostToDevice));
  Bytes values(8 * 8 * 4), metadata(8 * 2);
  base::cuda::Buffer<unsigned long long> bad(1);
  gemm_core::cuda::compress_2to4({device.data(), DType::f32, 8, 16, 16},
                                 {values.data(), metadata.data(), 2, bad.data()}, nullptr);
  unsigned long long first = 0;
  CUDA_CHECK(cudaDeviceSynchronize());
  base::cuda::download(&first, bad, 1, nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  EXPECT_EQ(first, 3u * 16 + 8);
}

struct Case {
  std::int64_t m, n, k;
  DType operand, out, compute;
  bool k_major_b = true;
  double alpha = 1, beta = 0;
  bool nodes = false;
};

// Every kernel that takes the product against the CPU's product of the same sparse matrix.
void check(const Case& c, bool wants_fast) {
  std::mt19937 random(9);
  Host dense = random_values(c.operand, c.m * c.k, random);
  const DenseRows rows{dense.data(), c.operand, c.m, c.k, c.k};
  gemm_core::prune_2to4(rows);
  const SparseMatrix sparse = gemm_core::compress_2to4(rows);
  const Host b = random_values(c.operand, c.k * c.n, random),
             addend = random_values(c.out, c.m * c.n, random);
  Host d(static_cast<std::size_t>(c.m * c.n * base::bytes(c.out)));
  std::vector<float> shift(static_cast<std::size_t>(c.n), 0.5f);
  GemmArguments g{.m = c.m, .n = c.n, .k = c.k};
  g.a = sparse.operand();
  g.b = {b.data(), c.operand, c.k_major_b ? 1 : c.n, c.k_major_b ? c.k : 1};
  g.c = {addend.data(), c.out, c.n, 1};
  g.d = {d.data(), c.out, c.n, 1};
  g.compute = c.compute;
  g.alpha = c.alpha;
  g.beta = c.beta;
  if (c.nodes) g.epilogue.scale_shift(nullptr, shift.data()).activate(Activation::relu);
  const GemmStatus status = gemm_case::run(g);
  ASSERT_TRUE(status.ok()) << status.message;

  const Bytes device_dense = upload(dense), device_b = upload(b), device_c = upload(addend);
  base::cuda::Buffer<float> device_shift(shift.size());
  CUDA_CHECK(
      cudaMemcpy(device_shift.data(), shift.data(), device_shift.nbytes(), cudaMemcpyHostToDevice));
  Bytes values(sparse.values.size());
  const std::int64_t pitch = gemm_core::cuda::aligned_metadata_pitch(c.k);
  Bytes metadata(static_cast<std::size_t>(c.m * pitch)), device_d(d.size());
  DenseRows there = rows;
  there.data = const_cast<std::uint8_t*>(device_dense.data());
  const SparseBuffers buffers{values.data(), metadata.data(), pitch};
  gemm_core::cuda::compress_2to4(there, buffers, nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  GemmArguments on_device = g;
  on_device.a = gemm_core::cuda::sparse_operand(there, buffers);
  on_device.b.data = device_b.data();
  on_device.c.data = device_c.data();
  on_device.d.data = device_d.data();
  on_device.epilogue = {};
  if (c.nodes)
    on_device.epilogue.scale_shift(nullptr, device_shift.data()).activate(Activation::relu);
  const auto names = gemm_core::cuda::sparse_kernel_names(on_device);
  ASSERT_FALSE(names.empty()) << SparseGemm::can_implement(on_device).message;
  const std::size_t fast = wants_fast && base::cuda::device_info(0).has_wgmma() ? 1 : 0;
  EXPECT_EQ(names.size(), 1 + fast);
  for (const std::string& name : names) {
    CUDA_CHECK(cudaMemset(device_d.data(), 0xff, device_d.size()));
    const auto stream = base::cuda::Stream::create();
    Bytes workspace(SparseGemm::workspace_size(on_device, name));
    SparseGemm gemm;
    CUDA_CHECK(cudaDeviceSynchronize());
    ASSERT_TRUE(
        gemm.initialize(on_device, workspace.data(), workspace.size(), stream.get(), name).ok());
    ASSERT_TRUE(gemm.run(stream.get()).ok());
    stream.synchronize();
    const Host got = download(device_d);
    // Sums of k / 2 products, each below 16 for about normal values (of 127^2 of int8).
    const auto k = static_cast<double>(c.k);
    const double largest = c.operand == DType::i8 ? 127.0 * 127 : 16;
    const double share = c.compute == DType::i8 ? 0 : largest * k * (k + 64) * std::ldexp(1.0, -25);
    for (std::int64_t i = 0; i < c.m * c.n; ++i) {
      const double expected = gemm_case::read(d.data(), c.out, i);
      const double tolerance =
          share * std::ldexp(1.0, -3) +
          (2 * gemm_case::unit_roundoff(c.out) + 1e-6) * (1 + std::fabs(expected));
      ASSERT_NEAR(gemm_case::read(got.data(), c.out, i), expected, tolerance)
          << name << " " << c.m << " x " << c.n << " x " << c.k << " at " << i / c.n << ", "
          << i % c.n;
    }
  }
}

TEST(CudaSparse, ProductsEqualTheCpus) {
  REQUIRE_DEVICE();
  for (const DType t : {DType::f16, DType::bf16}) {
    check({128, 128, 128, t, t, t}, true);
    check({128, 128, 512, t, t, t}, true);
    check({300, 264, 1056, t, t, t}, true);
    check({70, 40, 48, t, DType::f32, t}, true);
    check({257, 100, 160, t, t, t, true, 0.5, 2}, true);
    check({256, 136, 320, t, t, t, true, 1, 0, true}, true);
    check({130, 72, 96, t, t, t, false}, false);
    if (HasFatalFailure()) return;
  }
  check({70, 50, 52, DType::f16, DType::f16, DType::f16}, false);  // lines not aligned
  check({130, 72, 96, DType::f32, DType::f32, DType::f32}, false);
  check({130, 72, 96, DType::f32, DType::f32, DType::tf32}, false);
  check({130, 72, 96, DType::e4m3, DType::f32, DType::e4m3}, false);
}

TEST(CudaSparse, RefusesWhatItCannotDo) {
  REQUIRE_DEVICE();
  using Code = GemmStatus::Code;
  GemmArguments g{.m = 4, .n = 4, .k = 8};
  SparseGemm gemm;
  EXPECT_EQ(gemm.run(nullptr).code, Code::not_initialized);
  EXPECT_EQ(SparseGemm::can_implement(g).code, Code::null_operand);
  std::vector<std::uint8_t> host(256);
  Bytes device(1024);
  g.a = {device.data(), DType::f32, 4, 1};
  g.a.metadata = host.data();
  g.a.metadata_pitch = 1;
  g.b = {device.data() + 256, DType::f32, 4, 1};
  g.d = {device.data() + 512, DType::f32, 4, 1};
  const GemmStatus status = SparseGemm::can_implement(g);
  EXPECT_EQ(status.code, Code::wrong_device);
  EXPECT_NE(status.message.find("metadata"), std::string::npos) << status.message;
}

}  // namespace

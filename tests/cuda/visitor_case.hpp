// A product with residue tiles whose sums are exact, and what visitor graphs on it are compared
// with: the same arithmetic on the CPU's unfused sums.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "gemm_core/base/convert.hpp"
#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/cuda/visitor/visitor_gemm.hpp"
#include "gemm_core/epilogue/visitor_aliases.hpp"
#include "gemm_core/epilogue/visitor_description.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace visitor_case {

using namespace gemm_core::visitor;  // NOLINT: test helpers
using base::DType;
using gemm_core::ElementwiseOp;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;
using gemm_core::cuda::VisitorGemm;
using gemm_core::cuda::VisitorPath;

// Host memory and a copy on the device.
template <class T>
struct Both {
  std::vector<T> host;
  base::cuda::Buffer<T> device;
  Both() = default;
  explicit Both(std::vector<T> values) : host(std::move(values)), device(host.size()) { upload(); }
  void upload() {
    CUDA_CHECK(
        cudaMemcpy(device.data(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  void download() {
    CUDA_CHECK(
        cudaMemcpy(host.data(), device.data(), host.size() * sizeof(T), cudaMemcpyDeviceToHost));
  }
  T* data() { return device.data(); }
};

template <class T>
Both<T> random_both(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& v : values) v = T(normal(random));
  return Both<T>(std::move(values));
}

using Expected =
    std::function<float(std::int64_t, std::int64_t, float)>;  // row, column, accumulator

// Operands are small integers, so that sums are exact in any order. n = 408: the tree kernels take
// the product; n = 401: only a pass over sums does.
struct Setting {
  std::int64_t m = 301, n, k = 72, batch;
  DType type, out;
  Both<std::uint8_t> a, b, d;
  Both<float> row, column, column2, aux, c;
  Both<base::half_t> half;
  std::vector<float> plain;  // [batch][m][n]

  Setting(std::int64_t columns, DType operands, DType results, std::int64_t batches = 1);
  GemmArguments arguments() const;
  std::size_t at(std::int64_t i, std::int64_t j, std::int64_t l = 0) const {
    return static_cast<std::size_t>((l * m + i) * n + j);
  }
  MatrixLoad auxiliary() { return {.matrix = {aux.data(), DType::f32, n, 1}}; }
  MatrixLoad source() { return {.name = "C", .matrix = {c.data(), DType::f32, n, 1}}; }
  MatrixLoad residual() { return {.matrix = {half.data(), DType::f16, n, 1}}; }
  // Runs on a stream of its own and brings D back.
  void run(const GemmArguments& g, const RuntimeGraph& graph, VisitorPath path,
           std::string* kernel = nullptr);
  float result(std::int64_t i, std::int64_t j, std::int64_t l = 0) const {
    return static_cast<float>(
        gemm_case::read(d.host.data(), out, static_cast<std::int64_t>(at(i, j, l))));
  }
};

// Every path that takes the graph: equal to the expected value rounded to D's type, or within
// `tolerance` * (1 + |expected|) and a step of D's type.
void expect_values(Setting& s, const RuntimeGraph& graph, const Expected& expected,
                   float tolerance = 0, const std::function<void()>& check_rest = {});

// expect_values on settings that take every path.
void for_each_setting(const std::function<void(Setting&)>& action);

inline Compute compute(ElementwiseOp op, float first = 0, float second = 0) {
  return {.op = op, .parameters = {first, second}};
}

}  // namespace visitor_case

// A dense product on the device beside the same on the CPU, and how far apart they may be.
#pragma once
#include <gtest/gtest.h>

#include <functional>

#include "gemm_core/base/cuda/resources.hpp"
#include "gemm_core/device/cuda/gemm/gemm.hpp"
#include "tests/gemm_core/gemm_case.hpp"

namespace cuda_tests {

using base::DType;
using gemm_core::Accumulation;
using gemm_core::GemmArguments;
using gemm_core::GemmStatus;

// A matrix per batch in host memory and a copy on the device. Aligned: lines start at multiples of
// 16 bytes; else nowhere in particular. What lies between lines must stay as it is.
struct DenseMatrixCase {
  std::int64_t rows, columns, row_stride, column_stride, batch_stride, first;
  DType type;
  std::vector<std::uint8_t> host;
  base::cuda::Buffer<std::uint8_t> device;

  DenseMatrixCase(std::int64_t r, std::int64_t c, DType t, bool row_major, bool aligned,
                  std::int64_t batch, std::mt19937& random);
  void upload();
  void download();
  std::int64_t at(std::int64_t i, std::int64_t j, std::int64_t l) const {
    return first + i * row_stride + j * column_stride + l * batch_stride;
  }
  double operator()(std::int64_t i, std::int64_t j, std::int64_t l) const {
    return gemm_case::read(host.data(), type, at(i, j, l));
  }
  template <class Operand>
  Operand operand(bool on_device) const {
    Operand o;
    auto* bytes = const_cast<std::uint8_t*>(on_device ? device.data() : host.data());
    o.data = bytes + first * base::bits(type) / 8;
    o.dtype = type;
    o.row_stride = row_stride;
    o.column_stride = column_stride;
    o.batch_stride = batch_stride;
    return o;
  }
};

struct DenseTypes {
  DType compute, a, b, c, d;
};

struct DenseCase {
  std::int64_t m = 128, n = 128, k = 64, batch = 1;
  DenseTypes types{DType::f16, DType::f16, DType::f16, DType::f16, DType::f16};
  bool a_rows = true, b_rows = false, c_rows = true, d_rows = true;
  bool aligned = true;
  double alpha = 1, beta = 0;
  Accumulation accumulation = Accumulation::blocked;
};
std::string describe(const DenseCase& c);

// The operands of a case, the CPU's result and the sum of the products' magnitudes.
class DenseProblem {
 public:
  explicit DenseProblem(const DenseCase& c, unsigned seed = 1);
  GemmArguments arguments() const;  // device pointers
  // The CPU's result; `change` may add to its arguments, which have host pointers.
  void compute_expected(const std::function<void(GemmArguments&)>& change = {});
  void clear_result();
  // Runs on a stream of its own and waits.
  GemmStatus run(const GemmArguments& arguments, const gemm_core::cuda::GemmPlan& plan = {});
  // Every element against the CPU's; gaps must be untouched. `gain`: how much the epilogue may
  // enlarge an error.
  void expect_right(const std::string& kernel, double gain = 1);
  const std::vector<std::uint8_t>& result() const { return d_.host; }
  DenseMatrixCase& a() { return a_; }
  DenseMatrixCase& b() { return b_; }
  DenseMatrixCase& d() { return d_; }

 private:
  double sum_tolerance(const std::string& kernel) const;
  DenseCase case_;
  std::mt19937 random_;
  DenseMatrixCase a_, b_, c_, d_;
  std::vector<std::uint8_t> untouched_, expected_;
  std::vector<float> magnitudes_;
};

// Every kernel that takes the case, against the CPU.
void expect_all_kernels_right(const DenseCase& c, unsigned seed);

}  // namespace cuda_tests

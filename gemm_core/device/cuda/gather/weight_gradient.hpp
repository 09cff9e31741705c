// The gradient of a gathered convolution's weights on CUDA: for each tap the sum over its pairs of
// gradient[out]^T input[in], fp32 sums in an order that sizes alone decide. Prepared once, run many
// times; a run only launches.
//
//   cuda::WeightGradient dw({.input = x, .gradient = dy, .pairs = lists, .cin = 64, .cout = 64,
//                            .weight_gradient = to, .pieces = scratch});
//   dw.run(stream);
#pragma once
#include "gemm_core/base/tensor.hpp"
#include "gemm_core/collective/pair_table.hpp"
#include "gemm_core/device/cuda/gather/sm90_pair_instances.hpp"

namespace gemm_core::cuda {

struct WeightGradientArguments {
  base::ConstTensorView input;     // [rows in, >= cin], unit stride along channels; f32, f16, bf16
  base::ConstTensorView gradient;  // [rows out, >= cout], of the convolution's output; as the input
  PairTable pairs;
  std::int64_t cin = 0, cout = 0, groups = 1;
  float* weight_gradient = nullptr;            // [cout][taps][cin / groups], overwritten
  float* pieces = nullptr;                     // scratch, piece_floats() of them
  const Sm90PairInstance* instance = nullptr;  // null: the SIMT kernel
};

// What suits a layer that computes in a type: null, for the SIMT kernel, where no instance takes
// it. tf32 operands are f32 rows that were rounded when they were stored. `is_aligned`: rows of
// both operands start at multiples of 16 bytes, whatever number of channels they hold.
const Sm90PairInstance* choose_pair_instance(base::DType compute, std::int64_t cin,
                                             std::int64_t cout, std::int64_t groups,
                                             bool is_aligned, int device);

class WeightGradient {
 public:
  // Error naming what does not fit together.
  explicit WeightGradient(const WeightGradientArguments& arguments);
  void run(cudaStream_t stream) const;
  const char* kernel_name() const;

  // Of the device that is current, for arguments without `pieces`.
  static std::int64_t piece_floats(const WeightGradientArguments& arguments);

 private:
  WeightGradientArguments arguments_;
};

}  // namespace gemm_core::cuda

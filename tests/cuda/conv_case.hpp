// One convolution on the device beside the same one computed plainly on the host in double.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "gemm_core/device/cuda/gather/gather_conv.hpp"
#include "tests/cuda/host_map.hpp"

namespace cuda_tests {

struct ConvCase {
  int cin = 8, cout = 8, groups = 1;
  base::DType dtype = base::DType::f16;
  bool scale_shift = false, residual = false;
  gemm_core::Activation activation = gemm_core::Activation::identity;
  int output_offset = 0, output_channels = 0;  // a slice of a wider output; 0: as wide as cout
  // f64: as dtype.
  base::DType output_type = base::DType::f64, residual_type = base::DType::f64;
  float factor = 1;  // of the residual
  int own_cin = 0;   // channels of a second input whose rows are one more tap; 0: none
  base::DType stored() const { return output_type == base::DType::f64 ? dtype : output_type; }
  base::DType added() const { return residual_type == base::DType::f64 ? dtype : residual_type; }
};

// How far a value may be from the exact one, as a share of the largest: the rounding of the stored
// result (half an ulp of the type) and of fp32 sums of a few thousand products.
double tolerance(base::DType dtype);

// Owns operands and oracle of one case over one map.
class ConvProblem {
 public:
  ConvProblem(const ConvCase& conv, const HostMap& map, unsigned seed);
  // Operands, weights, output and epilogue; whoever runs it adds the map.
  gemm_core::cuda::GatherConvArguments arguments();
  void poison_output();
  std::vector<float> output() const;  // [rows, cout]
  bool is_outside_untouched() const;  // columns beside the slice still hold the poison
  // Largest difference / largest expected value; of e4m3 results what goes beyond their rounding.
  double worst_error(const std::vector<float>& values) const;
  const std::int32_t* canonical() const { return canonical_.data(); }
  int rows() const { return map_.rows; }

 private:
  ConvCase conv_;
  const HostMap& map_;
  int width_;
  base::cuda::Buffer<std::uint8_t> input_, own_, output_, residual_;
  base::cuda::Buffer<float> scale_, shift_, weight_scale_;
  base::cuda::Buffer<std::int32_t> canonical_;
  gemm_core::cuda::ConvWeights weights_, own_weights_;
  std::vector<double> expected_;
};

}  // namespace cuda_tests

// A convolution as GEMMs, one a group: the im2col view as tables of offsets and points.
//   forward              M (N,Z,P,Q), N K/G,         K (C/G,T,R,S)
//   activation_gradient  M (N,D,H,W), N C/G,         K (K/G,T,R,S)
//   filter_gradient      M K/G,       N (C/G,T,R,S), K (N,Z,P,Q)
#pragma once
#include "gemm_core/device/conv.hpp"

namespace gemm_core {

// Strides filled in, roles sorted out.
struct ConvTensors {
  ConvTensor activation, filter, output;
};
ConvTensors conv_tensors(const ConvArguments& arguments);
ConvTensor packed_strides(const ConvTensor& tensor, const Axes& extent, std::int64_t channels);

DenseProblem conv_shape(const ConvArguments& arguments);  // of one group
LoweredProducts lower_conv(const ConvArguments& arguments);

// body(index, n, position) for all positions of a batch of grids, last axis fastest.
template <class Body>
void for_each_position(std::int64_t batch, const Axes& extent, const Body& body) {
  std::int64_t index = 0;
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t x = 0; x < extent[0]; ++x) {
      for (std::int64_t y = 0; y < extent[1]; ++y) {
        for (std::int64_t z = 0; z < extent[2]; ++z) body(index++, n, Axes{x, y, z});
      }
    }
  }
}

}  // namespace gemm_core

#include "gemm_core/device/cuda/dense_node.hpp"

#include <cstdint>

namespace gemm_core::cuda {

DenseNode device_node(const EpilogueNode& node) {
  DenseNode to;
  to.kind = node.kind;
  to.activation = node.activation;
  to.slope = node.activation == Activation::relu         ? 0.f
             : node.activation == Activation::leaky_relu ? node.slope
                                                         : 1.f;
  to.scale = node.scale;
  to.shift = node.shift;
  if (node.kind == EpilogueNode::Kind::add) {
    to.aux = node.aux.data;
    to.aux_pitch = node.aux.stride[0];
    to.aux_type = node.aux.dtype;
    to.aux_vectors = reinterpret_cast<std::uintptr_t>(to.aux) % 16 == 0 &&
                     to.aux_pitch * base::bytes(to.aux_type) % 16 == 0;
  }
  return to;
}

}  // namespace gemm_core::cuda

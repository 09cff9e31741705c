// What happens to an accumulator before it is stored: a short program of nodes, run on a tile while
// it is in cache (CPU) or in registers (CUDA). Shared by dense GEMM and sparse convolution. The
// description is run-time data; each backend lowers it to its own compiled visitor tree or
// interprets it tile by tile.
//
//   Epilogue e;
//   e.scale_shift(scale, shift).activate(Activation::relu);          // conv + batch norm + relu
//   e.scale_shift(scale, shift).add(residual).activate(Activation::relu);
#pragma once
#include <cstdint>
#include <vector>

#include "gemm_core/atom/activation.hpp"
#include "gemm_core/base/tensor.hpp"

namespace gemm_core {

struct EpilogueNode {
  enum class Kind : std::uint8_t {
    scale_shift,  // v = fma(v, scale[n], shift[n]); either pointer may be null (1 and 0)
    add,          // v = v + aux[m][n]
    activate,     // v = activation(v)
  } kind = Kind::activate;
  const float* scale = nullptr;  // [N], on the operation's device
  const float* shift = nullptr;  // [N]
  base::ConstTensorView aux;     // [M, N], any row stride, the unit stride along N, same device
  Activation activation = Activation::identity;
  float slope = 0.01f;  // of leaky_relu
};

struct Epilogue {
  std::vector<EpilogueNode> nodes;  // in order
  Epilogue& scale_shift(const float* scale, const float* shift) {
    EpilogueNode node;
    node.kind = EpilogueNode::Kind::scale_shift;
    node.scale = scale;
    node.shift = shift;
    nodes.push_back(node);
    return *this;
  }
  Epilogue& add(base::ConstTensorView aux) {
    EpilogueNode node;
    node.kind = EpilogueNode::Kind::add;
    node.aux = aux;
    nodes.push_back(node);
    return *this;
  }
  Epilogue& activate(Activation activation, float slope = 0.01f) {
    EpilogueNode node;
    node.activation = activation;
    node.slope = slope;
    nodes.push_back(node);
    return *this;
  }
};

}  // namespace gemm_core

// Functions of compute nodes, by name, applied to fp32 values by whole rows.
#pragma once
#include <cstdint>

namespace gemm_core {
// clang-format off
enum class ElementwiseOp : std::uint8_t {
  // one input
  identity, relu, leaky_relu, clamp, sigmoid, silu, tanh, gelu, absolute,
  // two inputs; maximum and minimum pass a NaN of either on
  plus, minus, multiplies, divides, maximum, minimum,
  d_relu,  // x where y > 0, else 0: the gradient x through relu whose input was y
  // three inputs
  multiply_add,  // a * b + c, rounded once
};
// clang-format on
constexpr int arity(ElementwiseOp op) {
  if (op == ElementwiseOp::multiply_add) return 3;
  return op >= ElementwiseOp::plus ? 2 : 1;
}

// Bounds of clamp; the slope of leaky_relu is `first`.
struct OpParameters {
  float first = 0, second = 0;
};

}  // namespace gemm_core

// Ready-made epilogue trees. Z is the linear combination alpha * acc + bias + beta * C, computed as
// fma(beta, C, fma(alpha, acc, bias)); a "per row" bias is a vector of m.
#pragma once
#include "gemm_core/epilogue/visitor_tree.hpp"

namespace gemm_core::visitor {

inline auto scaled_accumulator(Scalar alpha) {
  return tree(Compute{.op = ElementwiseOp::multiplies}, std::move(alpha), Accumulator{});
}

inline auto linear_combination(Scalar alpha, Scalar beta, MatrixLoad c) {
  return tree(AddScaledSource{std::move(beta), std::move(c)}, scaled_accumulator(std::move(alpha)));
}

inline auto linear_combination_activation(Compute activation, Scalar alpha, Scalar beta,
                                          MatrixLoad c) {
  return tree(activation, linear_combination(std::move(alpha), std::move(beta), std::move(c)));
}

inline auto linear_combination_row_bias(Scalar alpha, Scalar beta, MatrixLoad c, ColumnLoad bias) {
  return tree(
      AddScaledSource{std::move(beta), std::move(c)},
      tree(Compute{.op = ElementwiseOp::multiply_add}, std::move(alpha), Accumulator{}, bias));
}

inline auto linear_combination_row_bias_activation(Compute activation, Scalar alpha, Scalar beta,
                                                   MatrixLoad c, ColumnLoad bias) {
  return tree(activation,
              linear_combination_row_bias(std::move(alpha), std::move(beta), std::move(c), bias));
}

// aux receives Z, the value before the activation.
inline auto linear_combination_row_bias_activation_aux(Compute activation, Scalar alpha,
                                                       Scalar beta, MatrixLoad c, ColumnLoad bias,
                                                       MatrixStore aux) {
  return tree(activation,
              tree(std::move(aux), linear_combination_row_bias(std::move(alpha), std::move(beta),
                                                               std::move(c), bias)));
}

// relu, whose aux is a bit an element: Z at least 0.
inline auto linear_combination_row_bias_relu_mask(Scalar alpha, Scalar beta, MatrixLoad c,
                                                  ColumnLoad bias, MaskStore mask) {
  return tree(Compute{.op = ElementwiseOp::relu},
              tree(std::move(mask), linear_combination_row_bias(std::move(alpha), std::move(beta),
                                                                std::move(c), bias)));
}

// The gradient through that relu.
inline auto linear_combination_relu_mask_gradient(Scalar alpha, Scalar beta, MatrixLoad c,
                                                  MaskLoad mask) {
  return tree(Compute{.op = ElementwiseOp::d_relu},
              linear_combination(std::move(alpha), std::move(beta), std::move(c)), mask);
}

// alpha and beta are vectors of m.
inline auto per_row_linear_combination_row_bias_activation(Compute activation, ColumnLoad alpha,
                                                           ColumnLoad beta, MatrixLoad c,
                                                           ColumnLoad bias) {
  return tree(activation,
              tree(Compute{.op = ElementwiseOp::multiply_add}, beta, std::move(c),
                   tree(Compute{.op = ElementwiseOp::multiply_add}, alpha, Accumulator{}, bias)));
}

// D = scale_d * activation(Z); pass scale_a * scale_b * alpha and scale_c * beta as factors.
inline auto scaled_linear_combination_row_bias_activation(Compute activation, Scalar alpha,
                                                          Scalar beta, MatrixLoad c,
                                                          ColumnLoad bias, Scalar scale_d) {
  return tree(Compute{.op = ElementwiseOp::multiplies}, std::move(scale_d),
              linear_combination_row_bias_activation(activation, std::move(alpha), std::move(beta),
                                                     std::move(c), bias));
}

struct AmaxAux {
  Scalar scale_d, scale_aux;
  Reduce amax_d, amax_aux;  // of activation(Z) and of Z, both before scaling
  MatrixStore aux;          // scale_aux * Z
};
inline auto scaled_linear_combination_row_bias_activation_amax_aux(Compute activation, Scalar alpha,
                                                                   Scalar beta, MatrixLoad c,
                                                                   ColumnLoad bias, AmaxAux out) {
  return split(linear_combination_row_bias(std::move(alpha), std::move(beta), std::move(c), bias),
               tree(Compute{.op = ElementwiseOp::multiplies}, std::move(out.scale_d),
                    tree(std::move(out.amax_d), tree(activation, Accumulator{}))),
               tree(std::move(out.aux),
                    tree(Compute{.op = ElementwiseOp::multiplies}, std::move(out.scale_aux),
                         tree(std::move(out.amax_aux), Accumulator{}))));
}

// D = gradient(alpha * acc + beta * C, aux), aux being what the forward activation saw.
inline auto linear_combination_gradient(Compute gradient, Scalar alpha, Scalar beta, MatrixLoad c,
                                        MatrixLoad aux) {
  return tree(gradient, linear_combination(std::move(alpha), std::move(beta), std::move(c)),
              std::move(aux));
}

// The same, and the gradient of a per-row bias: the sums of D's rows.
inline auto linear_combination_gradient_row_bias(Compute gradient, Scalar alpha, Scalar beta,
                                                 MatrixLoad c, MatrixLoad aux, float* row_sums) {
  return tree(Reduce{.axis = ReductionAxis::columns, .reduction = Reduction::sum, .out = row_sums},
              linear_combination_gradient(gradient, std::move(alpha), std::move(beta), std::move(c),
                                          std::move(aux)));
}

}  // namespace gemm_core::visitor

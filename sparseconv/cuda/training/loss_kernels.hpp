// Softmax cross-entropy on the device: loss, predictions and the gradient of the logits
// (training/losses.hpp has the CPU's).
#pragma once
#include "sparseconv/cuda/step_kernels.hpp"

namespace sparseconv::cuda {

struct CrossEntropyArguments {
  base::ConstTensorView logits;          // [rows, classes]
  const std::int32_t* labels = nullptr;  // [rows]: a class, or -1: no loss, zero gradient
  const float* class_weights = nullptr;  // [classes]; null: 1 each
  float label_smoothing = 0, focal_gamma = 0;
  // Of another loss, in the softmax of each class, [classes][rows of the labels]: null for none.
  const float* lovasz = nullptr;
  std::int64_t lovasz_pitch = 0;
  float lovasz_scale = 0;               // that loss's gradient is multiplied by it
  float gradient_scale = 1;             // of a row: weight of its label * (p - target) * this
  base::TensorView gradient;            // as the logits
  std::int32_t* predictions = nullptr;  // [rows]: the largest logit's class, ties to the lowest
};
// Of each block of kLossRows rows: its loss, not yet divided by the sum of weights.
inline constexpr std::int64_t kLossRows = 256;
struct LossSum {
  double loss = 0;
  std::int64_t correct = 0;
};
inline std::int64_t loss_blocks(std::int64_t rows) { return (rows + kLossRows - 1) / kLossRows; }
void cross_entropy(const CrossEntropyArguments& arguments, const RowCount& rows, LossSum* sums,
                   cudaStream_t stream);

}  // namespace sparseconv::cuda

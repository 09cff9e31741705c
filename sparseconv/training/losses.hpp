// Losses and their gradients. Matrices are f32 [rows, channels] with unit stride along channels;
// sums are fp64 in an order that no thread count changes. No rows give 0. Gradients are written
// over what stood there.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "gemm_core/base/tensor.hpp"
#include "sparseconv/training/options.hpp"

namespace sparseconv::training {

struct ClassLoss {
  double loss = 0;
  std::int64_t labelled = 0, correct = 0;
  std::vector<std::int32_t> predictions;  // the largest logit's class, ties to the lowest
};

// Softmax cross-entropy with the options' class weights, label smoothing and focal factor, plus
// Lovasz-softmax. `labels`: class or kIgnore a row; rows that are ignored get a zero gradient.
// Error: options without meaning, lengths that differ, a label outside the classes (with its row).
ClassLoss class_loss(const LossOptions& options, const base::ConstTensorView& logits,
                     std::span<const std::int32_t> labels, const base::TensorView& gradient);
void check(const LossOptions& options, std::int64_t classes);
// Error naming the first row whose label is neither a class nor kIgnore, or lengths that differ.
void check_labels(std::span<const std::int32_t> labels, std::int64_t rows, std::int64_t classes);

// Mean over classes that occur of the Lovasz extension of 1 - IoU (Berman, Triki, Blaschko 2018) on
// probabilities, times `weight`: returned, and its gradient in the logits added. Sorts every
// class's errors: O(classes * rows * log rows).
double add_lovasz_softmax(double weight, const base::ConstTensorView& logits,
                          std::span<const std::int32_t> labels, const base::TensorView& gradient);

// Heads of centre-based detectors. Focal loss on heat maps (Law, Deng 2018; alpha 2, beta 4):
// logits against targets in [0, 1], where 1 marks a centre; the sum divided by the number of
// centres (at least 1).
double heatmap_loss(const base::ConstTensorView& logits, const base::ConstTensorView& targets,
                    const base::TensorView& gradient);
// Mean absolute difference over the rows of `mask` that are not 0 (an empty mask: all rows), summed
// over channels. The derivative at 0 is 0.
double l1_loss(const base::ConstTensorView& values, const base::ConstTensorView& targets,
               std::span<const std::uint8_t> mask, const base::TensorView& gradient);

}  // namespace sparseconv::training

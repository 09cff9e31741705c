// Lovasz-softmax on the device (Berman et al. 2018; training/losses.hpp has the CPU's): for each
// class that occurs, errors of all rows are sorted downwards, and each error's derivative is the
// step of the Jaccard loss at its place.
//
//   lovasz.enqueue(logits, labels, positives, stream);   // sorts; derivatives and sums stay there
//   ... cross_entropy({..., .lovasz = lovasz.derivatives(), ...}) adds them to the gradient ...
//   lovasz.loss()                                        // once the stream was waited for
#pragma once
#include <span>
#include <vector>

#include "gemm_core/base/cuda/resources.hpp"
#include "sparseconv/cuda/step_kernels.hpp"

namespace sparseconv::cuda {

class LovaszLoss {
 public:
  // `logits`: [rows, classes], f32, f16 or bf16. `labels`: on the device, a class or -1 (no part in
  // the loss). `positives`: of each class, its rows: on the host. Rows below 2^30. Errors are told
  // apart to 2^-27; equal ones keep the order of rows.
  void enqueue(const base::ConstTensorView& logits, const std::int32_t* labels,
               std::span<const std::int64_t> positives, cudaStream_t stream);

  // [classes][rows]: of the sum of the classes' losses, in the softmax of each class; 0 for classes
  // that do not occur and rows without a label. Until the next enqueue().
  const float* derivatives() const { return derivatives_.data(); }
  // Classes that occur: their losses are averaged.
  int present() const { return present_; }
  // Mean of the classes' losses; 0 where none occurs. After a wait for the stream.
  double loss() const;

 private:
  void sort_group(const base::ConstTensorView& logits, const std::int32_t* labels,
                  std::span<const std::int32_t> group, std::span<const std::int64_t> positives,
                  cudaStream_t stream);

  int present_ = 0;
  std::size_t sum_count_ = 0;
  base::cuda::Buffer<float> derivatives_;
  base::cuda::Buffer<std::uint32_t> keys_[2];
  base::cuda::Buffer<std::int32_t> values_[2], digits_, counts_;
  base::cuda::Buffer<double> sums_;  // of tiles
  base::cuda::PinnedBuffer<double> host_sums_;
};

}  // namespace sparseconv::cuda

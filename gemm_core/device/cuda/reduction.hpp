// Reductions on CUDA: the arguments of gemm_core::Reduction with device pointers, in the form
// can_implement -> workspace_size -> initialize -> run.
//
//   cuda::Reduction op;
//   auto status = op.initialize(args, workspace.data(), bytes, stream);
//   if (status.ok()) status = op.run(stream);  // one or two kernels; may be captured in a graph
//
// Sums are in fp32 (fp64 of doubles, wrapping int32) in an order that the shape alone fixes: the
// same bits in every run, on every device. NaN passes on through every kind. At most eight modes of
// each sort (kept, reduced) after merging.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "gemm_core/device/reduction.hpp"

namespace gemm_core::cuda {

class Reduction {
 public:
  Reduction();
  ~Reduction();
  Reduction(Reduction&&) noexcept;
  Reduction& operator=(Reduction&&) noexcept;

  static GemmStatus can_implement(const ReductionArguments& arguments);
  static std::size_t workspace_size(const ReductionArguments& arguments);
  // The workspace (device memory, any alignment) holds partial results; nothing is launched here.
  GemmStatus initialize(const ReductionArguments& arguments, void* workspace, std::size_t bytes);
  GemmStatus run(cudaStream_t stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gemm_core::cuda

// Tensor contractions on CUDA: the arguments of gemm_core::Contraction with device pointers (index
// buffers too), in the form can_implement -> workspace_size -> initialize -> run.
//
//   cuda::Contraction contraction;
//   auto status = contraction.initialize(args, workspace.data(), bytes, stream);
//   if (status.ok()) status = contraction.run(stream);  // may be captured in a graph
//
// Modes that follow each other in every operand are merged. Where one mode of each kind is left,
// the contraction is a product and runs on the kernels of cuda::Gemm; else operands are found by
// tables of offsets, by mma.sync or SIMT. can_implement and initialize copy index buffers to the
// host to check them, so they synchronise where there are any.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>

#include "gemm_core/device/contraction.hpp"

namespace gemm_core::cuda {

enum class ContractionPath : std::uint8_t { automatic, product, nested, table };

class Contraction {
 public:
  Contraction();
  ~Contraction();
  Contraction(Contraction&&) noexcept;
  Contraction& operator=(Contraction&&) noexcept;

  static GemmStatus can_implement(const ContractionArguments& arguments,
                                  ContractionPath path = ContractionPath::automatic);
  static std::size_t workspace_size(const ContractionArguments& arguments,
                                    ContractionPath path = ContractionPath::automatic);
  // The workspace (device memory, any alignment) must live until the last run is done; it is
  // written on `stream`: not while that is captured. Runs that share a workspace must not overlap.
  GemmStatus initialize(const ContractionArguments& arguments, void* workspace, std::size_t bytes,
                        cudaStream_t stream, ContractionPath path = ContractionPath::automatic);
  GemmStatus run(cudaStream_t stream) const;
  std::string kernel_name() const;  // "none" for an empty result

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Neighbouring modes of a kind merged, those of extent 1 dropped; modes with slots stay as they
// are.
std::vector<ContractionMode> merged_modes(std::vector<ContractionMode> modes);
// The contraction as one (batched) product, where merging leaves at most one mode of each kind.
std::optional<GemmArguments> as_product(const ContractionArguments& arguments);

}  // namespace gemm_core::cuda

// A contraction as one launch of the Hopper kernels over nested modes.
#pragma once
#include <optional>
#include <vector>

#include "gemm_core/device/contraction.hpp"
#include "gemm_core/device/cuda/contraction/nested_instances.hpp"
#include "gemm_core/kernel/sm90_contraction.cuh"

namespace gemm_core::cuda {

struct LoweredNested {
  const NestedInstance* instance = nullptr;
  Sm90ContractionParams params;
  int blocks = 0;
  double waste = 1;  // products that a tile takes for one that is wanted

  // D and C of every batch of tiles, where no stride leads from one to the next: for the workspace.
  std::vector<void*> outputs, sources;
  std::size_t workspace_bytes() const {
    return outputs.empty() ? 0 : (outputs.size() + sources.size()) * sizeof(void*) + 16;
  }
  void bind(void* workspace, cudaStream_t stream);
};

// The least wasteful instance that takes it; empty where none does.
std::optional<LoweredNested> lower_nested(const ContractionArguments& arguments,
                                          int multiprocessors);

}  // namespace gemm_core::cuda

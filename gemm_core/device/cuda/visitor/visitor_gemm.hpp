// Dense products on CUDA with a visitor graph behind them: the graph that the CPU takes
// (epilogue/visitor_graph.hpp; trees and aliases through epilogue/visitor_description.hpp), its
// pointers to memory of the current device.
//
//   const auto root = visitor::linear_combination_row_bias_activation(...);
//   const auto graph = visitor::describe(root);
//   const auto bytes = cuda::VisitorGemm::workspace_size(args, graph);
//   cuda::VisitorGemm gemm;
//   auto status = gemm.initialize(args, graph, workspace.data(), bytes, stream);
//   if (status.ok()) status = gemm.run(stream);
//
// How it runs: amax(activation(scale * acc + shift) + residual), each part optional, has kernels of
// its own; other graphs can be interpreted in the store path of one kernel where that is asked for;
// both on Hopper, f16 and bf16 K-major operands and results of the same type whose rows are aligned
// to 16 bytes. Anything else: the product leaves fp32 sums in the workspace, and a second launch
// runs the graph, which is faster than interpreting it on the way.
// Reductions other than the first form's amax end in one more launch. Partial results belong to
// blocks of 16 x 16 and are combined in order: the same bits in every run and on every stream.
// sigmoid and silu: relative error at most (|x| + 8) * 2^-24 (epilogue/cuda/visitor_values.cuh).
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "gemm_core/device/gemm.hpp"
#include "gemm_core/epilogue/visitor_graph.hpp"

namespace gemm_core::cuda {

enum class VisitorPath : std::uint8_t {
  fastest,
  compiled,      // a kernel of its own:
  compiled_128,  // in tiles of 128 x 128, two warpgroups in turn
  compiled_256,  // in tiles of 128 x 256, shared by both
  interpreted,   // in the store path
  separate,      // a launch of its own
};

class VisitorGemm {
 public:
  VisitorGemm();
  ~VisitorGemm();
  VisitorGemm(VisitorGemm&&) noexcept;
  VisitorGemm& operator=(VisitorGemm&&) noexcept;

  // `arguments` without nodes and visitor. A path that cannot take the product is refused.
  static GemmStatus can_implement(const GemmArguments& arguments,
                                  const visitor::RuntimeGraph& graph,
                                  VisitorPath path = VisitorPath::fastest);
  static std::size_t workspace_size(const GemmArguments& arguments,
                                    const visitor::RuntimeGraph& graph,
                                    VisitorPath path = VisitorPath::fastest);
  // The workspace must live until the last run is done; part of it is cleared on `stream`.
  // Runs that share a workspace must not overlap.
  GemmStatus initialize(const GemmArguments& arguments, const visitor::RuntimeGraph& graph,
                        void* workspace, std::size_t bytes, cudaStream_t stream,
                        VisitorPath path = VisitorPath::fastest);
  // One to three launches: no allocation, no synchronisation; may be captured in a graph.
  GemmStatus run(cudaStream_t stream) const;
  // "float16_tree_residual_silu_128x128", "bfloat16_tree_program", "visitor_pass after
  // f16_kk_128x256_c2".
  std::string kernel_name() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gemm_core::cuda

// Dense products on CUDA: the arguments of gemm_core::Gemm with device pointers, in the form
// can_implement -> workspace_size -> initialize -> run. Misuse is a status whose message names
// operand, extent and limit; a call of the CUDA runtime that fails throws base::Error.
//
//   GemmArguments args{.m = 4096, .n = 4096, .k = 4096, .compute = DType::f16};
//   args.a = {a, DType::f16, 4096, 1};  // and so on; pointers to memory of the current device
//   cuda::Gemm gemm;
//   const auto bytes = cuda::Gemm::workspace_size(args);
//   auto status = gemm.initialize(args, workspace.data(), bytes, stream);
//   if (status.ok()) status = gemm.run(stream);  // one kernel, or up to three: no allocation, no
//                                                // synchronisation; may be captured in a graph
//
// Sums: f16, bf16 and int8 as on the CPU, in another order. tf32: operands of WGMMA kernels are cut
// to 19 bits, those of others rounded to nearest even. fp8: Accumulation::fast leaves the sum in
// the tensor cores, which keep about 14 bits; the others move it to fp32 after each 128 products.
// Stream-K and split-k take the processors of the device, whatever the schedule says, and always
// add in the order of k; kernels whose consumers take tiles in turn never cut sums. Not here:
// 2:4 metadata, visitors (visitor_gemm.hpp). Epilogue nodes that have a compiled tree run in its
// kernel. Narrow or scaled operands of f16 and bf16 products are written to the workspace as what
// is multiplied, where that pays (widened_gemm.hpp). Complex products are plain arithmetic. Gather
// lists, in device memory, run on a slow kernel of their own (list_gemm.hpp; A's rows fast:
// gather_gemm.hpp).
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "gemm_core/device/gemm.hpp"

namespace gemm_core::cuda {

// How a product is computed, where the caller wants to choose. `kernel`: a name of
// dense_kernel_names(); empty: by a cost model. Tiles run in bands `group` wide (1, 2, 4, 8).
struct GemmPlan {
  std::string kernel;
  std::uint32_t group = 8;
};

class Gemm {
 public:
  Gemm();
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;

  // Pointer arrays are host memory that holds device pointers; one launch of a WGMMA kernel takes
  // them where every batch is aligned to 16 bytes. Operands must be on the current device.
  static GemmStatus can_implement(const GemmArguments& arguments, const GemmPlan& plan = {});
  static std::size_t workspace_size(const GemmArguments& arguments, const GemmPlan& plan = {});
  // The workspace (device memory, any alignment) must live until the last run is done. It is
  // written on `stream` where there are pointer arrays or split sums: not while the stream is
  // captured. Runs that share a workspace must not overlap.
  GemmStatus initialize(const GemmArguments& arguments, void* workspace, std::size_t bytes,
                        cudaStream_t stream, const GemmPlan& plan = {});
  // Other arguments in the same workspace; refused where it is too small for them.
  GemmStatus update(const GemmArguments& arguments, cudaStream_t stream);
  GemmStatus run(cudaStream_t stream) const;
  // What runs: "f16_kk_128x256_c2", "sm80_float16", "simt_float32", "widened, ..."
  // (widened_gemm.hpp), "none" for an empty product.
  std::string kernel_name() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// G products of their own sizes; any extent may be 0. Those that one WGMMA instance can take (of
// the same types and majors as most of the work, aligned to 16 bytes) run in one persistent launch;
// each of the others in a launch of its own.
class GroupedGemm {
 public:
  GroupedGemm();
  ~GroupedGemm();
  GroupedGemm(GroupedGemm&&) noexcept;
  GroupedGemm& operator=(GroupedGemm&&) noexcept;

  static GemmStatus can_implement(
      std::span<const GemmArguments> groups);  // batch 1; names the group
  static std::size_t workspace_size(std::span<const GemmArguments> groups);
  // Of the common launch where it takes every group that is not empty; else "".
  static std::string common_kernel(std::span<const GemmArguments> groups);
  // Copies sizes, tensor maps and the list of tiles to the workspace on `stream`: not while it is
  // captured.
  GemmStatus initialize(std::span<const GemmArguments> groups, void* workspace, std::size_t bytes,
                        cudaStream_t stream);
  GemmStatus run(cudaStream_t stream) const;
  std::string kernel_name() const;  // of the common launch; "none" where there is none
  std::size_t launches() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Kernels that could take these arguments, the model's choice first; empty where none could.
std::vector<std::string> dense_kernel_names(const GemmArguments& arguments);

}  // namespace gemm_core::cuda

// Dense convolution on CUDA: the arguments of gemm_core::Conv with device pointers, in the form
// can_implement -> workspace_size -> initialize -> run. Misuse is a status; a call of the CUDA
// runtime that fails throws base::Error.
//
//   ConvArguments args{.problem = {.axes = 2, .batch = 64, .channels = 64, .filters = 64, ...},
//                      .compute = DType::f16};
//   args.a = {activation, DType::f16};  // and so on
//   cuda::Conv conv;
//   auto status = conv.initialize(args, workspace.data(), bytes, stream);
//   if (status.ok()) status = conv.run(stream);  // no allocation, no synchronisation; may be
//   captured
//
// Kernels, in the order of preference:
//   conv_*        Hopper: im2col tensor maps and WGMMA. f16, bf16, and tf32 forward (operands cut
//                 to 19 bits); channels contiguous, pixels aligned to 16 bytes, at least 32
//                 channels a group; padding within -128 .. 127 (2-D; -16 .. 15 in 3-D), strides
//                 up to 8. A strided gradient of the activation goes by classes of remainders.
//   depthwise     one channel a group: fp32 sums without tensor cores.
//   table_*       anything that the CPU takes: offsets from tables, by mma.sync or SIMT.
// Sums are in fp32 (int32, f64) in another order than the CPU's. Filter gradients are cut along
// positions (heuristic, stream_k: by the device's processors; split_k: as many parts as it says),
// and parts are added in order: always the same bits.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "gemm_core/device/conv.hpp"

namespace gemm_core::cuda {

// `kernel`: one of conv_kernel_names(); empty: by a cost model. Tiles run in bands `group` wide.
struct ConvPlan {
  std::string kernel;
  std::uint32_t group = 8;
};

class Conv {
 public:
  Conv();
  ~Conv();
  Conv(Conv&&) noexcept;
  Conv& operator=(Conv&&) noexcept;

  // `path` gathered is refused: it is the CPU's.
  static GemmStatus can_implement(const ConvArguments& arguments, const ConvPlan& plan = {});
  static std::size_t workspace_size(const ConvArguments& arguments, const ConvPlan& plan = {});
  // The workspace (device memory, any alignment) must live until the last run is done; it is
  // written on `stream`: not while that is captured. Runs that share a workspace must not overlap.
  GemmStatus initialize(const ConvArguments& arguments, void* workspace, std::size_t bytes,
                        cudaStream_t stream, const ConvPlan& plan = {});
  GemmStatus run(cudaStream_t stream) const;
  std::string kernel_name() const;  // "none" for an empty convolution

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Kernels that could take these arguments, the model's choice first; empty where none could.
std::vector<std::string> conv_kernel_names(const ConvArguments& arguments);

}  // namespace gemm_core::cuda

// Products of f16 or bf16 one or both of whose operands are of other types or have scales: a launch
// an operand writes it to the workspace as what is multiplied, then a dense kernel runs. Worth it
// where many rows use each weight, and for layouts that no kernel of narrow weights takes.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>

#include "gemm_core/device/cuda/gemm/gemm.hpp"

namespace gemm_core::cuda {

class WidenedGemm {
 public:
  static constexpr const char* kName = "widened";

  static bool takes(const GemmArguments& arguments);
  // Whether it is likely to be faster than the kernels that convert what they multiply.
  static bool pays(const GemmArguments& arguments, bool has_mixed_kernel);
  static std::size_t workspace_size(const GemmArguments& arguments);
  GemmStatus initialize(const GemmArguments& arguments, void* workspace, std::size_t bytes,
                        cudaStream_t stream);
  GemmStatus run(cudaStream_t stream) const;
  std::string kernel_name() const;  // "widened, f16_kk_128x256_c2"

 private:
  GemmArguments arguments_;
  void* room_[2] = {nullptr, nullptr};  // of A and B; null: as it is
  Gemm product_;
};

}  // namespace gemm_core::cuda

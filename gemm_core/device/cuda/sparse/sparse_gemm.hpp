// Structured sparse products on CUDA, with the format of device/sparse_gemm.hpp in device memory:
// of every four columns of a row of A two are stored, and four bits say which.
//
//   prune_2to4(a, stream);                                 // in place: the two largest of four
//   stay compress_2to4(a, buffers, stream);                     // half the values, and metadata
//   args.a = sparse_operand(a, buffers);
//   cuda::SparseGemm gemm;                                 // then as cuda::Gemm
//
// f16 and bf16 with B K-major, lines and metadata aligned to 16 bytes, on Hopper: WGMMA on sparse
// operands. All else that the CPU takes: columns found by metadata, mma.sync or SIMT.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "gemm_core/device/gemm.hpp"
#include "gemm_core/device/sparse_gemm.hpp"

namespace gemm_core::cuda {

// Device memory that compress_2to4 fills.
struct SparseBuffers {
  void* values = nullptr;            // [rows, columns / 2]
  std::uint8_t* metadata = nullptr;  // [rows, metadata_pitch]
  std::int64_t metadata_pitch = 0;   // bytes, at least ceil(columns / 8)
  // Where a group has more than two values other than 0: the least row * columns + first column of
  // such a group; else ~0. May be null.
  unsigned long long* first_bad = nullptr;
};
// A pitch that the fast kernels take.
std::int64_t aligned_metadata_pitch(std::int64_t columns);

// Of a matrix in device memory, as the CPU's functions; base::Error where type or columns are not
// theirs. What of a bad group is stored is its two largest values.
void prune_2to4(const DenseRows& matrix, cudaStream_t stream);
void compress_2to4(const DenseRows& matrix, const SparseBuffers& buffers, cudaStream_t stream);
GemmOperand sparse_operand(const DenseRows& matrix, const SparseBuffers& buffers);

class SparseGemm {
 public:
  SparseGemm();
  ~SparseGemm();
  SparseGemm(SparseGemm&&) noexcept;
  SparseGemm& operator=(SparseGemm&&) noexcept;

  // A must have metadata; batch 1. `kernel`: one of sparse_kernel_names(), or empty.
  static GemmStatus can_implement(const GemmArguments& arguments, const std::string& kernel = {});
  static std::size_t workspace_size(const GemmArguments& arguments, const std::string& kernel = {});
  GemmStatus initialize(const GemmArguments& arguments, void* workspace, std::size_t bytes,
                        cudaStream_t stream, const std::string& kernel = {});
  GemmStatus run(cudaStream_t stream) const;
  std::string kernel_name() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::vector<std::string> sparse_kernel_names(const GemmArguments& arguments);

}  // namespace gemm_core::cuda

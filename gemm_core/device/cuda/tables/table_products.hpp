// Products that were lowered to tables (device/dense_operation.hpp) on the device: what no faster
// kernel takes of convolutions, contractions and structured sparsity. The tables go to the
// workspace when they are bound; operands are read in every run.
#pragma once
#include <cuda_runtime_api.h>

#include <string>

#include "gemm_core/device/dense_operation.hpp"
#include "gemm_core/kernel/table_gemm.cuh"

namespace gemm_core::cuda {

class TableProducts {
 public:
  TableProducts() = default;
  // Pointers to operands, slots, metadata and vectors of nodes are device memory; all problems have
  // one shape.
  explicit TableProducts(const LoweredProducts& lowered);

  std::size_t workspace_bytes() const;  // any alignment
  // Copies the tables; not while the stream is captured.
  void bind(void* workspace, cudaStream_t stream);
  void launch(cudaStream_t stream) const;
  const std::string& name() const { return name_; }  // "table_mma_float16", "table_simt_float32"

 private:
  std::size_t keep(const void* data, std::size_t bytes);
  template <class T>
  const T* keep_table(const T* table, std::int64_t count);
  TableView view_of(const MatrixRef& m, base::DType compute, std::int64_t lines, std::int64_t k,
                    bool lines_are_rows);
  bool takes_vectors(const MatrixRef& m, std::int64_t lines, std::int64_t k, bool lines_are_rows,
                     std::int64_t per_chunk) const;

  TableGemmParams params_;
  std::vector<char> staged_;  // tables and batches as they lie in the workspace
  std::size_t batches_at_ = 0;
  std::string name_ = "none";
  base::DType element_ = base::DType::f32;
  bool by_mma_ = false;
  int blocks_ = 0;
};

// The compiled kernels; `element` is what mma.sync multiplies, or what SIMT sums are.
void launch_table_mma(base::DType element, const TableGemmParams& params, int blocks,
                      cudaStream_t stream);
void launch_table_simt(base::DType sums, const TableGemmParams& params, int blocks,
                       cudaStream_t stream);

}  // namespace gemm_core::cuda

// The compiled kernels of dense products. sm_90a: one row an instance, one file of instances/ for a
// few of them; a row says what it takes and how to launch it. Others: one launcher each.
#pragma once
#include <cuda_runtime_api.h>

#include <span>

#include "gemm_core/base/dtype.hpp"

namespace gemm_core {
struct Sm90GemmParams;
struct Sm80GemmParams;
struct SimtGemmParams;
enum class DenseWalk : std::uint8_t;
}  // namespace gemm_core

namespace gemm_core::cuda {

struct DenseInstance {
  const char* name;     // element_majors_rows x columns_cluster
  base::DType element;  // f16, bf16, tf32, e4m3, e5m2, i8
  bool k_major_a, k_major_b, promotes, alternates;
  int tile_m, tile_n, stage_k, stages, cluster;
  int box_rows_a, box_rows_b;
  void (*launch)(const Sm90GemmParams& params, DenseWalk walk, int clusters, cudaStream_t stream);
};
std::span<const DenseInstance* const> dense_instances();

// mma.sync: f16, bf16, tf32, i8, f64. SIMT: f32, i32 (integers of at most 8 bits).
void launch_sm80_gemm(base::DType element, const Sm80GemmParams& params, int blocks,
                      cudaStream_t stream);
void launch_simt_gemm(base::DType sums, const SimtGemmParams& params, int blocks,
                      cudaStream_t stream);
// One of the kernels above, to ask the runtime whether this device has its code.
const void* any_dense_kernel();

}  // namespace gemm_core::cuda

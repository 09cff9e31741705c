// The instruction wrappers of gemm_core/atom, each in a kernel that does nothing else. Pointers are
// to device memory; every function waits for its kernel.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "gemm_core/base/numeric.hpp"

namespace cuda_tests {

// One warp: d += a * b by mma.sync. a, b: the registers of each thread, [thread][register]; d:
// [thread][value].
template <class Element>
void run_warp_mma(const void* a, const void* b, void* d);

// One warpgroup: d (= or +=) a * b by `steps` instructions, each 32 bytes of K further on. The
// operands are what shared memory shall hold, in spans of 128 bytes; d: [thread][value].
struct WgmmaOperands {
  const void *a, *b;
  std::uint32_t bytes_a, bytes_b;
  int steps;
  int accumulate;
};
// The kernels of the gathered convolution: both operands K-major, or both with rows of K.
template <class Element, int kN, bool kIsMnMajor>
void run_wgmma(const WgmmaOperands& operands, void* d);
// Those of dense products.
template <class Element, int kN, bool kKMajorA, bool kKMajorB>
void run_dense_wgmma(const WgmmaOperands& operands, void* d);
// A from registers, [step][thread][4]; d is always added to.
template <class Element, int kN>
void run_register_wgmma(const WgmmaOperands& operands, void* d);
// A in 2:4 form, metadata [step][thread]; n = 128, K = 32 elements an instruction.
template <class Element>
void run_sparse_wgmma(const WgmmaOperands& operands, const std::uint32_t* metadata, void* d);

// One warp; 16 bytes a lane: row `index[lane]` of `from`, zeros where it is negative.
void run_copy_16_or_zero(const void* from, const int* index, void* to);
// One warp; 4 bytes a lane, zeros where not present.
void run_copy_4_or_zero(const void* from, const int* present, void* to);
// One warp; the first bytes[lane] of 16.
void run_copy_16_partly(const void* from, const int* bytes, void* to);
// The same as run_copy_16_or_zero for a second warp that waits for a barrier at which the copies
// arrive.
void run_copies_with_barrier(const void* from, const int* index, void* to);
// ldmatrix.x4 of 32 rows of 16 bytes: registers [lane][4]. stmatrix: the way back.
void run_load_matrices(const void* rows, std::uint32_t* registers);
void run_store_matrices(const std::uint32_t* registers, void* rows);

// One box of `bytes` to shared memory and, from there, to `to`.
void run_tma_load(const CUtensorMap& map, std::uint32_t bytes, int c0, int c1, int c2, void* to);
void run_tma_load_im2col(const CUtensorMap& map, std::uint32_t bytes, int axes, int channel,
                         const int (&x)[3], int batch, const int (&offset)[3], void* to);
// `bytes` of `from` through shared memory to the box of the tensor.
void run_tma_store(const CUtensorMap& map, std::uint32_t bytes, const void* from, int c0, int c1,
                   int c2);
// A cluster of two: each block loads one box of the two and both get it; `to` [block][2][bytes].
void run_tma_multicast(const CUtensorMap& map, std::uint32_t bytes, void* to);

// A ring of `stages` numbers in shared memory from a producer warp to a consumer warpgroup with
// barriers, the registers moved from one to the other: to[i] = sum of the threads' views of i.
void run_pipeline(int stages, int count, std::uint32_t* to);
// Two blocks of a cluster add up each other's ranks over barriers of the other block.
void run_cluster_arrivals(std::uint32_t* to);
// Kernels that start early and wait for their predecessor: `count` launches add 1 to *value.
void run_dependent_launches(int count, std::uint32_t* value);

}  // namespace cuda_tests

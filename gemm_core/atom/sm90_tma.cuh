// Inline assembly that dense Hopper kernels need beside ptx.cuh, one function an instruction: bulk
// tensor copies to one or several thread blocks and back to memory, clusters, barriers of part of a
// block, matrix stores. Addresses in shared memory are 32-bit.
#pragma once
#include "gemm_core/atom/ptx.cuh"

namespace gemm_core::ptx {

// --- bulk tensor copies ------------------------------------------------------------------------

// As tma_load_3d, into the same place of every block of the cluster that `blocks` names by bits;
// each block's barrier at the same place gets the bytes that land there.
__device__ __forceinline__ void tma_multicast_3d(std::uint32_t to, const CUtensorMap* map,
                                                 std::uint32_t barrier, std::uint16_t blocks,
                                                 int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(to),
      "l"(map), "r"(barrier), "h"(blocks), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
// From shared memory; what lies beyond the tensor is not written. Joins the thread's bulk group.
__device__ __forceinline__ void tma_store_3d(const CUtensorMap* map, std::uint32_t from, int c0,
                                             int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(from), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until at most kPending of the thread's groups still read shared memory.
template <int kPending>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// Until all of the thread's groups are written.
__device__ __forceinline__ void bulk_wait_all() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// Makes tensor maps that other launches or copies wrote to global memory visible to bulk copies.
__device__ __forceinline__ void acquire_tensor_map(const CUtensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// --- clusters ----------------------------------------------------------------------------------

__device__ __forceinline__ std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// All threads of all blocks of the cluster; what they wrote to shared memory is visible afterwards.
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;" ::
          : "memory");
}
// Arrives at the barrier that lies at `barrier` in block `rank` of the cluster. The thread's own
// writes are not released to that block (a release at cluster scope waits for all of them, and cost
// a third of the speed of a main loop): for handing back what asynchronous copies filled.
__device__ __forceinline__ void barrier_arrive_at(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// --- parts of a block --------------------------------------------------------------------------

// `threads` of them wait for each other; barrier 0 is __syncthreads'.
__device__ __forceinline__ void named_barrier(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(std::uint32_t address, std::uint32_t r0,
                                               std::uint32_t r1, std::uint32_t r2,
                                               std::uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

}  // namespace gemm_core::ptx

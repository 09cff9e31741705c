// Bulk tensor copies that end in L2.
#pragma once
#include <cuda.h>

namespace gemm_core::ptx {

__device__ __forceinline__ void tma_prefetch_3d(const CUtensorMap* map, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map), "r"(c0),
               "r"(c1), "r"(c2)
               : "memory");
}

}  // namespace gemm_core::ptx

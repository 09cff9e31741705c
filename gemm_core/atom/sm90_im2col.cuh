// Bulk copies in im2col mode: the channels of a number of neighbouring pixels, which run along W, H
// and D and on to the next image within the bounding box of the tensor map, moved by the offsets of
// a filter's tap. What lies beyond the tensor is zero.
#pragma once
#include "gemm_core/atom/ptx.cuh"

namespace gemm_core::ptx {

// `axes` (1 to 3): x and offset of the last `axes` of D, H, W; `batch`: the image.
__device__ __forceinline__ void tma_load_im2col(std::uint32_t to, const CUtensorMap* map,
                                                std::uint32_t barrier, int axes, int channel,
                                                const int (&x)[3], int batch,
                                                const int (&offset)[3]) {
  const auto short_of = [](int v) { return static_cast<std::uint16_t>(v); };
  if (axes == 2) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
        "l"(map), "r"(barrier), "r"(channel), "r"(x[2]), "r"(x[1]), "r"(batch),
        "h"(short_of(offset[2])), "h"(short_of(offset[1]))
        : "memory");
  } else if (axes == 3) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};" ::"r"(to),
        "l"(map), "r"(barrier), "r"(channel), "r"(x[2]), "r"(x[1]), "r"(x[0]), "r"(batch),
        "h"(short_of(offset[2])), "h"(short_of(offset[1])), "h"(short_of(offset[0]))
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5}], [%2], {%6};" ::"r"(to),
        "l"(map), "r"(barrier), "r"(channel), "r"(x[2]), "r"(batch), "h"(short_of(offset[2]))
        : "memory");
  }
}

}  // namespace gemm_core::ptx

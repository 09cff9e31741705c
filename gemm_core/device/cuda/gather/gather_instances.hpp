// The compiled products with gathered A: one file of instances/ a type.
#pragma once
#include <cuda_runtime_api.h>

#include "gemm_core/base/numeric.hpp"

namespace gemm_core {
struct Sm90RowGatherParams;
}

namespace gemm_core::cuda {

inline constexpr int kGatherCluster = 2, kGatherTileM = 128;

// Tiles of 128 x 128 by consumers in turn, or of 128 x 256 shared by both (not tf32).
template <class Element>
void launch_row_gather_gemm(const Sm90RowGatherParams& params, int tile_n, int clusters,
                            cudaStream_t stream);

}  // namespace gemm_core::cuda

// Turns a configuration into a row of the table of instances. Included by the files of instances/
// only.
#pragma once
#include <type_traits>

#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/base/numeric.hpp"
#include "gemm_core/device/cuda/gather/sm90_instances.hpp"
#include "gemm_core/kernel/sm90_gather_conv.cuh"

namespace gemm_core::cuda {

template <class Config>
void launch_sm90(const Sm90GatherConvParams& params, int lists, int column_blocks, bool overlap,
                 cudaStream_t stream) {
  // Setting the attribute anew costs less than a lock, and it is per device.
  base::cuda::allow_shared_memory(sm90_gather_conv<Config>, Config::kSharedBytes);
  base::cuda::launch(
      sm90_gather_conv<Config>,
      {.grid = dim3(static_cast<unsigned>(lists), static_cast<unsigned>(column_blocks)),
       .block = dim3(Config::kThreads),
       .shared_bytes = Config::kSharedBytes,
       .overlap = overlap},
      stream, params);
}

template <class Config>
constexpr Sm90Instance sm90_instance(const char* name) {
  constexpr bool kHasMixed = std::is_same_v<typename Config::Element, base::half_t>;
  using Plain = typename Config::template Variant<false, false>;
  using OwnRows = typename Config::template Variant<Config::kTakesOwnRows, false>;
  using Mixed = typename Config::template Variant<false, kHasMixed>;
  return {name,
          base::dtype_v<typename Config::Element>,
          Config::kTileM,
          Config::kTileN,
          Config::kSpanK,
          Config::kSpanBytes,
          Config::kStageK,
          Config::kStages,
          Config::kBlocksPerSm,
          Config::kSharedBytes,
          launch_sm90<Plain>,
          Config::kTakesOwnRows ? launch_sm90<OwnRows> : nullptr,
          kHasMixed ? launch_sm90<Mixed> : nullptr};
}

}  // namespace gemm_core::cuda

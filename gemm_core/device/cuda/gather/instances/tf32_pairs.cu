#include "gemm_core/base/cuda/launch.cuh"
#include "gemm_core/device/cuda/gather/sm90_pair_instances.hpp"
#include "gemm_core/kernel/sm80_weight_gradient.cuh"

namespace gemm_core::cuda {
namespace {

template <class Config>
void launch(const WeightGradientParams& params, int column_blocks, cudaStream_t stream) {
  base::cuda::allow_shared_memory(sm80_tf32_weight_gradient<Config>, Config::kSharedBytes);
  base::cuda::launch(
      sm80_tf32_weight_gradient<Config>,
      {.grid = dim3(static_cast<unsigned>(params.workers), static_cast<unsigned>(column_blocks)),
       .block = dim3(Config::kThreads),
       .shared_bytes = Config::kSharedBytes,
       .overlap = true},
      stream, params);
}

template <class Config>
constexpr Sm90PairInstance instance(const char* name) {
  return {name,           base::DType::tf32,    Config::kTileM,
          Config::kTileN, Config::kBlocksPerSm, launch<Config>};
}

constexpr Sm90PairInstance kInstances[] = {
    instance<Sm80PairConfig<64, 64, 32, 32, 4>>("tf32_pairs_64x64"),
    instance<Sm80PairConfig<128, 128, 64, 32, 2>>("tf32_pairs_128x128"),
};

}  // namespace

std::span<const Sm90PairInstance> sm80_tf32_pair_instances() { return kInstances; }

}  // namespace gemm_core::cuda

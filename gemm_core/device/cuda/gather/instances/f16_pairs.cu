// What a stage gathers is the time: as many bytes in flight as shared memory holds.
#include "gemm_core/device/cuda/gather/sm90_pair_instance.cuh"

namespace gemm_core::cuda {
namespace {

// Channels of a tile, stages, teams, thread blocks an SM.
template <int kM, int kN, int kStages, int kTeams, int kBlocks>
using Config = Sm90PairConfig<base::half_t, kM, kN, kStages, kTeams, kBlocks>;

constexpr Sm90PairInstance kInstances[] = {
    sm90_pair_instance<Config<64, 64, 4, 1, 3>>("f16_pairs_64x64"),
    sm90_pair_instance<Config<64, 128, 4, 1, 2>>("f16_pairs_64x128"),
    sm90_pair_instance<Config<128, 64, 4, 1, 2>>("f16_pairs_128x64"),
    sm90_pair_instance<Config<128, 128, 6, 2, 1>>("f16_pairs_128x128"),
    sm90_pair_instance<Config<128, 256, 4, 1, 1>>("f16_pairs_128x256"),
};

}  // namespace

std::span<const Sm90PairInstance> sm90_f16_pair_instances() { return kInstances; }

}  // namespace gemm_core::cuda

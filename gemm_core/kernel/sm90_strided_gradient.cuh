// The gradient of a strided convolution's activation on Hopper: positions with the same remainders
// by the strides form a class, a convolution of stride 1 over the taps that meet it. One persistent
// launch takes the tiles of all classes, those with the most taps first; results go to rows of D
// that lie apart. Consumers take whole tiles in turn.
#pragma once
#include "gemm_core/collective/sm90_conv_load.cuh"
#include "gemm_core/epilogue/cuda/sm90_scattered_store.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

struct StridedClass {
  CUtensorMap a;  // the output's gradient as this class reads it
  ConvAddress address;
  ScatteredRows rows;
  kernel::TileOrder order;
  std::uint32_t first_tile = 0;
  int m = 0, k_stages = 0;
};

struct Sm90StridedParams {
  static constexpr int kMostClasses = 8;
  CUtensorMap b;
  DenseEpilogue epilogue;  // alpha, n and the type of D
  int count = 0;
  std::uint32_t tiles = 0;
  StridedClass classes[kMostClasses];
};

// Calls f(class, work) for every tile that a block takes; all warps walk alike.
template <class Config, class F>
__device__ __forceinline__ void for_each_class_tile(const Sm90StridedParams& params, const F& f) {
  int at = 0;
  for (std::uint32_t i = blockIdx.x; i < params.tiles; i += gridDim.x) {
    while (at + 1 < params.count && i >= params.classes[at + 1].first_tile) ++at;
    const StridedClass& one = params.classes[at];
    const kernel::TileCoord tile = one.order.tile(i - one.first_tile);
    DenseWork work;
    work.m = static_cast<int>(tile.m) * Config::kTileM;
    work.n = static_cast<int>(tile.n) * Config::kTileN;
    work.k_count = one.k_stages;
    f(one, work);
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_strided_gradient(const __grid_constant__ Sm90StridedParams params) {
  static_assert(Config::kAlternates && Config::kCluster == 1);
  using Mma = Sm90TmaMma<Config>;
  extern __shared__ std::uint8_t shared[];
  const Mma mma(ptx::shared_address(shared));
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;

  if (threadIdx.x == 0) mma.init_barriers();
  __syncthreads();

  typename Mma::Position position;
  if (group == Config::kConsumers) {
    ptx::release_registers_to<Config::kProducerRegisters>();
    if (thread != 0) return;
    position.parity = 1;
    ptx::tma_prefetch_descriptor(&params.b);
    for (int i = 0; i < params.count; ++i) ptx::tma_prefetch_descriptor(&params.classes[i].a);
    for_each_class_tile<Config>(params, [&](const StridedClass& one, const DenseWork& work) {
      const Sm90ConvLoad<Config> load{mma, one.address};
      load.load_forward(&one.a, &params.b, work, 0, position);
    });
    return;
  }
  ptx::claim_registers_to<Config::kConsumerRegisters>();
  constexpr int kSums = Config::Mma::kAccumulators, kAtoms = Config::kAtoms;
  const std::uint32_t room = mma.store_room(group);
  typename Mma::Sums sums;
  std::uint32_t tiles = 0;
  for_each_class_tile<Config>(params, [&](const StridedClass& one, const DenseWork& work) {
    const std::uint32_t tile = tiles++;
    if (tile % 2 != static_cast<std::uint32_t>(group)) {
      position.advance(work.k_count);
      return;
    }
    mma.wait_for_turn(group, tile / 2);
    mma.multiply(work.k_count, group, thread % 32, position, sums);
#pragma unroll 1
    for (int atom = 0; atom < kAtoms; ++atom) {
      const Sm90ScatteredStore<kSums> store{params.epilogue, one.rows, one.m, room,
                                            thread,          1 + group};
      store.store(sums[0], work.m + atom * 64, work.n);
      // One copy of the code serves all atoms.
      if constexpr (kAtoms == 2) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[0][i] = sums[1][i];
      }
    }
  });
}

}  // namespace gemm_core

// What the producer of a contraction on Hopper asks for: tiles of one mode of each kind, with the
// other modes as further dimensions of the tensor maps (up to five in all). Other modes of k are
// walked beside the stages of k, others of m and n, and batches, from tile to tile.
#pragma once
#include "gemm_core/base/fast_divmod.hpp"
#include "gemm_core/collective/sm90_tma_mma.cuh"

namespace gemm_core {

namespace ptx {
__device__ __forceinline__ void tma_load_5d(std::uint32_t to, const CUtensorMap* map,
                                            std::uint32_t barrier, int c0, int c1,
                                            const int (&c)[3]) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4, %5, %6, %7}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c[0]), "r"(c[1]), "r"(c[2])
      : "memory");
}
}  // namespace ptx

// Modes beyond the tiled ones: of k (`k_outer`), and those that number the tiles' batches.
struct NestedModes {
  static constexpr int kMost = 6, kMostOfK = 3;
  int k_inner_stages = 1;  // of the tiled mode of k
  int k_outer_count = 0, batch_count = 0;
  base::FastDivMod by_k[kMostOfK];  // extents of k_outer, the fastest first
  base::FastDivMod by_batch[kMost];
  // Where dimension 2 + i of an operand's map takes its coordinate: j >= 0 from batch mode j,
  // -1 - j from mode j of k_outer; kNowhere: 0.
  static constexpr int kNowhere = 100;
  int from_a[3] = {kNowhere, kNowhere, kNowhere}, from_b[3] = {kNowhere, kNowhere, kNowhere};
};

template <class Config>
struct Sm90NestedLoad {
  using Position = typename Sm90TmaMma<Config>::Position;
  const Sm90TmaMma<Config>& mma;
  const NestedModes& modes;

  template <int kCount>
  static __device__ __forceinline__ void split(const base::FastDivMod (&by)[kCount], int count,
                                               int index, int (&to)[kCount]) {
    auto rest = static_cast<std::uint32_t>(index);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      to[i] = 0;
      if (i >= count) continue;
      const auto [quotient, at] = by[i](rest);
      to[i] = static_cast<int>(at);
      rest = quotient;
    }
  }
  static __device__ __forceinline__ int pick(int from, const int (&k)[NestedModes::kMostOfK],
                                             const int (&batch)[NestedModes::kMost]) {
    int value = 0;
#pragma unroll
    for (int i = 0; i < NestedModes::kMostOfK; ++i) value = from == -1 - i ? k[i] : value;
#pragma unroll
    for (int i = 0; i < NestedModes::kMost; ++i) value = from == i ? batch[i] : value;
    return value;
  }

  __device__ __forceinline__ void load(const CUtensorMap* a, const CUtensorMap* b,
                                       const DenseWork& work, Position& at) const {
    static_assert(Config::kCluster == 1);
    int batch[NestedModes::kMost];
    split(modes.by_batch, modes.batch_count, work.batch, batch);
    int inner = work.k_begin % modes.k_inner_stages, outer = work.k_begin / modes.k_inner_stages;
    int c_a[3], c_b[3];
    const auto place = [&] {
      int k[NestedModes::kMostOfK];
      split(modes.by_k, modes.k_outer_count, outer, k);
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        c_a[i] = pick(modes.from_a[i], k, batch);
        c_b[i] = pick(modes.from_b[i], k, batch);
      }
    };
    place();
#pragma unroll 1
    for (int i = 0; i < work.k_count; ++i) {
      const int k = inner * Config::kStageK;
      ptx::barrier_wait(mma.empty(at.stage), at.parity);
      const std::uint32_t barrier = mma.full(at.stage);
      ptx::barrier_arrive_expect(barrier, Config::kStageBytes);
      const std::uint32_t to_a = mma.stages + at.stage * Config::kStageBytes;
      const std::uint32_t to_b = to_a + Config::kStageBytesA;
#pragma unroll
      for (int row = 0; row < Config::kTileM; row += Config::kBoxRowsA) {
        const int m = work.m + row;
        ptx::tma_load_5d(to_a + row * Config::kSpanBytes, a, barrier, Config::kKMajorA ? k : m,
                         Config::kKMajorA ? m : k, c_a);
      }
#pragma unroll
      for (int row = 0; row < Config::kTileN; row += Config::kBoxRowsB) {
        const int n = work.n + row;
        ptx::tma_load_5d(to_b + row * Config::kSpanBytes, b, barrier, Config::kKMajorB ? k : n,
                         Config::kKMajorB ? n : k, c_b);
      }
      at.advance();
      if (++inner == modes.k_inner_stages) {
        inner = 0;
        ++outer;
        place();
      }
    }
  }
};

}  // namespace gemm_core

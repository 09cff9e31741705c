// What the producer of a dense convolution on Hopper asks for: instead of a matrix, one operand is
// the im2col view of a tensor, whose k runs over channels of a tap (products with the filter) or
// over positions (gradient of the filter). Stages, barriers and consumers are those of dense
// products.
#pragma once
#include "gemm_core/atom/sm90_im2col.cuh"
#include "gemm_core/base/fast_divmod.hpp"
#include "gemm_core/collective/sm90_tma_mma.cuh"

namespace gemm_core {

// Tap u of an axis: where it reads, beyond a position's base, and its place in the filter. `count`
// taps, in the order in which they are multiplied.
struct ConvTapAxis {
  int count = 1;
  int offset = 0, offset_step = 0;
  int place = 0, place_step = 0;  // in taps of the whole filter
};

// Positions [n][p0][p1][p2], last fastest; position p reads from corner + p * stride on.
struct ConvAddress {
  ConvTapAxis taps[3];
  int axes = 2;
  int corner[3] = {0, 0, 0}, stride[3] = {1, 1, 1};
  base::FastDivMod by_axis[3];  // extents of p0, p1, p2
  int channel_stages = 1;       // forward: stages of k in a tap
  int blocks_per_tap = 1;       // filter gradient: columns of a tap / 64
  int tap_batches = 1;          // and taps that are batches of their own
  int tap_count = 1;
};

struct ConvPlace {
  int n = 0;
  int x[3] = {0, 0, 0};
};

__device__ __forceinline__ ConvPlace place_of(const ConvAddress& a, int position) {
  ConvPlace at;
  auto rest = static_cast<std::uint32_t>(position);
#pragma unroll
  for (int i = 2; i >= 0; --i) {
    const auto [quotient, p] = a.by_axis[i](rest);
    at.x[i] = a.corner[i] + static_cast<int>(p) * a.stride[i];
    rest = quotient;
  }
  at.n = static_cast<int>(rest);
  return at;
}

// Taps of all axes, the last fastest.
struct ConvTap {
  int u[3] = {0, 0, 0};

  __device__ __forceinline__ ConvTap(const ConvAddress& a, int index) {
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      u[i] = index % a.taps[i].count;
      index /= a.taps[i].count;
    }
  }
  __device__ __forceinline__ void advance(const ConvAddress& a) {
    if (++u[2] < a.taps[2].count) return;
    u[2] = 0;
    if (++u[1] < a.taps[1].count) return;
    u[1] = 0;
    ++u[0];
  }
  __device__ __forceinline__ int place(const ConvAddress& a) const {
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 3; ++i) sum += a.taps[i].place + u[i] * a.taps[i].place_step;
    return sum;
  }
  __device__ __forceinline__ void offsets(const ConvAddress& a, int (&to)[3]) const {
#pragma unroll
    for (int i = 0; i < 3; ++i) to[i] = a.taps[i].offset + u[i] * a.taps[i].offset_step;
  }
};

template <class Config>
struct Sm90ConvLoad {
  using Position = typename Sm90TmaMma<Config>::Position;
  const Sm90TmaMma<Config>& mma;
  const ConvAddress& address;

  // A: im2col of the tensor that is read, [positions][channel]; B: the filter, [tap][line][channel]
  // (K-major) or [tap][channel][line].
  __device__ __forceinline__ void load_forward(const CUtensorMap* a, const CUtensorMap* b,
                                               const DenseWork& work, std::uint32_t rank,
                                               Position& at) const {
    static_assert(Config::kKMajorA);
    const ConvPlace from = place_of(address, work.m);
    int block = work.k_begin % address.channel_stages;
    ConvTap tap(address, work.k_begin / address.channel_stages);
    int offset[3];
    tap.offsets(address, offset);
    int place = tap.place(address);
    constexpr int kPart = Config::kTileN / Config::kCluster;
    constexpr std::uint16_t kAll = (1 << Config::kCluster) - 1;
#pragma unroll 1
    for (int i = 0; i < work.k_count; ++i) {
      const int c = block * Config::kStageK;
      ptx::barrier_wait(mma.empty(at.stage), at.parity);
      const std::uint32_t barrier = mma.full(at.stage);
      ptx::barrier_arrive_expect(barrier, Config::kStageBytes);
      const std::uint32_t to_a = mma.stages + at.stage * Config::kStageBytes;
      ptx::tma_load_im2col(to_a, a, barrier, address.axes, c, from.x, from.n, offset);
      const std::uint32_t to_b = to_a + Config::kStageBytesA + rank * (kPart * Config::kSpanBytes);
#pragma unroll
      for (int row = 0; row < kPart; row += Config::kBoxRowsB) {
        const int n = work.n + static_cast<int>(rank) * kPart + row;
        const int c0 = Config::kKMajorB ? c : n, c1 = Config::kKMajorB ? n : c;
        const std::uint32_t to = to_b + row * Config::kSpanBytes;
        if constexpr (Config::kCluster == 1)
          ptx::tma_load_3d(to, b, barrier, c0, c1, place);
        else
          ptx::tma_multicast_3d(to, b, barrier, kAll, c0, c1, place);
      }
      at.advance();
      if (++block == address.channel_stages) {
        block = 0;
        tap.advance(address);
        tap.offsets(address, offset);
        place = tap.place(address);
      }
    }
  }

  // A: the output's gradient, [position][filter]; B: im2col of the activation, [position][channel
  // of a tap]. Columns of the product are (tap, channel) in blocks of 64, a batch begins at its
  // tap.
  __device__ __forceinline__ void load_filter(const CUtensorMap* a, const CUtensorMap* b,
                                              const DenseWork& work, Position& at) const {
    static_assert(!Config::kKMajorA && !Config::kKMajorB && Config::kCluster == 1);
    constexpr int kBlocks = Config::kTileN / Config::kMnBlock;
    constexpr std::uint32_t kBlockBytes = Config::kMnBlock * Config::kSpanBytes;
    constexpr int kBeyond = 1 << 30;  // no channel: reads zeros
    int channel[kBlocks], offset[kBlocks][3];
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      const int block = work.n / Config::kMnBlock + j;
      const int index = work.batch + block / address.blocks_per_tap;
      const bool exists = index < address.tap_count;
      channel[j] = exists ? block % address.blocks_per_tap * Config::kMnBlock : kBeyond;
      ConvTap(address, exists ? index : 0).offsets(address, offset[j]);
    }
#pragma unroll 1
    for (int i = 0; i < work.k_count; ++i) {
      const int position = (work.k_begin + i) * Config::kStageK;
      const ConvPlace from = place_of(address, position);
      ptx::barrier_wait(mma.empty(at.stage), at.parity);
      const std::uint32_t barrier = mma.full(at.stage);
      ptx::barrier_arrive_expect(barrier, Config::kStageBytes);
      const std::uint32_t to_a = mma.stages + at.stage * Config::kStageBytes;
#pragma unroll
      for (int row = 0; row < Config::kTileM; row += Config::kMnBlock)
        ptx::tma_load_3d(to_a + row * Config::kSpanBytes, a, barrier, work.m + row, position, 0);
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        ptx::tma_load_im2col(to_a + Config::kStageBytesA + j * kBlockBytes, b, barrier,
                             address.axes, channel[j], from.x, from.n, offset[j]);
      }
      at.advance();
    }
  }
};

}  // namespace gemm_core

// Weight gradients in tf32 by mma.sync, on sm_80 and newer: WGMMA takes operands whose rows are K
// in 16-bit types only. Rows of both operands are gathered by cp.async into shared memory, a few
// stages ahead; pairs are K. grid = (workers, blocks of kTileM x kTileN channels).
#pragma once
#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/atom/sm80_mma.cuh"
#include "gemm_core/collective/weight_gradient_pieces.cuh"

namespace gemm_core {

// Output and input channels of a tile, and of the part of it that a warp has.
template <int kTileM_, int kTileN_, int kWarpM_, int kWarpN_, int kBlocksPerSm_>
struct Sm80PairConfig {
  static constexpr int kTileM = kTileM_, kTileN = kTileN_, kWarpM = kWarpM_, kWarpN = kWarpN_;
  static constexpr int kBlocksPerSm = kBlocksPerSm_, kStages = 3, kStageK = 32;
  static constexpr int kWarpsN = kTileN / kWarpN;
  static constexpr int kThreads = kTileM / kWarpM * kWarpsN * 32;
  // Four rows of K, eight channels each: a warp's fragment touches every bank once.
  static constexpr int kPitchM = kTileM + 8, kPitchN = kTileN + 8;
  static constexpr int kStageFloats = kStageK * (kPitchM + kPitchN);
  static constexpr int kSharedBytes = kStages * kStageFloats * 4;
  static constexpr int kCopiesM = kStageK * kTileM / 4 / kThreads;
  static constexpr int kCopiesN = kStageK * kTileN / 4 / kThreads;
  static_assert(kPairBlock % kStageK == 0 && kSharedBytes * kBlocksPerSm <= 227 * 1024);
  static_assert(kThreads % (kTileM / 4) == 0 && kThreads % (kTileN / 4) == 0);
};

// The rows of one operand that a thread copies: the same 16-byte chunk of every kStep-th row.
template <class Config, int kTile, int kCopies>
struct PairCopies {
  static constexpr int kChunks = kTile / 4, kStep = Config::kThreads / kChunks, kPitch = kTile + 8;
  const float* data;
  std::int64_t pitch;
  const std::int32_t* rows;  // of the pairs
  int row, chunk;            // the thread's first row of a stage
  bool exists;
  std::int32_t index[kCopies];

  __device__ __forceinline__ PairCopies(const PairRows& from, const std::int32_t* pairs,
                                        int first_channel, int channels)
      : pitch(from.pitch),
        rows(pairs),
        row(static_cast<int>(threadIdx.x) / kChunks),
        chunk(static_cast<int>(threadIdx.x) % kChunks) {
    const int channel = first_channel + chunk * 4;
    exists = channel < channels;
    data = static_cast<const float*>(from.data) + (exists ? channel : 0);
  }
  __device__ __forceinline__ void fetch(int step) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i)
      index[i] = __ldg(rows + static_cast<std::int64_t>(step) * Config::kStageK + row + i * kStep);
  }
  __device__ __forceinline__ void copy(std::uint32_t to) const {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const std::int64_t at = max(index[i], 0);
      ptx::copy_16_or_zero(to + ((row + i * kStep) * kPitch + chunk * 4) * 4, data + at * pitch,
                           exists ? index[i] : -1);
    }
  }
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, Config::kBlocksPerSm)
    sm80_tf32_weight_gradient(const __grid_constant__ WeightGradientParams p) {
  constexpr int kM = Config::kTileM, kN = Config::kTileN, kStages = Config::kStages;
  constexpr int kAtomsM = Config::kWarpM / 16, kAtomsN = Config::kWarpN / 8;
  constexpr int kStepsOfBlock = kPairBlock / Config::kStageK;
  extern __shared__ float tiles[];
  ptx::wait_for_predecessor();
  ptx::allow_successor();

  const WeightTile shape(p.cout, p.cin, 1, kM, kN);
  const int first_row = blockIdx.y / shape.column_blocks * kM;
  const int first_column = blockIdx.y % shape.column_blocks * kN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int warp_m = warp / Config::kWarpsN * Config::kWarpM;
  const int warp_n = warp % Config::kWarpsN * Config::kWarpN;
  PairWalk walk(p.pairs, static_cast<int>(blockIdx.x), p.workers);
  const int first = walk.first() * kStepsOfBlock, last = walk.last() * kStepsOfBlock;
  PairCopies<Config, kM, Config::kCopiesM> gradient(p.gradient, p.pairs.outputs, first_row, p.cout);
  PairCopies<Config, kN, Config::kCopiesN> input(p.input, p.pairs.inputs, first_column, p.cin);
  const std::uint32_t shared = ptx::shared_address(tiles);

  // Copies of `step`, whose indices are there; those of the next step are asked for.
  const auto fill = [&](int step) {
    if (step < last) {
      const std::uint32_t to = shared + step % kStages * Config::kStageFloats * 4;
      gradient.copy(to);
      input.copy(to + Config::kStageK * Config::kPitchM * 4);
      if (step + 1 < last) {
        gradient.fetch(step + 1);
        input.fetch(step + 1);
      }
    }
    ptx::commit_copies();
  };
  if (first < last) {
    gradient.fetch(first);
    input.fetch(first);
  }
  for (int s = 0; s < kStages - 1; ++s) fill(first + s);

  float acc[kAtomsM][kAtomsN][4];
  for (int begin, end; walk.next(begin, end);) {
#pragma unroll
    for (int m = 0; m < kAtomsM; ++m) {
#pragma unroll
      for (int n = 0; n < kAtomsN; ++n) {
#pragma unroll
        for (int v = 0; v < 4; ++v) acc[m][n][v] = 0;
      }
    }
    for (int step = begin * kStepsOfBlock; step < end * kStepsOfBlock; ++step) {
      ptx::wait_copies<kStages - 2>();
      __syncthreads();  // the step has landed for all, and its predecessor has been read by all
      fill(step + kStages - 1);
      const float* a = tiles + step % kStages * Config::kStageFloats + warp_m + g;
      const float* b = tiles + step % kStages * Config::kStageFloats +
                       Config::kStageK * Config::kPitchM + warp_n + g;
#pragma unroll
      for (int k = 0; k < Config::kStageK; k += 8) {
        std::uint32_t fa[kAtomsM][4], fb[kAtomsN][2];
        const auto at = [](const float* from) { return __float_as_uint(*from); };
#pragma unroll
        for (int m = 0; m < kAtomsM; ++m) {
          const float* low = a + (k + t) * Config::kPitchM + m * 16;
          const float* high = low + 4 * Config::kPitchM;
          fa[m][0] = at(low);
          fa[m][1] = at(low + 8);
          fa[m][2] = at(high);
          fa[m][3] = at(high + 8);
        }
#pragma unroll
        for (int n = 0; n < kAtomsN; ++n) {
          const float* low = b + (k + t) * Config::kPitchN + n * 8;
          fb[n][0] = at(low);
          fb[n][1] = at(low + 4 * Config::kPitchN);
        }
#pragma unroll
        for (int m = 0; m < kAtomsM; ++m) {
#pragma unroll
          for (int n = 0; n < kAtomsN; ++n)
            Sm80Mma<base::tf32_t>::multiply(acc[m][n], fa[m], fb[n]);
        }
      }
    }
    float* const to = piece_of(p, static_cast<int>(blockIdx.x), walk.tap(), kM * kN) +
                      (warp_m + g) * kN + warp_n + 2 * t;
#pragma unroll
    for (int m = 0; m < kAtomsM; ++m) {
#pragma unroll
      for (int n = 0; n < kAtomsN; ++n) {
        float* const at = to + m * 16 * kN + n * 8;
        *reinterpret_cast<float2*>(at) = make_float2(acc[m][n][0], acc[m][n][1]);
        *reinterpret_cast<float2*>(at + 8 * kN) = make_float2(acc[m][n][2], acc[m][n][3]);
      }
    }
  }
  ptx::wait_all_copies();
}

}  // namespace gemm_core

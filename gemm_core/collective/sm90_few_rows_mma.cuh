// Mainloop of products of narrow weights with few rows of f16 or bf16 activations on Hopper, which
// take as long as the weights are read: weights come by TMA and activations by cp.async as they
// are, warps convert weights to fragments of mma.sync in registers and read activations in the
// order that the fragments have. Nothing waits but for a stage to be full.
//
// A stage is 64 bytes of each row of weights. Lane 4 * g + q takes bytes 16 * q to 16 * q + 15 of
// rows g and g + 8 of a block of 16: four words, each a block of 2 * kPairs elements of k, whose
// pair i (elements i and i + kPairs, 16 bits apart) is places 2 * q and 2 * q + 1, or these and 8,
// of a step of the MMA. The lane reads the same elements of activation row g.
#pragma once
#include "gemm_core/atom/sm80_mma.cuh"
#include "gemm_core/atom/sm90_tma.cuh"
#include "gemm_core/collective/mixed_scales.cuh"
#include "gemm_core/collective/sm90_mixed_mma.cuh"

namespace gemm_core {

namespace ptx {
// The value, which is not computed again where it is used.
__device__ __forceinline__ std::uint32_t kept(std::uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}
}  // namespace ptx

struct Sm90FewRowsTile {
  int warps = 16, row_blocks = 2;  // a warp has so many blocks of 16 rows of weights
  int n = 16;                      // rows of activations
  int stages = 5;
};

template <class Compute_, NarrowFormat kFormat_, Sm90FewRowsTile kTile>
struct Sm90FewRowsConfig {
  using Compute = Compute_;
  using Words = NarrowWords<Compute, kFormat_>;
  static constexpr NarrowFormat kFormat = kFormat_;
  static constexpr int kWarps = kTile.warps, kRowBlocks = kTile.row_blocks, kStages = kTile.stages;
  static constexpr int kGroups = kWarps / 4;  // of four warps, which store together
  static constexpr int kTileM = 16 * kWarps * kRowBlocks, kTileN = kTile.n;
  static constexpr int kThreads = 32 * (kWarps + 1);
  static constexpr int kBits = Words::kBits, kPairs = Words::kPairs;
  static constexpr int kLineBytes = 64, kStageK = kLineBytes * 8 / kBits;
  static constexpr int kLaneK = kStageK / 4;                 // of k, which a lane takes
  static constexpr int kScaleK = kLaneK > 32 ? kLaneK : 32;  // groups of scales: multiples
  static constexpr int kBoxRows = kTileM < 256 ? kTileM : 256;
  static constexpr int kLaneChunks = kLaneK / 8;           // of 16 bytes of activations
  static constexpr int kWidePitch = 4 * kLaneChunks * 16;  // of a row of activations
  static constexpr int kWeightBytes = kTileM * kLineBytes;
  static constexpr int kStageBytes = kWeightBytes + kTileN * kWidePitch;
  static constexpr int kStoreColumns = 16, kStorePitch = 64 + 4;
  static constexpr int kStoreBytes = kStoreColumns * kStorePitch * 4;  // of a group
  static constexpr int kSharedBytes = 1024 + kStages * (kStageBytes + 16) + kGroups * kStoreBytes;
  struct Mma {
    static constexpr int kAccumulators = kTileN / 2;  // of a thread, in 64 rows of four warps
  };
  static_assert(kWarps % 4 == 0 && kTileM % kBoxRows == 0 && kTileN % 16 == 0 && kTileN <= 256);
  static_assert(kWidePitch % 128 == 0 && kStageBytes % 1024 == 0);
  static_assert(kSharedBytes <= 227 * 1024, "stages do not fit in shared memory");
};

// Scales or zero points of a lane's rows, as pairs of the compute type. Those of the next stage are
// on their way while a stage is multiplied.
template <class Config>
struct FewRowsWalk {
  static constexpr int kRows = 2 * Config::kRowBlocks;
  const MixedGroups& values;
  const std::uint16_t* from[kRows];  // of the group of k at hand
  int end, left;                     // that group's end; groups after it
  std::uint32_t now[kRows], next[kRows];

  // From element k on, of rows `row` + 64 * block + 8 * half.
  __device__ __forceinline__ FewRowsWalk(const MixedGroups& v, const MixedOperands& o, int row,
                                         int k)
      : values(v) {
    const int group = min(k, o.k - 1) / v.k_group;
    end = (group + 1) * v.k_group;
    left = (o.k - 1) / v.k_group - group;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int at = min(row + i / 2 * 64 + i % 2 * 8, o.weight_rows - 1) / v.row_group;
      from[i] = static_cast<const std::uint16_t*>(v.data) + at * v.row_stride + group * v.k_stride;
    }
    fetch();
  }
  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) next[i] = __ldg(from[i]);
  }
  // To the stage whose elements of the lane begin at k; asks for those at `next_k`.
  __device__ __forceinline__ void advance(int next_k) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) now[i] = next[i] * 0x00010001u;
    if (next_k < end || left == 0) return;
    do {
      end += values.k_group;
      --left;
#pragma unroll
      for (int i = 0; i < kRows; ++i) from[i] += values.k_stride;
    } while (next_k >= end && left > 0);
    fetch();
  }
};

template <class Config, ScaleMath kMath>
struct FewRowsScales {
  using Pair = typename ComputePair<typename Config::Compute>::Pair;
  static constexpr bool kHasZero = kMath == ScaleMath::scale_zero;
  FewRowsWalk<Config> scale, zero;
  __device__ __forceinline__ FewRowsScales(const MixedOperands& o, int row, int k)
      : scale(o.scale, o, row, k), zero(kHasZero ? o.zero : o.scale, o, row, k) {}
  __device__ __forceinline__ void advance(int next_k) {
    scale.advance(next_k);
    if constexpr (kHasZero) zero.advance(next_k);
  }
  __device__ __forceinline__ Pair apply(Pair v, int row) const {
    const std::uint32_t bits = scale.now[row];
    v = __hmul2_rn(v, *reinterpret_cast<const Pair*>(&bits));
    if constexpr (kHasZero) {
      const std::uint32_t addend = zero.now[row];
      v = __hadd2_rn(v, *reinterpret_cast<const Pair*>(&addend));
    }
    return v;
  }
};
template <class Config>
struct FewRowsScales<Config, ScaleMath::none> {
  using Pair = typename ComputePair<typename Config::Compute>::Pair;
  __device__ __forceinline__ FewRowsScales(const MixedOperands&, int, int) {}
  __device__ __forceinline__ void advance(int) {}
  __device__ __forceinline__ Pair apply(Pair v, int) const { return v; }
};

template <class Config>
struct Sm90FewRowsMma {
  static constexpr int kStages = Config::kStages, kPairs = Config::kPairs;
  static constexpr int kRowBlocks = Config::kRowBlocks, kColumnBlocks = Config::kTileN / 8;
  using Sums = float[kRowBlocks][Config::Mma::kAccumulators];

  std::uint32_t stages, barriers;  // stages, store rooms, full[kStages], empty[kStages]

  __device__ __forceinline__ explicit Sm90FewRowsMma(std::uint32_t shared)
      : stages(ptx::kept((shared + 1023) & ~1023u)),
        barriers(stages + kStages * Config::kStageBytes + Config::kGroups * Config::kStoreBytes) {}
  __device__ __forceinline__ std::uint32_t full(int stage) const { return barriers + 8 * stage; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const {
    return barriers + 8 * (kStages + stage);
  }
  __device__ __forceinline__ std::uint32_t store_room(int group) const {
    return stages + kStages * Config::kStageBytes + group * Config::kStoreBytes;
  }
  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(full(i), 1 + 32);  // the bulk copy, and every lane of the producer
      ptx::barrier_init(empty(i), Config::kWarps);
    }
    ptx::barrier_init_fence();
  }

  struct Position {
    int stage = 0;
    std::uint32_t parity = 0;
    __device__ __forceinline__ void advance() {
      if (++stage == kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
  };

  // --- producer: one warp ------------------------------------------------------------------------
  // Chunk c of a row of activations, lane c / kLaneChunks's, lies where the lanes of two rows read
  // all banks at once.
  static __device__ __forceinline__ std::uint32_t chunk_at(int row, int lane, int chunk) {
    return static_cast<std::uint32_t>(row * Config::kWidePitch + lane * 16 +
                                      (chunk ^ (row & 1)) * 64);
  }

  __device__ __forceinline__ void produce(const MixedOperands& o, const MixedWork& work, int lane,
                                          Position& at) const {
    constexpr int kRowChunks = 4 * Config::kLaneChunks;
    constexpr int kTasks = Config::kTileN * kRowChunks / 32;
    static_assert(kTasks * 32 == Config::kTileN * kRowChunks);
    constexpr int kRowStep = 32 / kRowChunks;
    static_assert(kRowStep * kRowChunks == 32 && kRowStep % 2 == 0, "rows of equal parity");
    // A lane's chunk of every kRowStep-th row.
    const int chunk = lane % kRowChunks, first_row = lane / kRowChunks;
    const auto* from = static_cast<const std::uint16_t*>(o.wide) +
                       work.batch * o.wide_batch_stride + (work.n + first_row) * o.wide_row_stride +
                       chunk * 8 + static_cast<std::int64_t>(work.k_begin) * Config::kStageK;
    int left = o.k - work.k_begin * Config::kStageK - chunk * 8;  // of k, from there on
    const int rows = o.wide_rows - work.n - first_row;
    const std::uint32_t to_wide =
        Config::kWeightBytes +
        chunk_at(first_row, chunk / Config::kLaneChunks, chunk % Config::kLaneChunks);
#pragma unroll 1
    for (int i = 0; i < work.k_count; ++i) {
      const std::uint32_t to = stages + at.stage * Config::kStageBytes;
      ptx::barrier_wait(empty(at.stage), at.parity);
      if (lane == 0) {
        ptx::barrier_arrive_expect(full(at.stage), Config::kWeightBytes);
#pragma unroll
        for (int row = 0; row < Config::kTileM; row += Config::kBoxRows)
          ptx::tma_load_3d(to + row * Config::kLineBytes, &o.weights, full(at.stage),
                           (work.k_begin + i) * Config::kLineBytes, work.m + row,
                           work.batch * o.weight_batch_step);
      }
      const int bytes = max(0, min(16, 2 * left));
#pragma unroll
      for (int task = 0; task < kTasks; ++task) {
        const bool is_there = task * kRowStep < rows && bytes > 0;
        ptx::copy_16_partly(to + to_wide + task * kRowStep * Config::kWidePitch,
                            is_there ? from + task * kRowStep * o.wide_row_stride
                                     : static_cast<const std::uint16_t*>(o.wide),
                            is_there ? bytes : 0);
      }
      ptx::barrier_arrive_after_copies(full(at.stage));
      from += Config::kStageK;
      left -= Config::kStageK;
      at.advance();
    }
  }

  // --- consumer warps ----------------------------------------------------------------------------
  // A warp's first row in the tile; its blocks are 64 apart.
  static __device__ __forceinline__ int row_of(int warp) {
    return warp / 4 * (64 * kRowBlocks) + warp % 4 * 16;
  }

  // sums = the products of the piece.
  __device__ __forceinline__ void multiply(const MixedOperands& o, const MixedWork& work, int warp,
                                           int lane, Position& at, Sums& sums) const {
    switch (o.math) {
      case ScaleMath::none:
        return multiply_by<ScaleMath::none>(o, work, warp, lane, at, sums);
      case ScaleMath::scale:
        return multiply_by<ScaleMath::scale>(o, work, warp, lane, at, sums);
      case ScaleMath::scale_zero:
        return multiply_by<ScaleMath::scale_zero>(o, work, warp, lane, at, sums);
      case ScaleMath::wide:
        __trap();  // other kernels take these
    }
  }

 private:
  // The 2 * kPairs activations of a word of weights, as the pairs of the weights; the lane's first
  // chunk of the row is at `at` in shared memory, others where the bits of 64 * chunk differ.
  static __device__ __forceinline__ void load_pairs(std::uint32_t at, int word,
                                                    std::uint32_t (&pairs)[kPairs]) {
    std::uint32_t words[kPairs];
    if constexpr (kPairs == 2) {
      asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                   : "=r"(words[0]), "=r"(words[1])
                   : "r"((at ^ (word / 2 * 64)) + word % 2 * 8)
                   : "memory");
    } else {
#pragma unroll
      for (int i = 0; i < kPairs; i += 4)
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[i]), "=r"(words[i + 1]), "=r"(words[i + 2]), "=r"(words[i + 3])
                     : "r"(at ^ ((word * kPairs + i) / 4 * 64))
                     : "memory");
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      pairs[i] = __byte_perm(words[i / 2], words[kPairs / 2 + i / 2], i % 2 == 0 ? 0x5410 : 0x7632);
  }

  template <ScaleMath kMath>
  __device__ __forceinline__ void multiply_by(const MixedOperands& o, const MixedWork& work,
                                              int warp, int lane, Position& at, Sums& sums) const {
    using Mma = Sm80Mma<typename Config::Compute>;
    const int g = lane / 4, q = lane % 4;
    const int row = row_of(warp) + g;
    const std::uint32_t weights_at =
        static_cast<std::uint32_t>(row * Config::kLineBytes + (q ^ (g >> 1)) * 16);
    const std::uint32_t wide_at = Config::kWeightBytes + chunk_at(g, q, 0);
    const typename Config::Words words(o.code);
    int k = work.k_begin * Config::kStageK + q * Config::kLaneK;
    FewRowsScales<Config, kMath> scales(o, work.m + row, k);
#pragma unroll
    for (auto& block : sums) {
#pragma unroll
      for (float& sum : block) sum = 0;
    }
#pragma unroll 1
    for (int i = 0; i < work.k_count; ++i) {
      const std::uint32_t from = stages + at.stage * Config::kStageBytes;
      scales.advance(k += Config::kStageK);
      ptx::barrier_wait(full(at.stage), at.parity);
      std::uint32_t narrow[2 * kRowBlocks][4];
#pragma unroll
      for (int r = 0; r < 2 * kRowBlocks; ++r)
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(narrow[r][0]), "=r"(narrow[r][1]), "=r"(narrow[r][2]),
                       "=r"(narrow[r][3])
                     : "r"(from + weights_at + (r / 2 * 64 + r % 2 * 8) * Config::kLineBytes)
                     : "memory");
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        std::uint32_t wide[kColumnBlocks][kPairs];
#pragma unroll
        for (int n = 0; n < kColumnBlocks; ++n)
          load_pairs(from + wide_at + n * 8 * Config::kWidePitch, word, wide[n]);
#pragma unroll
        for (int step = 0; step < kPairs / 2; ++step) {
          // All fragments first: registers of their own, while the MMAs before still read theirs.
          std::uint32_t a[kRowBlocks][4];
#pragma unroll
          for (int block = 0; block < kRowBlocks; ++block) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {
              const int row = 2 * block + v % 2, pair = 2 * step + v / 2;
              a[block][v] =
                  Config::Words::bits(scales.apply(words.pair(narrow[row][word], pair), row));
            }
          }
#pragma unroll
          for (int n = 0; n < kColumnBlocks; ++n) {
            const std::uint32_t b[2] = {wide[n][2 * step], wide[n][2 * step + 1]};
#pragma unroll
            for (int block = 0; block < kRowBlocks; ++block)
              Mma::multiply(reinterpret_cast<float(&)[4]>(sums[block][4 * n]), a[block], b);
          }
        }
      }
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(empty(at.stage));
      at.advance();
    }
  }
};

}  // namespace gemm_core

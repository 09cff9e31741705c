// Mainloop of products of narrow weights with f16 or bf16 activations on Hopper. Weights travel as
// they are, by TMA, and become fragments of WGMMA's register operand; activations are written to
// swizzled shared memory by a warpgroup of producers, k renumbered as narrow_words.cuh says. Tiles
// are rows of weights by rows of activations.
#pragma once
#include "gemm_core/atom/sm90_descriptor.hpp"
#include "gemm_core/atom/sm90_register_wgmma.cuh"
#include "gemm_core/atom/sm90_tma.cuh"
#include "gemm_core/collective/mixed_scales.cuh"

namespace gemm_core {

struct Sm90MixedTile {
  int consumers = 4;  // warpgroups of 64 rows of weights each
  int n = 32;         // rows of activations
  int stage_k = 256, stages = 4;
};

// The part of the product that one piece takes; m: first row of weights, n: of activations.
struct MixedWork {
  int m = 0, n = 0, batch = 0, k_begin = 0, k_count = 0;  // k in stages
};

template <class Compute_, NarrowFormat kFormat_, Sm90MixedTile kTile>
struct Sm90MixedConfig {
  using Compute = Compute_;
  using Words = NarrowWords<Compute, kFormat_>;
  using Mma = Sm90RegisterWgmma<Compute, kTile.n>;
  static constexpr NarrowFormat kFormat = kFormat_;
  static constexpr int kConsumers = kTile.consumers, kStages = kTile.stages;
  static constexpr int kTileM = 64 * kConsumers, kTileN = kTile.n;
  static constexpr int kStageK = kTile.stage_k, kThreads = (kConsumers + 1) * 128;
  static constexpr int kBits = Words::kBits, kPairs = Words::kPairs, kBlockK = 8 * kPairs;
  // A chunk: what is converted while the products of the one before it run, two pairs of a row a
  // step of the MMA.
  static constexpr int kChunkSteps = 2, kChunkPairs = 2 * kChunkSteps;
  static constexpr int kChunkK = 16 * kChunkSteps, kChunks = kStageK / kChunkK;
  static constexpr int kScaleK = kBlockK > 32 ? kBlockK : 32;  // groups of scales: multiples
  static constexpr int kLineBytes = kStageK * kBits / 8;
  static constexpr int kWeightBytes = kTileM * kLineBytes, kWideBytes = kTileN * kStageK * 2;
  static constexpr int kStageBytes = kWeightBytes + kWideBytes;
  static constexpr int kStoreColumns = 16, kStorePitch = 64 + 4;
  static constexpr int kStoreBytes = kStoreColumns * kStorePitch * 4;  // of a consumer
  static constexpr int kSharedBytes =
      1024 + kStages * (kStageBytes + 16) + kConsumers * kStoreBytes;
  static constexpr int kTasks = kTileN * (kStageK / kBlockK) / 128;  // blocks a producer's stage

  static_assert(kTileM <= 256 && kStageK % 64 == 0 && kStageK % kBlockK == 0 && kChunks % 2 == 0);
  static_assert(kLineBytes == 16 || kLineBytes == 32 || kLineBytes == 64 || kLineBytes == 128);
  static_assert(kTasks >= 1 && kTasks * 128 == kTileN * (kStageK / kBlockK));
  static_assert(kSharedBytes <= 227 * 1024, "stages do not fit in shared memory");
  // With two consumers, registers move from the producers to them.
  static constexpr bool kMovesRegisters = kConsumers == 2;
  static constexpr int kProducerRegisters = 88, kConsumerRegisters = 208;
};

template <class Config>
struct Sm90MixedMma {
  using Mma = typename Config::Mma;
  using Sums = float[Mma::kAccumulators];
  static constexpr int kStages = Config::kStages, kPairs = Config::kPairs;

  std::uint32_t stages, barriers;  // stages, store rooms, full[kStages], empty[kStages]

  __device__ __forceinline__ explicit Sm90MixedMma(std::uint32_t shared)
      : stages((shared + 1023) & ~1023u),
        barriers(stages + kStages * Config::kStageBytes +
                 Config::kConsumers * Config::kStoreBytes) {}
  __device__ __forceinline__ std::uint32_t full(int stage) const { return barriers + 8 * stage; }
  __device__ __forceinline__ std::uint32_t empty(int stage) const {
    return barriers + 8 * (kStages + stage);
  }
  __device__ __forceinline__ std::uint32_t store_room(int consumer) const {
    return stages + kStages * Config::kStageBytes + consumer * Config::kStoreBytes;
  }
  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < kStages; ++i) {
      ptx::barrier_init(full(i), 129);  // every producer, and the bulk copy
      ptx::barrier_init(empty(i), Config::kConsumers * 4);
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

  // --- producers: 128 threads --------------------------------------------------------------------
  struct Block {
    uint4 vectors[kPairs];  // 8 elements each
  };
  // Blocks that a thread has under way: as many as its registers hold.
  static constexpr int kMostAtOnce = 12 / kPairs < 1 ? 1 : 12 / kPairs;
  static constexpr int kAtOnce = Config::kTasks % kMostAtOnce == 0       ? kMostAtOnce
                                 : Config::kTasks % 2 == 0 && kPairs < 8 ? 2
                                                                         : 1;

  static __device__ __forceinline__ void read(const MixedOperands& o, const MixedWork& work,
                                              std::int64_t row, std::int64_t k, Block& block) {
    const auto* const from = static_cast<const std::uint16_t*>(o.wide) +
                             work.batch * o.wide_batch_stride + row * o.wide_row_stride + k;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      block.vectors[i] = uint4{};
      const std::int64_t left = row < o.wide_rows ? o.k - k - 8 * i : 0;
      if (left >= 8) {
        block.vectors[i] = __ldg(reinterpret_cast<const uint4*>(from) + i);
      } else if (left > 0) {
        std::uint32_t words[4] = {};
#pragma unroll
        for (int x = 0; x < 8; ++x) {
          if (x < left) words[x / 2] |= std::uint32_t{from[8 * i + x]} << 16 * (x % 2);
        }
        block.vectors[i] = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }
  // Element e of a block, pairs of elements being 32 bits.
  static __device__ __forceinline__ std::uint32_t pair_at(const Block& block, int e) {
    const uint4& v = block.vectors[e / 8];
    const int word = e / 2 % 4;
    return word == 0 ? v.x : word == 1 ? v.y : word == 2 ? v.z : v.w;
  }
  // Turned as narrow_words.cuh says; `at`: the block's number in the stage.
  static __device__ __forceinline__ void write(const Block& block, std::uint32_t to, int row,
                                               int at) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      std::uint32_t words[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int low = 2 * q * kPairs + i, high = (2 * q + 1) * kPairs + i;
        words[q] =
            __byte_perm(pair_at(block, low), pair_at(block, high), i % 2 == 0 ? 0x5410 : 0x7632);
      }
      const int chunk = at * kPairs + i;  // 16 bytes each, 8 a span
      const std::uint32_t address =
          to + chunk / 8 * (Config::kTileN * 128) +
          swizzled_offset<128>(row, static_cast<std::uint32_t>(chunk % 8));
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
                   "r"(words[1]), "r"(words[2]), "r"(words[3])
                   : "memory");
    }
  }

  __device__ __forceinline__ void produce(const MixedOperands& o, const MixedWork& work, int thread,
                                          Position& at) const {
#pragma unroll 1
    for (int i = 0; i < work.k_count; ++i) {
      const std::int64_t k = std::int64_t{work.k_begin + i} * Config::kStageK;
      const std::uint32_t to = stages + at.stage * Config::kStageBytes;
      if (thread == 0) {
        ptx::barrier_wait(empty(at.stage), at.parity);
        ptx::barrier_arrive_expect(full(at.stage), Config::kWeightBytes);
        ptx::tma_load_3d(to, &o.weights, full(at.stage), static_cast<int>(k * Config::kBits / 8),
                         work.m, work.batch * o.weight_batch_step);
      }
#pragma unroll 1
      for (int first = 0; first < Config::kTasks; first += kAtOnce) {
        Block blocks[kAtOnce];
#pragma unroll
        for (int task = 0; task < kAtOnce; ++task) {
          const int id = thread + (first + task) * 128;
          read(o, work, work.n + id % Config::kTileN, k + id / Config::kTileN * Config::kBlockK,
               blocks[task]);
        }
        if (first == 0) ptx::barrier_wait(empty(at.stage), at.parity);
#pragma unroll
        for (int task = 0; task < kAtOnce; ++task) {
          const int id = thread + (first + task) * 128;
          write(blocks[task], to + Config::kWeightBytes, id % Config::kTileN, id / Config::kTileN);
        }
      }
      ptx::fence_proxy_async();
      ptx::barrier_arrive(full(at.stage));
      at.advance();
    }
  }

  // --- consumer warpgroups -----------------------------------------------------------------------
  using Fragments = std::uint32_t[Config::kChunkSteps][4];

  static __device__ __forceinline__ std::uint32_t load_word(std::uint32_t address) {
    std::uint32_t word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
  }

  // `lines`: the thread's word of the first row's first block, not swizzled.
  template <class Words, class Scales>
  static __device__ __forceinline__ void convert(const Words& words, std::uint32_t lines,
                                                 std::uint32_t swizzle, int chunk,
                                                 const Scales& scales, Fragments& to) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t word = 0;
#pragma unroll
      for (int j = 0; j < Config::kChunkPairs; ++j) {
        const int pair = chunk * Config::kChunkPairs + j;
        if (j == 0 || pair % kPairs == 0) {
          const auto block = static_cast<std::uint32_t>(pair / kPairs);
          word = load_word(lines + half * 8 * Config::kLineBytes + (block ^ swizzle) * 16);
        }
        to[j / 2][j % 2 * 2 + half] =
            Words::bits(scales.apply(words.pair(word, pair % kPairs), half));
      }
    }
  }

  // sums = the products of the piece.
  __device__ __forceinline__ void multiply(const MixedOperands& o, const MixedWork& work,
                                           int consumer, int thread, Position& at,
                                           Sums& sums) const {
    switch (o.math) {
      case ScaleMath::none:
        return multiply_by<ScaleMath::none>(o, work, consumer, thread, at, sums);
      case ScaleMath::scale:
        return multiply_by<ScaleMath::scale>(o, work, consumer, thread, at, sums);
      case ScaleMath::scale_zero:
        return multiply_by<ScaleMath::scale_zero>(o, work, consumer, thread, at, sums);
      case ScaleMath::wide:
        return multiply_by<ScaleMath::wide>(o, work, consumer, thread, at, sums);
    }
  }

 private:
  template <ScaleMath kMath>
  __device__ __forceinline__ void multiply_by(const MixedOperands& o, const MixedWork& work,
                                              int consumer, int thread, Position& at,
                                              Sums& sums) const {
    const int lane = thread % 32;
    const auto group = static_cast<std::uint32_t>(lane / 4);
    const int row = consumer * 64 + thread / 32 * 16 + static_cast<int>(group);
    constexpr int kLine = Config::kLineBytes;
    const std::uint32_t swizzle = kLine == 128  ? group
                                  : kLine == 64 ? group >> 1
                                  : kLine == 32 ? group >> 2
                                                : 0;
    const typename Config::Words words(o.code);
    MixedScales<Config, kMath> scales(o, work.m + row, work.k_begin * Config::kStageK);
#pragma unroll
    for (float& sum : sums) sum = 0;
    Fragments fragments[2];
    int in_flight = -1;
#pragma unroll 1
    for (int i = 0; i < work.k_count; ++i) {
      const std::uint32_t from = stages + at.stage * Config::kStageBytes;
      const std::uint32_t lines = from + row * kLine + lane % 4 * 4;
      const std::uint64_t wide = wgmma_descriptor<128>(from + Config::kWeightBytes);
      ptx::barrier_wait(full(at.stage), at.parity);
#pragma unroll
      for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
        if (chunk * Config::kChunkK % Config::kScaleK == 0)
          scales.advance((work.k_begin + i) * Config::kStageK + chunk * Config::kChunkK);
        convert(words, lines, swizzle, chunk, scales, fragments[chunk % 2]);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < Config::kChunkSteps; ++step) {
          const int at_step = Config::kChunkSteps * chunk + step;
          const std::uint64_t b =
              moved_descriptor(wide, at_step / 4 * (Config::kTileN * 128 / 16) + at_step % 4 * 2);
          Mma::issue(sums, fragments[chunk % 2][step], b);
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
        if (chunk == 0 && in_flight >= 0 && lane == 0) ptx::barrier_arrive(empty(in_flight));
      }
      in_flight = at.stage;
      at.advance();
    }
    ptx::wgmma_wait<0>();
    if (in_flight >= 0 && lane == 0) ptx::barrier_arrive(empty(in_flight));
  }
};

}  // namespace gemm_core

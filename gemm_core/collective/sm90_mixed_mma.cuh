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
  // A thread's share of a stage: kRows rows 128 apart, kBlocks blocks of k of each, kStep apart.
  static constexpr int kThreadRows = Config::kTileN < 128 ? Config::kTileN : 128;
  static constexpr int kRows = Config::kTileN / kThreadRows, kStep = 128 / kThreadRows;
  static constexpr int kBlocks = Config::kTasks / kRows;
  static constexpr int kSpanBlocks = 8 / kPairs;  // in 128 bytes
  static_assert(kRows * kBlocks == Config::kTasks && (kRows > 1 || kStep % kSpanBlocks == 0));
  // Blocks that a thread has under way twice over: as many as its registers hold.
  static constexpr int kAtOnce = Config::kTasks * kPairs <= 8 ? Config::kTasks : 8 / kPairs;
  static constexpr int kBatches = Config::kTasks / kAtOnce;
  static_assert(kBatches * kAtOnce == Config::kTasks);

  struct Block {
    uint4 vectors[kPairs];  // 8 elements each
  };

  struct Producer {
    const std::uint16_t* from[kRows];  // of the next stage to be read; null: no such row
    int left;                          // of k, from there on
    std::uint32_t base, swizzle;       // of the first block in a stage's activations

    __device__ __forceinline__ Producer(const MixedOperands& o, const MixedWork& work, int thread) {
      const int row = thread % kThreadRows, block = thread / kThreadRows;
      const int k = work.k_begin * Config::kStageK + block * Config::kBlockK;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const std::int64_t at = work.n + row + r * kThreadRows;
        from[r] = at < o.wide_rows
                      ? static_cast<const std::uint16_t*>(o.wide) +
                            work.batch * o.wide_batch_stride + at * o.wide_row_stride + k
                      : nullptr;
      }
      left = o.k - k;
      base = static_cast<std::uint32_t>(block / kSpanBlocks * (Config::kTileN * 128) + row * 128);
      swizzle = static_cast<std::uint32_t>((block % kSpanBlocks * kPairs) ^ (row & 7));
    }

    // Blocks [first, first + kAtOnce) of the share.
    __device__ __forceinline__ void read(int first, Block (&blocks)[kAtOnce]) const {
      const bool is_inside = left >= ((kBlocks - 1) * kStep + 1) * Config::kBlockK;
#pragma unroll
      for (int task = 0; task < kAtOnce; ++task) {
        const int r = (first + task) % kRows,
                  offset = (first + task) / kRows * kStep * Config::kBlockK;
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          blocks[task].vectors[i] = uint4{};
          if (from[r] == nullptr) continue;
          const std::uint16_t* const at = from[r] + offset + 8 * i;
          if (is_inside || offset + 8 * (i + 1) <= left)
            blocks[task].vectors[i] = __ldg(reinterpret_cast<const uint4*>(at));
          else if (offset + 8 * i < left)
            blocks[task].vectors[i] = first_of(at, left - offset - 8 * i);
        }
      }
    }
    __device__ __forceinline__ void advance() {
#pragma unroll
      for (int r = 0; r < kRows; ++r) from[r] += from[r] == nullptr ? 0 : Config::kStageK;
      left -= Config::kStageK;
    }
    __device__ __forceinline__ void write(std::uint32_t to, int first,
                                          const Block (&blocks)[kAtOnce]) const {
#pragma unroll
      for (int task = 0; task < kAtOnce; ++task) {
        const int r = (first + task) % kRows, block = (first + task) / kRows * kStep;
        turn(blocks[task],
             to + base + r * (kThreadRows * 128) + block / kSpanBlocks * (Config::kTileN * 128),
             swizzle ^ static_cast<std::uint32_t>(block % kSpanBlocks * kPairs));
      }
    }
  };

  // The first `count` of eight elements, zeros after them. Once a row: kept out of the loop.
  static __device__ __noinline__ uint4 first_of(const std::uint16_t* from, int count) {
    std::uint32_t words[4] = {};
#pragma unroll
    for (int x = 0; x < 8; ++x) {
      if (x < count) words[x / 2] |= std::uint32_t{from[x]} << 16 * (x % 2);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
  // Element e of a block and its neighbour as 32 bits.
  static __device__ __forceinline__ std::uint32_t pair_at(const Block& block, int e) {
    const uint4& v = block.vectors[e / 8];
    const int word = e / 2 % 4;
    return word == 0 ? v.x : word == 1 ? v.y : word == 2 ? v.z : v.w;
  }
  // Written as narrow_words.cuh says, to the row at `row`; chunks are permuted by `swizzle`.
  static __device__ __forceinline__ void turn(const Block& block, std::uint32_t row,
                                              std::uint32_t swizzle) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      std::uint32_t words[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int low = 2 * q * kPairs + i, high = (2 * q + 1) * kPairs + i;
        words[q] =
            __byte_perm(pair_at(block, low), pair_at(block, high), i % 2 == 0 ? 0x5410 : 0x7632);
      }
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(row + (swizzle ^ i) * 16),
                   "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                   : "memory");
    }
  }

  // What is read next is under way while what was read before is written.
  __device__ __forceinline__ void produce(const MixedOperands& o, const MixedWork& work, int thread,
                                          Position& at) const {
    Producer producer(o, work, thread);
    Block blocks[2][kAtOnce];
    producer.read(0, blocks[0]);
#pragma unroll 1
    for (int i = 0; i < work.k_count; ++i) {
      const std::uint32_t to = stages + at.stage * Config::kStageBytes;
      if (thread == 0) {
        ptx::barrier_wait(empty(at.stage), at.parity);
        ptx::barrier_arrive_expect(full(at.stage), Config::kWeightBytes);
        ptx::tma_load_3d(to, &o.weights, full(at.stage),
                         (work.k_begin + i) * (Config::kStageK / 8) * Config::kBits, work.m,
                         work.batch * o.weight_batch_step);
      }
#pragma unroll
      for (int batch = 0; batch < kBatches; ++batch) {
        if (batch + 1 < kBatches) {
          producer.read((batch + 1) * kAtOnce, blocks[(batch + 1) % 2]);
        } else {
          producer.advance();
          if (i + 1 < work.k_count) producer.read(0, blocks[kBatches % 2]);
        }
        if (batch == 0) ptx::barrier_wait(empty(at.stage), at.parity);
        producer.write(to + Config::kWeightBytes, batch * kAtOnce, blocks[batch % 2]);
      }
      if constexpr (kBatches % 2 != 0) {
#pragma unroll
        for (int task = 0; task < kAtOnce; ++task) blocks[0][task] = blocks[1][task];
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

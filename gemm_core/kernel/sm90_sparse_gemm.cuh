// Products with a 2:4 structured sparse A on Hopper: persistent blocks, a producer thread and two
// consumer warpgroups of 64 rows each, tiles of 128 x 128. A stage is 128 columns of A: 64 stored
// ones, a row of 128 bytes, and two spans of B. Metadata goes from memory to registers, a stage
// ahead.
#pragma once
#include "gemm_core/atom/sm90_sparse_wgmma.cuh"
#include "gemm_core/epilogue/cuda/sm90_dense_store.cuh"
#include "gemm_core/kernel/sm90_gemm.cuh"

namespace gemm_core {

struct Sm90SparseParams {
  Sm90GemmProblem problem;  // a: [m][k / 2], b: [n][k]
  kernel::TileOrder order;
  const std::uint8_t* metadata = nullptr;  // rows aligned to 16 bytes
  std::int64_t metadata_pitch = 0;
  int m = 0, k = 0;
};

template <class Element_>
struct Sm90SparseConfig {
  using Element = Element_;
  using Mma = Sm90SparseWgmma<Element>;
  static constexpr int kTileM = 128, kTileN = 128, kStageK = 128, kStages = 4;
  static constexpr int kConsumers = 2, kThreads = (kConsumers + 1) * 128;
  static constexpr int kSpanBytes = 128, kSpanB = kTileN * kSpanBytes;  // 64 columns of k
  static constexpr int kStageBytesA = kTileM * kSpanBytes, kStageBytesB = 2 * kSpanB;
  static constexpr int kStageBytes = kStageBytesA + kStageBytesB;
  static constexpr int kStoreBytes = 16384;
  static constexpr int kSharedBytes =
      1024 + kStages * (kStageBytes + 16) + kConsumers * kStoreBytes;
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
  static_assert(kSharedBytes <= 227 * 1024);
};

// Metadata of 128 columns of a thread's two rows.
struct SparseMetadata {
  uint4 low, high;

  // Columns from k on; (0, 1) is kept where there are no columns, or no row.
  static __device__ __forceinline__ uint4 load(const Sm90SparseParams& p, int row, int k) {
    constexpr std::uint32_t kFirstTwo = 0x44444444u;
    uint4 v{kFirstTwo, kFirstTwo, kFirstTwo, kFirstTwo};
    if (row >= p.m || k >= p.k) return v;
    v = __ldg(reinterpret_cast<const uint4*>(p.metadata + row * p.metadata_pitch + k / 8));
    const int groups = (p.k - k) / 4;  // of this row, from here on
    if (groups >= 32) return v;
    std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int left = groups - 8 * i;
      const std::uint32_t mask = left >= 8 ? ~0u : left <= 0 ? 0u : (1u << 4 * left) - 1;
      words[i] = (words[i] & mask) | (kFirstTwo & ~mask);
    }
    return {words[0], words[1], words[2], words[3]};
  }
  __device__ __forceinline__ void load_rows(const Sm90SparseParams& p, int row, int k) {
    low = load(p, row, k);
    high = load(p, row + 8, k);
  }
  // What the thread hands to product `step` of the stage.
  __device__ __forceinline__ std::uint32_t of(int step, int thread) const {
    const std::uint32_t a = step == 0 ? low.x : step == 1 ? low.y : step == 2 ? low.z : low.w;
    const std::uint32_t b = step == 0 ? high.x : step == 1 ? high.y : step == 2 ? high.z : high.w;
    return __byte_perm(a, b, thread % 2 == 0 ? 0x5410 : 0x7632);
  }
};

// A thread's metadata of the four products of a stage.
struct SparseBits {
  std::uint32_t words[4];
  // The registers are in use up to here.
  __device__ __forceinline__ void hold() const {
    asm volatile("" ::"r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
  }
};

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    sm90_sparse_gemm(const __grid_constant__ Sm90SparseParams params) {
  using Mma = typename Config::Mma;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t stages = (ptx::shared_address(shared) + 1023) & ~1023u;
  const std::uint32_t rooms = stages + Config::kStages * Config::kStageBytes;
  const std::uint32_t barriers = rooms + Config::kConsumers * Config::kStoreBytes;
  const auto full = [&](int stage) { return barriers + 8 * stage; };
  const auto empty = [&](int stage) { return barriers + 8 * (Config::kStages + stage); };
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
  const Sm90GemmProblem& problem = params.problem;

  if (threadIdx.x == 0) {
    for (int i = 0; i < Config::kStages; ++i) {
      ptx::barrier_init(full(i), 1);
      ptx::barrier_init(empty(i), Config::kConsumers * 4);
    }
    ptx::barrier_init_fence();
  }
  __syncthreads();

  int stage = 0;
  std::uint32_t parity = 0;
  const auto advance = [&] {
    if (++stage < Config::kStages) return;
    stage = 0;
    parity ^= 1;
  };
  if (group == Config::kConsumers) {
    ptx::release_registers_to<Config::kProducerRegisters>();
    if (thread != 0) return;
    parity = 1;
    for (std::uint32_t i = blockIdx.x; i < params.order.count(); i += gridDim.x) {
      const kernel::TileCoord tile = params.order.tile(i);
      const int m = static_cast<int>(tile.m) * Config::kTileM;
      const int n = static_cast<int>(tile.n) * Config::kTileN;
#pragma unroll 1
      for (int s = 0; s < problem.k_stages; ++s) {
        ptx::barrier_wait(empty(stage), parity);
        ptx::barrier_arrive_expect(full(stage), Config::kStageBytes);
        const std::uint32_t to = stages + stage * Config::kStageBytes;
        const int k = s * Config::kStageK;
        ptx::tma_load_3d(to, &problem.a, full(stage), k / 2, m, 0);
#pragma unroll
        for (int span = 0; span < 2; ++span) {
          ptx::tma_load_3d(to + Config::kStageBytesA + span * Config::kSpanB, &problem.b,
                           full(stage), k + 64 * span, n, 0);
        }
        advance();
      }
    }
    return;
  }

  ptx::claim_registers_to<Config::kConsumerRegisters>();
  float sums[Mma::kAccumulators];
  for (std::uint32_t i = blockIdx.x; i < params.order.count(); i += gridDim.x) {
    const kernel::TileCoord tile = params.order.tile(i);
    const int m = static_cast<int>(tile.m) * Config::kTileM + group * 64;
    const int n = static_cast<int>(tile.n) * Config::kTileN;
    const int row = m + thread / 32 * 16 + thread % 32 / 4;
    SparseMetadata metadata;
    metadata.load_rows(params, row, 0);
    int in_flight = -1;
    // Products read their metadata while they run: those of two stages take turns in two sets of
    // registers, each of which is held until its products are done.
    SparseBits even{}, odd{};
    const auto multiply = [&](int s, SparseBits& mine, const SparseBits& before) {
#pragma unroll
      for (int step = 0; step < 4; ++step) mine.words[step] = metadata.of(step, thread);
      metadata.load_rows(params, row, (s + 1) * Config::kStageK);
      ptx::barrier_wait(full(stage), parity);
      const std::uint32_t from = stages + stage * Config::kStageBytes;
      const std::uint64_t a = wgmma_descriptor<128>(from + group * 64 * Config::kSpanBytes);
      const std::uint64_t b = wgmma_descriptor<128>(from + Config::kStageBytesA);
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        Mma::issue(sums, moved_descriptor(a, step * 2),
                   moved_descriptor(b, step / 2 * (Config::kSpanB >> 4) + step % 2 * 4),
                   mine.words[step], step == 0 ? s > 0 : 1);
      }
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      before.hold();
      if (in_flight >= 0 && thread % 32 == 0) ptx::barrier_arrive(empty(in_flight));
      in_flight = stage;
      advance();
    };
#pragma unroll 1
    for (int s = 0; s < problem.k_stages; s += 2) {
      multiply(s, even, odd);
      if (s + 1 < problem.k_stages) multiply(s + 1, odd, even);
    }
    ptx::wgmma_wait<0>();
    even.hold();
    odd.hold();
    if (in_flight >= 0 && thread % 32 == 0) ptx::barrier_arrive(empty(in_flight));
    const Sm90DenseStore<float, Mma::kAccumulators> store{
        problem.epilogue, &problem.d, problem.mode, rooms + group * Config::kStoreBytes,
        thread,           1 + group};
    store.store(sums, m, n, 0);
  }
  if (thread == 0) ptx::bulk_wait_all();
}

}  // namespace gemm_core

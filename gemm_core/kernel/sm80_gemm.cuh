// Products by mma.sync, for GPUs from sm_80 on and for whatever the faster kernels of an
// architecture do not take: 128 x 128 tiles, eight warps of 64 x 32, three stages of 64 bytes of k.
// Operands that lie as they are multiplied, rows aligned to 16 bytes, are copied by cp.async; all
// others are read element by element, converted and left in the same place.
#pragma once
#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/atom/sm80_mma.cuh"
#include "gemm_core/collective/cuda_operand_loads.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

struct Sm80GemmParams {
  DenseOperand a, b;
  std::int64_t k = 0;
  kernel::TileOrder order;
  DenseEpilogue epilogue;
};

template <class Element_>
struct Sm80GemmConfig {
  using Element = Element_;
  using Mma = Sm80Mma<Element>;
  using Sum = typename Mma::Sum;
  static constexpr int kTileM = 128, kTileN = 128, kThreads = 256, kStages = 3;
  static constexpr int kElementBytes = static_cast<int>(sizeof(Element));
  static constexpr int kSpanBytes = 64, kStageK = kSpanBytes / kElementBytes;
  // 8 rows of a matrix fall into different banks.
  static constexpr int kPitch = kSpanBytes + 16;
  static constexpr int kOperandBytes = kTileM * kPitch, kStageBytes = 2 * kOperandBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static constexpr int kSumPitch = kTileN + 4;  // of the sums on their way out, 64 rows at a time
  static_assert(64 * kSumPitch * 4 <= kSharedBytes && kTileM == kTileN);
};

template <class Config>
struct Sm80Stage {
  using Element = typename Config::Element;
  static constexpr int kPerChunk = 16 / Config::kElementBytes;

  using Bits =
      std::conditional_t<sizeof(Element) == 1, std::uint8_t,
                         std::conditional_t<sizeof(Element) == 2, std::uint16_t, std::uint32_t>>;

  static __device__ __forceinline__ std::uint32_t converted_bits(const DenseOperand& o,
                                                                 const void* data,
                                                                 std::int64_t at) {
    if constexpr (std::is_same_v<Element, std::int8_t>)
      return static_cast<std::uint8_t>(converted_operand<std::int32_t>(o, data, at));
    else if constexpr (std::is_same_v<Element, base::tf32_t>)
      return __float_as_uint(converted_operand<float>(o, data, at));
    else
      return DeviceElement<Element>::pack(converted_operand<float>(o, data, at), 0.f) & 0xffffu;
  }

  // 16 bytes of `o` to shared memory, from element k of `row` on; zeros where there are none.
  static __device__ __forceinline__ void convert(const DenseOperand& o, const void* data,
                                                 std::int64_t row, std::int64_t k,
                                                 std::int64_t k_count, std::int64_t batch,
                                                 std::uint32_t to) {
    std::uint32_t words[4] = {};
    const std::int64_t first = o.offset_of(row, k, batch);
    const std::int64_t left = row < o.rows ? k_count - k : 0;
    constexpr int kPerWord = kPerChunk / 4;
    if (o.is_plain) {
#pragma unroll
      for (int i = 0; i < kPerChunk; ++i) {
        if (i >= left) continue;
        const Bits bits = static_cast<const Bits*>(data)[first + i * o.k_stride];
        words[i / kPerWord] |= static_cast<std::uint32_t>(bits)
                               << 8 * Config::kElementBytes * (i % kPerWord);
      }
    } else {
#pragma unroll
      for (int w = 0; w < 4; ++w) {
#pragma unroll 1
        for (int i = 0; i < kPerWord; ++i) {
          const int at = w * kPerWord + i;
          if (at < left)
            words[w] |= converted_bits(o, data, first + at * o.k_stride)
                        << 8 * Config::kElementBytes * i;
        }
      }
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
  }

  static __device__ __forceinline__ void fill(const DenseOperand& o, const void* data,
                                              std::int64_t first, std::int64_t k,
                                              std::int64_t k_count, std::int64_t batch,
                                              std::uint32_t to) {
    constexpr int kChunks = Config::kSpanBytes / 16;
#pragma unroll
    for (int i = 0; i < Config::kTileM * kChunks / Config::kThreads; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * Config::kThreads;
      // Neighbouring threads read neighbouring memory.
      const int row = o.k_stride == 1 ? at / kChunks : at % Config::kTileM;
      const int chunk = o.k_stride == 1 ? at % kChunks : at / Config::kTileM;
      const std::uint32_t target = to + row * Config::kPitch + chunk * 16;
      const std::int64_t k_at = k + chunk * kPerChunk;
      if (o.vectors) {
        const std::int64_t left = first + row < o.rows ? k_count - k_at : 0;
        const int bytes = left >= kPerChunk ? 16
                          : left > 0        ? static_cast<int>(left) * Config::kElementBytes
                                            : 0;
        const std::int64_t offset = bytes > 0 ? o.offset_of(first + row, k_at, batch) : 0;
        ptx::copy_16_partly(target, static_cast<const char*>(data) + offset * Config::kElementBytes,
                            bytes);
      } else {
        convert(o, data, first + row, k_at, k_count, batch, target);
      }
    }
  }
};

template <class Element>
__global__ void __launch_bounds__(256, 2) sm80_gemm(const __grid_constant__ Sm80GemmParams params) {
  using Config = Sm80GemmConfig<Element>;
  using Stage = Sm80Stage<Config>;
  using Sum = typename Config::Sum;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t stages = ptx::shared_address(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_m = warp / 4 * 64, warp_n = warp % 4 * 32;
  // ldmatrix: lane l gives a row of matrix l / 8; A: (rows, k), (rows + 8, k), (rows, k + 16
  // bytes),
  // ...; B: (columns, k), (columns, k + 16 bytes), (columns + 8, k), ...
  const std::uint32_t lane_a = (warp_m + lane % 16) * Config::kPitch + lane / 16 * 16;
  const std::uint32_t lane_b = Config::kOperandBytes +
                               (warp_n + lane / 16 * 8 + lane % 8) * Config::kPitch +
                               lane / 8 % 2 * 16;

  for (std::uint32_t index = blockIdx.x; index < params.order.count(); index += gridDim.x) {
    const kernel::TileCoord tile = params.order.tile(index);
    const std::int64_t m = std::int64_t{tile.m} * Config::kTileM;
    const std::int64_t n = std::int64_t{tile.n} * Config::kTileN;
    const void* const a = params.a.data_of(tile.batch);
    const void* const b = params.b.data_of(tile.batch);
    const std::int64_t slices = (params.k + Config::kStageK - 1) / Config::kStageK;
    const auto fill = [&](std::int64_t slice) {
      if (slice < slices) {
        const std::uint32_t to = stages + slice % Config::kStages * Config::kStageBytes;
        Stage::fill(params.a, a, m, slice * Config::kStageK, params.k, tile.batch, to);
        Stage::fill(params.b, b, n, slice * Config::kStageK, params.k, tile.batch,
                    to + Config::kOperandBytes);
      }
      ptx::commit_copies();
    };

    Sum sums[4][4][4] = {};
    for (int i = 0; i < Config::kStages - 1; ++i) fill(i);
#pragma unroll 1
    for (std::int64_t slice = 0; slice < slices; ++slice) {
      ptx::wait_copies<Config::kStages - 2>();
      __syncthreads();
      fill(slice + Config::kStages - 1);
      const std::uint32_t from = stages + slice % Config::kStages * Config::kStageBytes;
#pragma unroll
      for (int k = 0; k < Config::kSpanBytes; k += 32) {
        std::uint32_t x[4][4], y[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          ptx::load_matrices(x[i], from + lane_a + i * 16 * Config::kPitch + k);
#pragma unroll
        for (int j = 0; j < 2; ++j)
          ptx::load_matrices(y[j], from + lane_b + j * 16 * Config::kPitch + k);
        if constexpr (std::is_same_v<Element, base::tf32_t>) {
          const auto round = [](std::uint32_t& v) {
            v = __float_as_uint(round_tf32(__uint_as_float(v)));
          };
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int w = 0; w < 4; ++w) {
              round(x[i][w]);
              if (i < 2) round(y[i][w]);
            }
          }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const std::uint32_t pair[2] = {y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]};
            Config::Mma::multiply(sums[i][j], x[i], pair);
          }
        }
      }
    }
    ptx::wait_all_copies();

    // Results: the rows of one half of the warps at a time.
    Sum* const out = reinterpret_cast<Sum*>(shared);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      __syncthreads();
      if (warp_m == half * 64) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {
              const int r = i * 16 + lane / 4 + v / 2 * 8;
              out[r * Config::kSumPitch + warp_n + j * 8 + lane % 4 * 2 + v % 2] = sums[i][j][v];
            }
          }
        }
      }
      __syncthreads();
      constexpr int kRuns = Config::kTileN / kDenseRun;
      for (int i = static_cast<int>(threadIdx.x); i < 64 * kRuns; i += Config::kThreads) {
        const int r = params.epilogue.rows_first ? i % 64 : i / kRuns;
        const int run = params.epilogue.rows_first ? i / 64 : i % kRuns;
        Sum values[kDenseRun];
#pragma unroll
        for (int v = 0; v < kDenseRun; ++v)
          values[v] = out[r * Config::kSumPitch + run * kDenseRun + v];
        finish_run(params.epilogue, m + half * 64 + r, n + run * kDenseRun, tile.batch, values);
      }
    }
    __syncthreads();
  }
}

}  // namespace gemm_core

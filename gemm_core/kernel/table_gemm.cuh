// Products of operands found by tables (im2col views, contractions, 2:4, gathered elements), of any
// type: by mma.sync on 128 x 128 tiles, 16 bytes at a time by cp.async where tables allow it, and
// without tensor cores on 64 x 64 tiles.
#pragma once
#include "gemm_core/collective/sm80_warp_tile.cuh"
#include "gemm_core/epilogue/cuda/table_store.cuh"
#include "gemm_core/kernel/tile_order.hpp"

namespace gemm_core {

struct TableGemmParams {
  TableView a, b;  // lines: rows of A, columns of B
  std::int64_t k = 0;
  kernel::TileOrder order;
  TableEpilogue epilogue;
  const TableBatch* batches = nullptr;  // device memory, one a batch of the tile order
};

template <class Config>
struct Sm80TableStage {
  using Element = typename Config::Element;
  static constexpr int kPerChunk = 16 / Config::kElementBytes;
  static constexpr int kChunks = Config::kSpanBytes / 16;

  static __device__ __forceinline__ std::uint32_t bits_of(const TableView& v, const void* data,
                                                          std::int64_t at) {
    if constexpr (std::is_same_v<Element, std::int8_t>)
      return static_cast<std::uint8_t>(table_value<std::int32_t>(v, data, at));
    else if constexpr (std::is_same_v<Element, base::tf32_t>)
      return __float_as_uint(table_value<float>(v, data, at));
    else
      return DeviceElement<Element>::pack(table_value<float>(v, data, at), 0.f) & 0xffffu;
  }

  static __device__ __forceinline__ void convert(const TableView& v, const TableData& data,
                                                 const TableLine& line, std::int64_t k,
                                                 std::int64_t k_count, std::uint32_t to) {
    if constexpr (Config::kIsDouble) {
#pragma unroll
      for (int i = 0; i < kPerChunk; ++i) {
        const std::int64_t at =
            k + i < k_count ? find_element(v, data.slots, line, k + i) : kAbsent;
        const double x = at == kAbsent ? 0.0 : static_cast<const double*>(data.data)[at];
        asm volatile("st.shared.f64 [%0], %1;" ::"r"(to + 8 * i), "d"(x) : "memory");
      }
    } else {
      constexpr int kPerWord = kPerChunk < 4 ? 1 : kPerChunk / 4;
#pragma unroll 1
      for (int w = 0; w < 4; ++w) {
        std::uint32_t word = 0;
#pragma unroll
        for (int i = 0; i < kPerWord; ++i) {
          const std::int64_t at_k = k + w * kPerWord + i;
          const std::int64_t at =
              at_k < k_count ? find_element(v, data.slots, line, at_k) : kAbsent;
          if (at != kAbsent) word |= bits_of(v, data.data, at) << 8 * Config::kElementBytes * i;
        }
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + 4 * w), "r"(word) : "memory");
      }
    }
  }

  static __device__ __forceinline__ void fill(const TableView& v, const TableData& data,
                                              std::int64_t first, std::int64_t k,
                                              std::int64_t k_count, std::uint32_t to) {
#pragma unroll 1
    for (int i = 0; i < Config::kTileM * kChunks / Config::kThreads; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * Config::kThreads;
      const int row = v.k_fastest ? at / kChunks : at % Config::kTileM;
      const int chunk = v.k_fastest ? at % kChunks : at / Config::kTileM;
      const std::uint32_t target = to + row * Config::kPitch + chunk * 16;
      const std::int64_t k_at = k + chunk * kPerChunk;
      const TableLine line = find_line(v, first + row);
      if (v.vectors) {  // then k_count is a multiple of a chunk
        const std::int64_t offset =
            k_at < k_count ? find_element(v, data.slots, line, k_at) : kAbsent;
        const auto* const from = static_cast<const char*>(data.data);
        ptx::copy_16_partly(target,
                            offset == kAbsent ? from : from + offset * Config::kElementBytes,
                            offset == kAbsent ? 0 : 16);
      } else {
        convert(v, data, line, k_at, k_count, target);
      }
    }
  }
};

template <class Element>
__global__ void __launch_bounds__(256, 1)
    sm80_table_gemm(const __grid_constant__ TableGemmParams params) {
  using Config = Sm80GemmConfig<Element>;
  using Stage = Sm80TableStage<Config>;
  using Sum = typename Config::Sum;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t stages = ptx::shared_address(shared);
  const auto warp_tile = Sm80WarpTile<Config>::own();

  for (std::uint32_t index = blockIdx.x; index < params.order.count(); index += gridDim.x) {
    const kernel::TileCoord tile = params.order.tile(index);
    const std::int64_t m = std::int64_t{tile.m} * Config::kTileM;
    const std::int64_t n = std::int64_t{tile.n} * Config::kTileN;
    const TableBatch batch = params.batches[tile.batch];
    const std::int64_t slices = (params.k + Config::kStageK - 1) / Config::kStageK;

    Sum sums[4][4][4] = {};
    sm80_multiply<Config>(
        stages, slices, warp_tile, sums, [&](std::int64_t slice, std::uint32_t to) {
          Stage::fill(params.a, batch.a, m, slice * Config::kStageK, params.k, to);
          Stage::fill(params.b, batch.b, n, slice * Config::kStageK, params.k,
                      to + Config::kOperandBytes);
        });

    // Results: the rows of one half of the warps at a time.
    Sum* const out = reinterpret_cast<Sum*>(shared);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      __syncthreads();
      warp_tile.store_half(half, sums, out);
      __syncthreads();
      constexpr int kRuns = Config::kTileN / kDenseRun;
#pragma unroll 1
      for (int i = static_cast<int>(threadIdx.x); i < 64 * kRuns; i += Config::kThreads) {
        const int r = i / kRuns, run = i % kRuns;
        const std::int64_t row = m + half * 64 + r, column = n + run * kDenseRun;
        if (row >= params.a.lines || column >= params.epilogue.n) continue;
        Sum values[kDenseRun];
#pragma unroll
        for (int v = 0; v < kDenseRun; ++v)
          values[v] = out[r * Config::kSumPitch + run * kDenseRun + v];
        const std::int64_t left = params.epilogue.n - column;
        store_table_run(params.epilogue, batch, row, column,
                        left < kDenseRun ? static_cast<int>(left) : kDenseRun, values);
      }
    }
    __syncthreads();
  }
}

struct SimtTableTile {
  static constexpr int kM = 64, kN = 64, kK = 16, kThreads = 256;
  static constexpr int kEach = kM * kK / kThreads;
};

// A thread's part of a slice of an operand.
template <class Value>
__device__ __forceinline__ void load_table_slice(
    const TableView& v, const TableData& data, std::int64_t first, std::int64_t k,
    std::int64_t k_count, Value (&to)[SimtTableTile::kK][SimtTableTile::kM]) {
  using Tile = SimtTableTile;
#pragma unroll
  for (int i = 0; i < Tile::kEach; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
    const int row = v.k_fastest ? at / Tile::kK : at % Tile::kM;
    const int column = v.k_fastest ? at % Tile::kK : at / Tile::kM;
    std::int64_t offset = kAbsent;
    if (k + column < k_count)
      offset = find_element(v, data.slots, find_line(v, first + row), k + column);
    to[column][row] = offset == kAbsent ? Value{} : table_value<Value>(v, data.data, offset);
  }
}

template <class Value>
__global__ void __launch_bounds__(SimtTableTile::kThreads)
    simt_table_gemm(const __grid_constant__ TableGemmParams params) {
  using Tile = SimtTableTile;
  __shared__ Value slice_a[Tile::kK][Tile::kM], slice_b[Tile::kK][Tile::kN];
  const int row = static_cast<int>(threadIdx.x) / 16 * 4;
  const int column = static_cast<int>(threadIdx.x) % 16 * 4;

  for (std::uint32_t index = blockIdx.x; index < params.order.count(); index += gridDim.x) {
    const kernel::TileCoord tile = params.order.tile(index);
    const std::int64_t m = std::int64_t{tile.m} * Tile::kM, n = std::int64_t{tile.n} * Tile::kN;
    const TableBatch batch = params.batches[tile.batch];
    Value sums[4][4] = {};
#pragma unroll 1
    for (std::int64_t k = 0; k < params.k; k += Tile::kK) {
      __syncthreads();
      load_table_slice(params.a, batch.a, m, k, params.k, slice_a);
      load_table_slice(params.b, batch.b, n, k, params.k, slice_b);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < Tile::kK; ++i) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
          for (int c = 0; c < 4; ++c)
            sums[r][c] = sums[r][c] + slice_a[i][row + r] * slice_b[i][column + c];
        }
      }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const std::int64_t left = params.epilogue.n - n - column;
      if (m + row + r >= params.a.lines || left <= 0) continue;
      Value run[kDenseRun] = {};
#pragma unroll
      for (int c = 0; c < 4; ++c) run[c] = sums[r][c];
      store_table_run(params.epilogue, batch, m + row + r, n + column,
                      left < 4 ? static_cast<int>(left) : 4, run);
    }
    __syncthreads();
  }
}

}  // namespace gemm_core

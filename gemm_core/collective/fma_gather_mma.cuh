// Products of the gathered GEMM by fp32 FMA, exact to the last rounding of each: the same stages as
// the matrix cores' mainloop (sm90_gather_mma.cuh fills them), multiplied by threads that hold 8
// rows times 4 to 8 columns each.
//
// A warp holds 64 rows; its lanes form 8 x 4: lane bits 3..1 number rows, bits 4 and 0 columns.
// Then neighbours by bit 0 read the same chunk of A and neighbours by bit 1 the same of B, which
// lets shared memory serve 16 lanes of a 128-bit load at once, and the 8 (or 2) chunks that 16
// lanes ask for lie in different banks by the 128-byte swizzle. 256 FMA for 16 loads: the loads
// take half of what shared memory can do.
//
// What bounds the loop is the register file: it has two banks, by the lowest bit of a register's
// number, each read once a cycle. Rows of both operands are channels, so the factors of a channel
// and half of the sums stand in one bank, and two of five FMA take a cycle more
// (docs/performance_gpu.md).
#pragma once
#include "gemm_core/collective/sm90_gather_mma.cuh"

namespace gemm_core {

// Columns of a thread: whole quads first, 16 columns of the warp apart, then a pair.
template <int kColumns>
struct FmaColumns {
  static_assert(kColumns == 4 || kColumns == 6 || kColumns == 8);
  static constexpr int kQuads = kColumns / 4;
  static constexpr bool kHasPair = kColumns % 4 != 0;
};

template <Sm90Tile kTile, int kThreadColumns_>
struct FmaGatherConfig : Sm90GatherConfig<float, kTile> {
  using Base = Sm90GatherConfig<float, kTile>;
  static constexpr int kThreadRows = 8, kThreadColumns = kThreadColumns_;
  static constexpr int kWarpColumns = 4 * kThreadColumns;
  static constexpr int kColumnWarps = Base::kTileN / kWarpColumns;
  // Where the columns leave warps over, two warps share them and take half of the channels each.
  static constexpr int kSplits = 4 / kColumnWarps;
  static constexpr int kStoredRows = kThreadRows / kSplits;
  static constexpr int kExchangeOffset = Base::kStages * (Base::kStageBytes + 16);
  static constexpr int kExchangeBytes =
      kSplits == 1 ? 0 : 4 * 32 * kStoredRows * kThreadColumns * static_cast<int>(sizeof(float));
  static constexpr int kSharedBytes = Base::kSharedBytes + kExchangeBytes;
  struct Mma {
    using Sum = float;
    static constexpr int kAccumulators = kThreadRows * kThreadColumns;
  };

  static_assert(Base::kTileM == kSlotGroup && Base::kSpanK == 32 && Base::kSpans == 1);
  static_assert(kColumnWarps * kWarpColumns == Base::kTileN && (kSplits == 1 || kSplits == 2));
  static_assert(kSharedBytes * Base::kBlocksPerSm <= 227 * 1024,
                "stages do not fit in shared memory");
};

template <class Config>
struct FmaGatherMma {
  using Pipeline = Sm90GatherMma<Config>;
  using Columns = FmaColumns<Config::kThreadColumns>;
  static constexpr int kRows = Config::kThreadRows, kColumns = Config::kThreadColumns;
  static constexpr int kSplits = Config::kSplits, kStoredRows = Config::kStoredRows;
  static constexpr int kRowBytes = Config::kSpanBytes;
  using Accumulators = float[kRows][kColumns];

  const Pipeline& pipeline;
  char* stages;  // of the pipeline
  int warp, lane;

  __device__ __forceinline__ int row_lane() const { return (lane >> 1) & 7; }
  __device__ __forceinline__ int column_lane() const { return (lane & 1) | ((lane >> 4) << 1); }
  __device__ __forceinline__ int column_warp() const { return warp % Config::kColumnWarps; }
  __device__ __forceinline__ int split() const { return warp / Config::kColumnWarps; }
  __device__ __forceinline__ int warp_column() const {
    return column_warp() * Config::kWarpColumns;
  }

  static __device__ __forceinline__ void multiply(const float4& a, const float4 (&b)[kColumns],
                                                  float (&acc)[kColumns]) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) acc[j] = fmaf(a.x, b[j].x, acc[j]);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) acc[j] = fmaf(a.y, b[j].y, acc[j]);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) acc[j] = fmaf(a.z, b[j].z, acc[j]);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) acc[j] = fmaf(a.w, b[j].w, acc[j]);
  }

  // 16 channels of a stage: chunks 4 * half to 4 * half + 3 of every row. Chunk c of row r stands
  // at c ^ (r % 8), so that c % 4 and the thread's own bits of r part into an offset known at
  // compile time and one that is not.
  __device__ __forceinline__ void multiply_half(const char* stage, int half,
                                                Accumulators& acc) const {
    const int tx = column_lane(), ty = row_lane();
    const int a_row = ty * kRowBytes + (((4 * half) ^ ty) << 4);
    const char* const b = stage + Config::kStageBytesA + warp_column() * kRowBytes;
    const char* const b_quad = b + 4 * tx * kRowBytes + ((half ^ (tx & 1)) << 6);
    const int b_pair =
        (16 * Columns::kQuads + 2 * tx) * kRowBytes + ((half ^ (tx >> 1)) << 6) + ((tx & 1) << 5);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      float4 b_values[kColumns];
#pragma unroll
      for (int j = 0; j < 4 * Columns::kQuads; ++j) {
        b_values[j] = *reinterpret_cast<const float4*>(b_quad + (j / 4 * 16 + j % 4) * kRowBytes +
                                                       ((c ^ (j % 4)) << 4));
      }
      if constexpr (Columns::kHasPair) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          b_values[4 * Columns::kQuads + j] =
              *reinterpret_cast<const float4*>(b + (b_pair ^ ((c ^ j) << 4)) + j * kRowBytes);
        }
      }
      const char* const a = stage + (a_row ^ (c << 4));
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        multiply(*reinterpret_cast<const float4*>(a + 8 * i * kRowBytes), b_values, acc[i]);
      }
    }
  }

  // acc = the tile's sums of this thread: of all channels, or of its half of every span.
  __device__ __forceinline__ void multiply_tile(const TileRecord& tile,
                                                const GatherOperand& operand,
                                                typename Pipeline::Position& at,
                                                Accumulators& acc) const {
#pragma unroll
    for (auto& row : acc) {
#pragma unroll
      for (float& v : row) v = 0;
    }
    const int last_half = (operand.row_bytes - 1) / (kRowBytes / 2);  // with a channel in it
    for (std::uint32_t left = tile.masks[0]; left != 0; left &= left - 1) {
#pragma unroll 1
      for (int slice = 0; slice < operand.slices; ++slice) {
        ptx::barrier_wait(pipeline.full(at.stage), at.parity);
        const char* const stage = stages + at.stage * Config::kStageBytes;
        const int halves = min(2, last_half + 1 - 2 * slice);
        if constexpr (kSplits == 1) {
#pragma unroll 1
          for (int half = 0; half < halves; ++half) multiply_half(stage, half, acc);
        } else {
          if (split() < halves) multiply_half(stage, split(), acc);
        }
        __syncwarp();
        pipeline.release(at.stage, lane);
        at.advance();
      }
    }
  }

  // Two warps with the same columns add their sums, each for half of the rows: afterwards rows
  // 8 * (kStoredRows * split() + i) + row_lane() stand in acc[i].
  __device__ __forceinline__ void join_splits(Accumulators& acc) const {
    if constexpr (kSplits == 2) {
      constexpr int kValues = kStoredRows * kColumns;
      auto* const exchange = reinterpret_cast<float4*>(stages + Config::kExchangeOffset);
      float4* const mine = exchange + warp * 32 * (kValues / 4) + lane;
      const float4* const others =
          exchange + (warp ^ Config::kColumnWarps) * 32 * (kValues / 4) + lane;
      const bool is_upper = split() == 1;
#pragma unroll
      for (int i = 0; i < kStoredRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          const float lower = acc[i][j], upper = acc[kStoredRows + i][j];
          acc[i][j] = is_upper ? upper : lower;
          acc[kStoredRows + i][j] = is_upper ? lower : upper;
        }
      }
#pragma unroll
      for (int v = 0; v < kValues / 4; ++v) {
        const float* const given = acc[kStoredRows + v * 4 / kColumns] + v * 4 % kColumns;
        mine[v * 32] = make_float4(given[0], given[1], given[2], given[3]);
      }
      __barrier_sync_count(1 + column_warp(), 64);
#pragma unroll
      for (int v = 0; v < kValues / 4; ++v) {
        const float4 sum = others[v * 32];
        float* const own = acc[v * 4 / kColumns] + v * 4 % kColumns;
        own[0] += sum.x;
        own[1] += sum.y;
        own[2] += sum.z;
        own[3] += sum.w;
      }
      __barrier_sync_count(1 + column_warp(), 64);  // before the next tile's sums overwrite these
    }
  }
};

}  // namespace gemm_core

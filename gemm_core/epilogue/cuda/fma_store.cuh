// From the sums of fma_gather_mma.cuh to memory: partial sums of planes, epilogue, and whole quads
// (or pairs) of columns stored into the rows that the slots name.
#pragma once
#include "gemm_core/collective/fma_gather_mma.cuh"
#include "gemm_core/epilogue/cuda/wgmma_store.cuh"

namespace gemm_core {

// kRows rows of a thread; `entries`: what the slots say of them.
template <int kRows, int kColumns>
struct FmaStore {
  using Columns = FmaColumns<kColumns>;
  using Entries = int[kRows];
  const StoreParams& params;
  int first_column, column_lane;  // of the warp; of the thread

  // acc may have more rows than are stored.
  __device__ __forceinline__ void leave_partials(const float (*acc)[kColumns],
                                                 const Entries& entries, int plane) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (entries[i] >= 0) write(partial_row(entries[i], plane), acc[i], params.partial_pitch);
    }
  }

  __device__ __forceinline__ void add_partials(float (*acc)[kColumns],
                                               const Entries& entries) const {
#pragma unroll
    for (int plane = 0; plane < 2; ++plane) {
      const int flag = plane == 0 ? kSlotBelow : kSlotAbove;
      add_rows(acc, params.partial_pitch, [&](int i) -> const float* {
        const bool has_sum = entries[i] >= 0 && (entries[i] & flag) != 0;
        return has_sum ? partial_row(entries[i], plane) : nullptr;
      });
    }
  }

  __device__ __forceinline__ void apply_epilogue(float (*acc)[kColumns],
                                                 const Entries& entries) const {
    for (int n = 0; n < params.epilogue.count; ++n) {
      const DeviceEpilogueNode& node = params.epilogue.node[n];
      if (node.kind == EpilogueNode::Kind::scale_shift) {
        float scale[kColumns], shift[kColumns];
        read_vector(node.scale, 1.f, scale);
        read_vector(node.shift, 0.f, shift);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) acc[i][j] = fmaf(acc[i][j], scale[j], shift[j]);
        }
      } else if (node.kind == EpilogueNode::Kind::add) {
        add_rows(acc, params.columns, [&](int i) -> const float* {
          return entries[i] < 0
                     ? nullptr
                     : static_cast<const float*>(node.aux) +
                           static_cast<std::int64_t>(entries[i] & kSlotRow) * node.aux_pitch;
        });
      } else {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) acc[i][j] = piecewise_linear(acc[i][j], node.slope);
        }
      }
    }
  }

  __device__ __forceinline__ void store(const float (*acc)[kColumns],
                                        const Entries& entries) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (entries[i] < 0) continue;
      float* const row = static_cast<float*>(params.output) +
                         static_cast<std::int64_t>(entries[i] & kSlotRow) * params.output_pitch;
      write(row, acc[i], params.columns);
    }
  }

 private:
  __device__ __forceinline__ int quad(int q) const {
    return first_column + 16 * q + 4 * column_lane;
  }
  __device__ __forceinline__ int pair() const {
    return first_column + 16 * Columns::kQuads + 2 * column_lane;
  }
  __device__ __forceinline__ float* partial_row(int entry, int plane) const {
    return params.partials + plane * params.partial_plane +
           static_cast<std::int64_t>(entry & kSlotRow) * params.partial_pitch;
  }

  // The thread's columns of a row that has `columns` of them, a multiple of 8: a quad or a pair is
  // in it or not.
  __device__ __forceinline__ void write(float* row, const float (&v)[kColumns], int columns) const {
#pragma unroll
    for (int q = 0; q < Columns::kQuads; ++q) {
      if (quad(q) < columns) {
        *reinterpret_cast<float4*>(row + quad(q)) =
            make_float4(v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]);
      }
    }
    if constexpr (Columns::kHasPair) {
      if (pair() < columns)
        *reinterpret_cast<float2*>(row + pair()) = make_float2(v[kColumns - 2], v[kColumns - 1]);
    }
  }

  // Adds the thread's columns of row_of(i), nothing where that is null, to each row. The loads of
  // four rows are under way together. Not through the read-only cache: the rows may have been
  // written by the launch that this one overlaps.
  template <class RowOf>
  __device__ __forceinline__ void add_rows(float (*acc)[kColumns], int columns,
                                           const RowOf& row_of) const {
    constexpr int kBatch = 4;
    static_assert(kRows % kBatch == 0);
#pragma unroll
    for (int first = 0; first < kRows; first += kBatch) {
      float4 quads[kBatch][Columns::kQuads];
      float2 pairs[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const float* const row = row_of(first + i);
#pragma unroll
        for (int q = 0; q < Columns::kQuads; ++q) {
          quads[i][q] = make_float4(0, 0, 0, 0);
          if (row != nullptr && quad(q) < columns)
            quads[i][q] = __ldcg(reinterpret_cast<const float4*>(row + quad(q)));
        }
        pairs[i] = make_float2(0, 0);
        if (Columns::kHasPair && row != nullptr && pair() < columns)
          pairs[i] = __ldcg(reinterpret_cast<const float2*>(row + pair()));
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        float(&v)[kColumns] = acc[first + i];
#pragma unroll
        for (int q = 0; q < Columns::kQuads; ++q) {
          v[4 * q] += quads[i][q].x;
          v[4 * q + 1] += quads[i][q].y;
          v[4 * q + 2] += quads[i][q].z;
          v[4 * q + 3] += quads[i][q].w;
        }
        if constexpr (Columns::kHasPair) {
          v[kColumns - 2] += pairs[i].x;
          v[kColumns - 1] += pairs[i].y;
        }
      }
    }
  }

  __device__ __forceinline__ void read_vector(const float* from, float otherwise,
                                              float (&v)[kColumns]) const {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int column = j < 4 * Columns::kQuads ? quad(j / 4) + j % 4 : pair() + j % 2;
      v[j] = from != nullptr && column < params.columns ? __ldg(from + column) : otherwise;
    }
  }
};

}  // namespace gemm_core

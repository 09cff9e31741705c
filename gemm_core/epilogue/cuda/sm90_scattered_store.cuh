// From the accumulators of a consumer warpgroup to rows of D that do not follow each other at one
// stride (a strided gradient of the activation, a tensor with gaps): 64 rows x 64 columns at a
// time, rounded to 16 bits, through the warpgroup's shared memory, 16 bytes a lane.
#pragma once
#include "gemm_core/atom/sm90_descriptor.hpp"
#include "gemm_core/atom/sm90_tma.cuh"
#include "gemm_core/base/fast_divmod.hpp"
#include "gemm_core/epilogue/cuda/dense_epilogue.cuh"

namespace gemm_core {

// Row m is position [n][p0][p1][p2] of a tensor; steps in elements, multiples of eight like n.
struct ScatteredRows {
  base::FastDivMod by_axis[3];
  std::int64_t batch_step = 0, step[3] = {0, 0, 0};
  char* data = nullptr;  // of position 0

  __device__ __forceinline__ std::int64_t offset_of(int row) const {
    auto rest = static_cast<std::uint32_t>(row);
    std::int64_t offset = 0;
#pragma unroll
    for (int i = 2; i >= 0; --i) {
      const auto [quotient, p] = by_axis[i](rest);
      offset += p * step[i];
      rest = quotient;
    }
    return offset + rest * batch_step;
  }
};

template <int kAccumulators>
struct Sm90ScatteredStore {
  static constexpr int kColumns = 64, kGroupSums = kColumns / 2;
  static constexpr int kGroups = kAccumulators / kGroupSums;
  const DenseEpilogue& epilogue;
  const ScatteredRows& rows;
  int m;               // rows that there are
  std::uint32_t room;  // a multiple of 1024
  int thread, barrier;

  __device__ __forceinline__ void store(float (&sums)[kAccumulators], int row, int column) const {
    // A thread takes a piece of 16 bytes of every sixteenth row.
    constexpr int kRows = 4;
    const int chunk = thread % 8;
    std::int64_t offsets[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) offsets[i] = rows.offset_of(row + thread / 8 + 16 * i);
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group, column += kColumns) {
      leave(sums);
      const int at = column + chunk * 8;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int r = thread / 8 + 16 * i;
        if (row + r >= m || at >= epilogue.n) continue;
        uint4 bits;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                     : "r"(room + swizzled_offset<128>(r, chunk))
                     : "memory");
        *reinterpret_cast<uint4*>(rows.data + (offsets[i] + at) * 2) = bits;
      }
#pragma unroll
      for (int i = 0; i + kGroupSums < kAccumulators; ++i) sums[i] = sums[i + kGroupSums];
    }
  }

 private:
  __device__ __forceinline__ void leave(const float (&sums)[kAccumulators]) const {
    ptx::named_barrier(barrier, 128);  // nobody reads what was there before
    const int lane = thread % 32, matrix = lane / 8;
    const int matrix_row = thread / 32 * 16 + lane % 8 + 8 * (matrix & 1);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = pack_pair(epilogue.d.type, sums[4 * j + 2 * i] * epilogue.alpha,
                             sums[4 * j + 2 * i + 1] * epilogue.alpha);
      }
      ptx::store_matrices(room + swizzled_offset<128>(matrix_row, j + matrix / 2), words[0],
                          words[1], words[2], words[3]);
    }
    ptx::named_barrier(barrier, 128);
  }
};

}  // namespace gemm_core

// From the accumulators of a consumer warpgroup to D, 64 columns at a time through its own 16 KB of
// shared memory: rounded and written by bulk copies that run on while the next tile is multiplied
// (plain results), or read back row by row for whatever the epilogue has to read.
#pragma once
#include "gemm_core/atom/sm90_descriptor.hpp"
#include "gemm_core/atom/sm90_tma.cuh"
#include "gemm_core/epilogue/cuda/sm90_fused_nodes.cuh"

namespace gemm_core {

enum class DenseStoreMode : std::uint8_t {
  rows,     // through finish_run
  bulk_16,  // f16 or bf16, by TMA: alpha * sum, or what fused nodes make of it
  bulk_32,  // f32 likewise; int32 sums as they are
};

// `from`: the warpgroup's room, a multiple of 1024; thread: 0 to 127; barrier: the warpgroup's own.
template <class Sum, int kAccumulators>
struct Sm90DenseStore {
  static constexpr int kColumns = 64, kGroupSums = kColumns / 2;
  static constexpr int kHalfBytes = 8192;  // 64 rows of 128 bytes, swizzled
  static constexpr int kGroups = kAccumulators / kGroupSums;
  const DenseEpilogue& epilogue;
  const CUtensorMap* map;
  DenseStoreMode mode;
  std::uint32_t room;
  int thread, barrier;

  __device__ __forceinline__ void wait_for_all() const { ptx::named_barrier(barrier, 128); }

  // Stores the 64 rows from `row` on and the columns from `column` on. Overwrites `sums`: one copy
  // of the code serves every group of 64 columns, whose sums move to the front in turn.
  __device__ __forceinline__ void store(Sum (&sums)[kAccumulators], int row, int column,
                                        int batch) const {
    const bool fuses = std::is_same_v<Sum, float> && epilogue.fuses && mode != DenseStoreMode::rows;
    const auto nodes = [&](int at) { return FusedNodes{epilogue, row, at, thread}; };
    [[maybe_unused]] FusedNodes::Addend addend;
    if constexpr (std::is_same_v<Sum, float>) {
      if (fuses) nodes(column).read_early(addend);
    }
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group, column += kColumns) {
      if constexpr (std::is_same_v<Sum, float>) {
        if (fuses) {
          float values[kGroupSums];
#pragma unroll
          for (int i = 0; i < kGroupSums; ++i) values[i] = sums[i];
          nodes(column).apply(values, batch, addend, group + 1 < kGroups ? kColumns : 0);
#pragma unroll
          for (int i = 0; i < kGroupSums; ++i) sums[i] = values[i];
        }
      }
      const float scale = fuses ? 1.f : epilogue.alpha;
      if (mode == DenseStoreMode::bulk_16) {
        store_16(sums, scale, row, column, batch, group % 2);
      } else if (mode == DenseStoreMode::bulk_32) {
        store_32(sums, scale, row, column, batch);
      } else {
        store_rows(sums, row, column, batch);
      }
#pragma unroll
      for (int i = 0; i + kGroupSums < kAccumulators; ++i) sums[i] = sums[i + kGroupSums];
    }
  }

 private:
  // Of accumulators 4 * j + 2 * half of this thread: row and column in the group.
  __device__ __forceinline__ int fragment_row(int half) const {
    return thread / 32 * 16 + thread % 32 / 4 + 8 * half;
  }

  __device__ __forceinline__ void store_16(const Sum (&sums)[kAccumulators], float scale, int row,
                                           int column, int batch, int half) const {
    // The other half may still be read; with one group a tile there is no other half.
    if (thread == 0) ptx::bulk_wait_read<(kGroups > 1 ? 1 : 0)>();
    wait_for_all();
    const int lane = thread % 32, matrix = lane / 8;
    const std::uint32_t to = room + half * kHalfBytes;
    const int matrix_row = thread / 32 * 16 + lane % 8 + 8 * (matrix & 1);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = pack_pair(epilogue.d.type, static_cast<float>(sums[4 * j + 2 * i]) * scale,
                             static_cast<float>(sums[4 * j + 2 * i + 1]) * scale);
      }
      ptx::store_matrices(to + swizzled_offset<128>(matrix_row, j + matrix / 2), words[0], words[1],
                          words[2], words[3]);
    }
    ptx::fence_proxy_async();
    wait_for_all();
    if (thread == 0) {
      if (column < epilogue.n) ptx::tma_store_3d(map, to, column, row, batch);
      ptx::bulk_commit();
    }
  }

  // As floats where they are: bit casts of accumulators would make the compiler move them between
  // registers inside the main loop, and wait for every product.
  static __device__ __forceinline__ void store_pair(std::uint32_t to, float a, float b) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(a), "f"(b) : "memory");
  }
  static __device__ __forceinline__ void store_pair(std::uint32_t to, std::int32_t a,
                                                    std::int32_t b) {
    asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
  }

  // value(sum) of every sum, 32 bits each; columns 0 to 31 of the group in the first half of the
  // room.
  template <class Value>
  __device__ __forceinline__ void leave_words(const Sum (&sums)[kAccumulators],
                                              const Value& value) const {
    const int lane = thread % 32;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t to =
            room + j / 4 * kHalfBytes +
            swizzled_offset<128>(fragment_row(half), j % 4 * 2 + lane % 4 / 2) + lane % 2 * 8;
        store_pair(to, value(sums[4 * j + 2 * half]), value(sums[4 * j + 2 * half + 1]));
      }
    }
  }

  __device__ __forceinline__ void store_32(const Sum (&sums)[kAccumulators], float scale, int row,
                                           int column, int batch) const {
    if (thread == 0) ptx::bulk_wait_read<0>();
    wait_for_all();
    if (std::is_same_v<Sum, float> || epilogue.d.type != base::DType::i32)
      leave_words(sums, [&](Sum v) { return static_cast<float>(v) * scale; });
    else
      leave_words(sums, [](Sum v) { return v; });
    ptx::fence_proxy_async();
    wait_for_all();
    if (thread == 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (column + 32 * half < epilogue.n)
          ptx::tma_store_3d(map, room + half * kHalfBytes, column + 32 * half, row, batch);
      }
      ptx::bulk_commit();
    }
  }

  __device__ __forceinline__ void store_rows(const Sum (&sums)[kAccumulators], int row, int column,
                                             int batch) const {
    if (thread == 0) ptx::bulk_wait_read<0>();
    wait_for_all();
    leave_words(sums, [](Sum v) { return v; });
    wait_for_all();
    constexpr int kRuns = kColumns / kDenseRun;
#pragma unroll 1
    for (int i = thread; i < 64 * kRuns; i += 128) {
      const int r = epilogue.rows_first ? i % 64 : i / kRuns;
      const int run = epilogue.rows_first ? i / 64 : i % kRuns;
      if (row + r >= epilogue.m || column + run * kDenseRun >= epilogue.n) continue;
      Sum values[kDenseRun];
#pragma unroll
      for (int chunk = 0; chunk < 2; ++chunk) {
        const std::uint32_t at =
            room + run / 4 * kHalfBytes + swizzled_offset<128>(r, run % 4 * 2 + chunk);
        std::uint32_t words[4];
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(at)
                     : "memory");
#pragma unroll
        for (int v = 0; v < 4; ++v) values[4 * chunk + v] = __builtin_bit_cast(Sum, words[v]);
      }
      finish_run(epilogue, row + r, column + run * kDenseRun, batch, values);
    }
  }
};

}  // namespace gemm_core

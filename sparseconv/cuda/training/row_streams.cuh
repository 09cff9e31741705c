// Rows of a few matrices, asked for before they are needed. Each thread has a ring of its own in
// shared memory that cp.async fills, so that many loads are under way without a register for any
// and without a barrier.
#pragma once
#include "gemm_core/atom/sm80_copies.cuh"
#include "sparseconv/cuda/training/row_chunks.cuh"

namespace sparseconv::cuda {

// Where strip `strip` of `strips` begins in `count` rows.
__device__ inline std::int64_t first_of_strip(std::int64_t count, int strip, int strips) {
  return count * strip / strips;
}

// Rows [first, last) of the block's strip, a strip a block, and the thread's place in it.
struct Place {
  std::int64_t first, last;
  int x, y;
  __device__ Place(const RowCount& rows, const ChunkShape& shape)
      : x(static_cast<int>(threadIdx.x) % shape.across),
        y(static_cast<int>(threadIdx.x) / shape.across) {
    const std::int64_t count = rows_of(rows);
    const int strip = static_cast<int>(blockIdx.x), strips = static_cast<int>(gridDim.x);
    first = first_of_strip(count, strip, strips);
    last = first_of_strip(count, strip + 1, strips);
  }
};

template <class T, int kWidth, int kStreams>
struct RowStreams {
  static constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  static constexpr bool kIsAsync = kBytes % 16 == 0;  // narrow chunks are loaded when needed
  static constexpr int kStreamBytes = kIsAsync ? kBytes * kThreads : 0;
  // As many as 48 KB hold, up to six.
  static constexpr int kStages =
      !kIsAsync ? 1 : std::min(6, 48 * 1024 / (kStreams * std::max(1, kStreamBytes)));
  static constexpr int kSharedBytes = kStages * kStreams * kStreamBytes;

  const std::uint8_t* from[kStreams];  // of the next row to ask for; null: no such matrix
  std::int64_t step[kStreams];
  std::uint32_t slots;  // the thread's

  // Walks the thread's rows at chunk `column / kWidth`, the last row first where `is_backwards`.
  // Calls body(row, get) with get(stream, values), which zeros what a stream without matrix has.
  template <class Body>
  __device__ __forceinline__ void walk(const Matrix (&matrices)[kStreams], const Place& at,
                                       const ChunkShape& shape, int column, void* shared,
                                       bool is_backwards, const Body& body) {
    const std::int64_t begin = at.first + at.y;
    const auto count = static_cast<int>((at.last - begin + shape.down - 1) / shape.down);
    if (begin >= at.last) return;
    const int down = is_backwards ? -shape.down : shape.down;
    std::int64_t row = is_backwards ? begin + (count - 1) * std::int64_t{shape.down} : begin;
#pragma unroll
    for (int s = 0; s < kStreams; ++s) {
      const Matrix& m = matrices[s];
      step[s] = down * m.pitch * static_cast<std::int64_t>(sizeof(T));
      from[s] = m.data == nullptr ? nullptr
                                  : static_cast<const std::uint8_t*>(m.data) +
                                        (row * m.pitch + column) * static_cast<int>(sizeof(T));
    }
    slots = gemm_core::ptx::shared_address(shared) + threadIdx.x * 16;
    if constexpr (kIsAsync) {
      for (int stage = 0; stage < kStages; ++stage) {
        if (stage < count) ask(stage);
        gemm_core::ptx::commit_copies();
      }
    }
    int stage = 0;
    for (int i = 0; i < count; ++i, row += down) {
      if constexpr (kIsAsync) gemm_core::ptx::wait_copies<kStages - 1>();
      body(row, [&](int stream, float(&v)[kWidth]) { read(stage, stream, v); });
      if constexpr (kIsAsync) {
        if (i + kStages < count) ask(stage);
        gemm_core::ptx::commit_copies();
        stage = stage + 1 == kStages ? 0 : stage + 1;
      } else {
#pragma unroll
        for (int s = 0; s < kStreams; ++s)
          if (from[s] != nullptr) from[s] += step[s];
      }
    }
  }

 private:
  __device__ __forceinline__ std::uint32_t slot(int stage, int stream, int piece) const {
    return slots + (stage * kStreams + stream) * kStreamBytes + piece * (16 * kThreads);
  }
  __device__ __forceinline__ void ask(int stage) {
#pragma unroll
    for (int s = 0; s < kStreams; ++s) {
      if (from[s] == nullptr) continue;
#pragma unroll
      for (int piece = 0; piece < kBytes / 16; ++piece)
        gemm_core::ptx::copy_16(slot(stage, s, piece), from[s] + 16 * piece);
      from[s] += step[s];
    }
  }
  __device__ __forceinline__ void read(int stage, int stream, float (&v)[kWidth]) const {
    if (from[stream] == nullptr) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) v[i] = 0;
    } else if constexpr (kIsAsync) {
      uint4 raw[kBytes / 16];
#pragma unroll
      for (int piece = 0; piece < kBytes / 16; ++piece)
        raw[piece] = gemm_core::ptx::load_shared_16(slot(stage, stream, piece));
      Chunk<T, kWidth>::unpack(raw, v);
    } else {
      v[0] = DeviceElement<T>::load(from[stream], 0);
    }
  }
};

}  // namespace sparseconv::cuda

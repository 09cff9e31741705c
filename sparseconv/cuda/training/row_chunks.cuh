// Walks over rows by chunks of eight channels, a thread at one chunk of many rows: what is kept a
// channel stays in registers, sums over rows fall out. The rows that exist are cut into a fixed
// number of strips, one a thread block, so that sums have one order and no block is launched for
// rows that a bound allows but no frame has.
#pragma once
#include "sparseconv/cuda/row_kernels.cuh"

namespace sparseconv::cuda {

// `kWidth` neighbouring values, 8 where they start at a multiple of 16 bytes, else 1.
template <class T, int kWidth>
struct Chunk {
  // 16 bytes or 32.
  template <int kPieces>
  static __device__ __forceinline__ void unpack(const uint4 (&raw)[kPieces], float (&v)[kWidth]) {
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const std::uint32_t words[4] = {raw[p].x, raw[p].y, raw[p].z, raw[p].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (sizeof(T) == 4) {
          v[4 * p + i] = __uint_as_float(words[i]);
        } else {
          const float2 two = DeviceElement<T>::unpack(words[i]);
          v[2 * i] = two.x;
          v[2 * i + 1] = two.y;
        }
      }
    }
  }
  static __device__ __forceinline__ void load(const void* data, std::int64_t at,
                                              float (&v)[kWidth]) {
    if constexpr (kWidth == 1) {
      v[0] = DeviceElement<T>::load(data, at);
    } else {
      constexpr int kPieces = kWidth * static_cast<int>(sizeof(T)) / 16;
      uint4 raw[kPieces];
      const auto* from = reinterpret_cast<const uint4*>(static_cast<const std::uint8_t*>(data) +
                                                        at * static_cast<int>(sizeof(T)));
#pragma unroll
      for (int p = 0; p < kPieces; ++p) raw[p] = from[p];
      unpack(raw, v);
    }
  }
  static __device__ __forceinline__ void store(void* data, std::int64_t at,
                                               const float (&v)[kWidth]) {
    if constexpr (kWidth == 1) {
      DeviceElement<T>::store(data, at, v[0]);
    } else if constexpr (sizeof(T) == 4) {
      float r[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if constexpr (std::is_same_v<T, base::tf32_t>)
          r[i] = DeviceElement<T>::round(v[i]);
        else
          r[i] = v[i];
      }
      auto* to = reinterpret_cast<float4*>(static_cast<float*>(data) + at);
      to[0] = make_float4(r[0], r[1], r[2], r[3]);
      to[1] = make_float4(r[4], r[5], r[6], r[7]);
    } else {
      *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(data) + at) =
          make_uint4(DeviceElement<T>::pack(v[0], v[1]), DeviceElement<T>::pack(v[2], v[3]),
                     DeviceElement<T>::pack(v[4], v[5]), DeviceElement<T>::pack(v[6], v[7]));
    }
  }
};

// Channels [first, first + kWidth) of a vector that starts at a multiple of 16 bytes, or a constant
// where it is null.
template <int kWidth>
__device__ __forceinline__ void load_vector(const float* from, int first, float otherwise,
                                            float (&v)[kWidth]) {
  if (from == nullptr) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] = otherwise;
  } else {
    Chunk<float, kWidth>::load(from, first, v);
  }
}

inline constexpr int kStrips = 1056;  // a few for each multiprocessor
// Where each strip leaves sums: fewer, since they are added up by a few thread blocks.
inline constexpr int kSumStrips = 384;

// How the threads of a block share a strip: `across` chunks beside each other, `down` rows at a
// time.
struct ChunkShape {
  int chunks, across, down;
  ChunkShape(std::int64_t channels, int width)
      : chunks(static_cast<int>(channels / width)),
        across(std::min(chunks, kThreads)),
        down(std::max(1, kThreads / std::max(1, across))) {}
};

template <class View>
bool has_chunks(const View& v) {
  return v.shape[1] % 8 == 0 && v.stride[0] % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
}

}  // namespace sparseconv::cuda

// The epilogue's nodes on accumulators of WGMMA in registers, 64 columns at a time: what
// DenseEpilogue::fuses says. Matrices are read 16 bytes a lane.
#pragma once
#include "gemm_core/epilogue/cuda/dense_epilogue.cuh"
#include "gemm_core/epilogue/cuda/wgmma_store.cuh"

namespace gemm_core {

// Of a 64 x 64 block of the result from (row, column) on: value 4 * j + 2 * half + i of thread t is
// row t / 32 * 16 + t % 32 / 4 + 8 * half, column 8 * j + 2 * (t % 4) + i.
struct FusedNodes {
  static constexpr int kValues = 32, kChunk = 8;
  using Values = float[kValues];
  // What a lane reads of a 16-bit matrix.
  struct Addend {
    uint4 packed[2][2];
  };
  const DenseEpilogue& epilogue;
  int row, column, thread;

  // The operand of node `early_add` for apply().
  __device__ __forceinline__ void read_early(Addend& addend) const {
    if (epilogue.early_add < 0) return;
    const DenseNode& node = epilogue.nodes[epilogue.early_add];
    read(node.aux, 0, node.aux_pitch, addend);
  }

  // `early`: what read_early read; afterwards that of the columns `next` further on, where next >
  // 0, on its way while these are finished.
  __device__ __forceinline__ void apply(Values& v, std::int64_t batch, Addend& early,
                                        int next) const {
#pragma unroll
    for (float& value : v) value *= epilogue.alpha;
    if (epilogue.beta != 0) {
      const std::int64_t offset = batch * epilogue.c.batch_stride;
      add(v, epilogue.c.data, epilogue.c.type, offset, epilogue.c.row_stride, epilogue.beta);
    }
#pragma unroll 1
    for (int i = 0; i < epilogue.count; ++i) {
      const DenseNode& node = epilogue.nodes[i];
      if (node.kind == EpilogueNode::Kind::scale_shift)
        scale_shift(v, node);
      else if (i == epilogue.early_add) {
        add_packed(v, early, node.aux_type, 1.f);
        if (next > 0) FusedNodes{epilogue, row, column + next, thread}.read_early(early);
      } else if (node.kind == EpilogueNode::Kind::add)
        add(v, node.aux, node.aux_type, 0, node.aux_pitch, 1.f);
      else
        activate_all(v, node);
    }
  }

 private:
  __device__ __forceinline__ int row_of(int half) const {
    return row + thread / 32 * 16 + thread % 32 / 4 + 8 * half;
  }
  __device__ __forceinline__ int pair_column(int j) const {
    return column + 8 * j + thread % 4 * 2;
  }

  __device__ __forceinline__ void scale_shift(Values& v, const DenseNode& node) const {
#pragma unroll
    for (int j = 0; j < kValues / 4; ++j) {
      // Past the last column the first ones stand in; nobody stores what comes of it.
      const int at = pair_column(j) < epilogue.n ? pair_column(j) : thread % 4 * 2;
      float2 scale{1.f, 1.f}, shift{0.f, 0.f};
      if (node.scale != nullptr)
        scale = make_float2(__ldg(node.scale + at), __ldg(node.scale + at + 1));
      if (node.shift != nullptr)
        shift = make_float2(__ldg(node.shift + at), __ldg(node.shift + at + 1));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        v[4 * j + 2 * half] = fmaf(v[4 * j + 2 * half], scale.x, shift.x);
        v[4 * j + 2 * half + 1] = fmaf(v[4 * j + 2 * half + 1], scale.y, shift.y);
      }
    }
  }

  // v += factor * matrix. The loads of a row are under way before the first is used.
  __device__ __forceinline__ void add(Values& v, const void* data, base::DType type,
                                      std::int64_t offset, std::int64_t pitch, float factor) const {
    if (type == base::DType::f32) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float2 pairs[kValues / 4];
        const float* const from = static_cast<const float*>(data) + offset + row_of(half) * pitch;
#pragma unroll
        for (int j = 0; j < kValues / 4; ++j) {
          pairs[j] = float2{};
          if (row_of(half) < epilogue.m && pair_column(j) < epilogue.n)
            pairs[j] = *reinterpret_cast<const float2*>(from + pair_column(j));
        }
#pragma unroll
        for (int j = 0; j < kValues / 4; ++j) {
          float* const to = v + 4 * j + 2 * half;
          to[0] = fmaf(factor, pairs[j].x, to[0]);
          to[1] = fmaf(factor, pairs[j].y, to[1]);
        }
      }
      return;
    }
    Addend addend;
    read(data, offset, pitch, addend);
    add_packed(v, addend, type, factor);
  }

  // Eight columns side by side a lane, of a type of 16 bits.
  __device__ __forceinline__ void read(const void* data, std::int64_t offset, std::int64_t pitch,
                                       Addend& addend) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto* const from =
          static_cast<const std::uint16_t*>(data) + offset + row_of(half) * pitch;
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        const int at = column + 32 * group + thread % 4 * 8;
        addend.packed[half][group] = uint4{};
        if (row_of(half) < epilogue.m && at < epilogue.n)
          addend.packed[half][group] = *reinterpret_cast<const uint4*>(from + at);
      }
    }
  }

  __device__ __forceinline__ void add_packed(Values& v, const Addend& addend, base::DType type,
                                             float factor) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int group = 0; group < 2; ++group) {
        const uint4 four = addend.packed[half][group];
        std::uint32_t bits[4] = {four.x, four.y, four.z, four.w};
        transpose_quad(bits, thread);
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const float2 pair = unpack_pair(type, bits[q]);
          float* const to = v + (group * 4 + q) * 4 + half * 2;
          to[0] = fmaf(factor, pair.x, to[0]);
          to[1] = fmaf(factor, pair.y, to[1]);
        }
      }
    }
  }

  // A few values at a time, which move to the end: one copy of each function's code.
  __device__ __forceinline__ void activate_all(Values& v, const DenseNode& node) const {
#pragma unroll 1
    for (int chunk = 0; chunk < kValues / kChunk; ++chunk) {
      float some[kChunk];
#pragma unroll
      for (int i = 0; i < kChunk; ++i) some[i] = v[i];
      activate_values(some, node.activation, node.slope);
#pragma unroll
      for (int i = 0; i + kChunk < kValues; ++i) v[i] = v[i + kChunk];
#pragma unroll
      for (int i = 0; i < kChunk; ++i) v[kValues - kChunk + i] = some[i];
    }
  }
};

}  // namespace gemm_core

// From WGMMA's accumulators to memory: adds the partial sums of outer planes, runs the epilogue,
// rounds once and stores 16 bytes a lane (8 of 8-bit types) into the rows that the slots name (a
// slice of a wider tensor if the pitch says so).
#pragma once
#include <type_traits>

#include "gemm_core/atom/ptx.cuh"
#include "gemm_core/collective/gather_table.hpp"
#include "gemm_core/epilogue/cuda/device_epilogue.cuh"

namespace gemm_core {

// Four lanes of a quad hold four column pairs each, 8 columns apart; afterwards each holds 8
// neighbouring columns. Its own inverse.
__device__ __forceinline__ void transpose_quad(std::uint32_t (&v)[4], int lane) {
  const bool odd = lane & 1, upper = lane & 2;
  const std::uint32_t a = __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1);
  const std::uint32_t b = __shfl_xor_sync(~0u, odd ? v[2] : v[3], 1);
  v[0] = odd ? a : v[0];
  v[1] = odd ? v[1] : a;
  v[2] = odd ? b : v[2];
  v[3] = odd ? v[3] : b;
  const std::uint32_t c = __shfl_xor_sync(~0u, upper ? v[0] : v[2], 2);
  const std::uint32_t d = __shfl_xor_sync(~0u, upper ? v[1] : v[3], 2);
  v[0] = upper ? c : v[0];
  v[2] = upper ? v[2] : c;
  v[1] = upper ? d : v[1];
  v[3] = upper ? v[3] : d;
}

struct StoreParams {
  void* output = nullptr;
  std::int64_t output_pitch = 0;  // elements
  std::int32_t columns = 0;       // output channels, a multiple of 8
  float* partials =
      nullptr;  // [2][rows][partial_pitch], below and above, in a private column order
  std::int64_t partial_plane = 0;
  std::int32_t partial_pitch = 0;
  DeviceEpilogue epilogue;
  int early_add = -1;            // the node whose operand may be read when a tile begins
  Narrow narrow = Narrow::none;  // what the output is instead of the kernel's wide type
};

// A lane's view of a 64 x kN fragment: rows r and r + 8 of its warp's 16 (`entries`: what the
// slots say of them), and column pairs: acc[4 * j + 2 * half + i] is column 8 * j + 2 * (lane % 4)
// + i.
// Out: the wide type of results and of what is added; both may be of kNarrow instead.
template <class Out, int kN, Narrow kNarrow = Narrow::none>
struct WgmmaStore {
  static constexpr bool kMayBeNarrow = kNarrow != Narrow::none;
  static_assert(!kMayBeNarrow || std::is_same_v<Out, base::half_t>);
  using Accumulators = float[kN / 2];
  using Entries = int[2];
  const StoreParams& params;
  int first_column, lane;

  // Column order inside 16 columns is the lanes' own; add_partials reads it back the same way.
  __device__ __forceinline__ void leave_partials(const Accumulators& acc, const Entries& entries,
                                                 int plane) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (entries[half] < 0) continue;
      float* to = partial_row(entries[half], plane);
#pragma unroll
      for (int j = 0; j < kN / 16; ++j) {
        __stcg(reinterpret_cast<float4*>(to + j * 16),
               make_float4(acc[j * 8 + half * 2], acc[j * 8 + half * 2 + 1],
                           acc[j * 8 + 4 + half * 2], acc[j * 8 + 5 + half * 2]));
      }
    }
  }

  __device__ __forceinline__ void add_partials(Accumulators& acc, const Entries& entries) const {
#pragma unroll
    for (int plane = 0; plane < 2; ++plane) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int flag = plane == 0 ? kSlotBelow : kSlotAbove;
        if (entries[half] < 0 || (entries[half] & flag) == 0) continue;
        const float* from = partial_row(entries[half], plane);
#pragma unroll
        for (int j = 0; j < kN / 16; ++j) {
          const float4 sum = __ldcg(reinterpret_cast<const float4*>(from + j * 16));
          acc[j * 8 + half * 2] += sum.x;
          acc[j * 8 + half * 2 + 1] += sum.y;
          acc[j * 8 + 4 + half * 2] += sum.z;
          acc[j * 8 + 5 + half * 2] += sum.w;
        }
      }
    }
  }

  // Two rows of what an addition adds, 8 neighbouring columns a lane as they lie in memory.
  static constexpr bool kIsPacked = sizeof(Out) == 2;  // two values a register
  struct Addend {
    uint4 packed[2][kN / 32];  // 8-bit types: the first half
  };

  // All loads of both rows without a use between them.
  __device__ __forceinline__ void read_addend(const DeviceEpilogueNode& node,
                                              const Entries& entries, Addend& addend) const {
    static_assert(kIsPacked);
    if constexpr (kMayBeNarrow) {
      if (node.narrow != Narrow::none) {
        each_piece<std::uint8_t>(
            node.aux, node.aux_pitch, entries,
            [&](int half, int group, const std::uint8_t* from) {
              const uint2 piece = *reinterpret_cast<const uint2*>(from);
              addend.packed[half][group] = make_uint4(piece.x, piece.y, 0, 0);
            },
            [&](int half, int group) { addend.packed[half][group] = make_uint4(0, 0, 0, 0); });
        return;
      }
    }
    each_piece<Out>(
        node.aux, node.aux_pitch, entries,
        [&](int half, int group, const Out* from) {
          addend.packed[half][group] = *reinterpret_cast<const uint4*>(from);
        },
        [&](int half, int group) { addend.packed[half][group] = make_uint4(0, 0, 0, 0); });
  }
  __device__ __forceinline__ void read_addend(const Entries& entries, Addend& addend) const {
    if (params.early_add >= 0) {
      read_addend(params.epilogue.node[params.early_add], entries, addend);
    }
  }

  // `early`: the operand of node `early_add`, where it has been read.
  __device__ __forceinline__ void apply_epilogue(Accumulators& acc, const Entries& entries,
                                                 const Addend* early = nullptr) const {
    for (int i = 0; i < params.epilogue.count; ++i) {
      const DeviceEpilogueNode& node = params.epilogue.node[i];
      if (node.kind == EpilogueNode::Kind::scale_shift) {
        scale_shift(acc, node);
      } else if (node.kind == EpilogueNode::Kind::add) {
        if (early != nullptr && i == params.early_add)
          add_packed(acc, node, *early);
        else
          add(acc, node, entries);
      } else {
#pragma unroll
        for (float& v : acc) v = piecewise_linear(v, node.slope);
      }
    }
  }

  __device__ __forceinline__ void store(const Accumulators& acc, const Entries& entries) const {
    if constexpr (kMayBeNarrow) {
      if (params.narrow != Narrow::none) {
        store_narrow(acc, entries);
        return;
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool is_row = entries[half] >= 0;
      Out* const row = static_cast<Out*>(params.output) +
                       static_cast<std::int64_t>(entries[half] & kSlotRow) * params.output_pitch;
#pragma unroll
      for (int group = 0; group < kN / 32; ++group) {
        if constexpr (kIsPacked) {
          std::uint32_t bits[4];
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            const int at = (group * 4 + q) * 4 + half * 2;
            bits[q] = DeviceElement<Out>::pack(acc[at], acc[at + 1]);
          }
          transpose_quad(bits, lane);
          const int column = packed_column(group);
          if (is_row && column < params.columns) {
            *reinterpret_cast<uint4*>(row + column) =
                make_uint4(bits[0], bits[1], bits[2], bits[3]);
          }
        } else {
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            const int j = group * 4 + q, column = pair_column(j);
            if (is_row && column < params.columns) {
              *reinterpret_cast<float2*>(row + column) =
                  make_float2(DeviceElement<Out>::round(acc[4 * j + half * 2]),
                              DeviceElement<Out>::round(acc[4 * j + half * 2 + 1]));
            }
          }
        }
      }
    }
  }

 private:
  // Calls use(half, group, place) for the lane's 8 neighbouring columns of both rows, absent(half,
  // group) where there are none.
  template <class T, class Use, class Absent>
  __device__ __forceinline__ void each_piece(const void* data, std::int64_t pitch,
                                             const Entries& entries, const Use& use,
                                             const Absent& absent) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool is_row = entries[half] >= 0;
      const T* const row =
          static_cast<const T*>(data) + static_cast<std::int64_t>(entries[half] & kSlotRow) * pitch;
#pragma unroll
      for (int group = 0; group < kN / 32; ++group) {
        const int column = packed_column(group);
        absent(half, group);
        if (is_row && column < params.columns) use(half, group, row + column);
      }
    }
  }

  static __device__ __forceinline__ bool is_i8(Narrow known) {
    return kNarrow == Narrow::i8 || (kNarrow == Narrow::either && known == Narrow::i8);
  }
  __device__ __forceinline__ std::uint32_t pack_narrow(float a, float b) const {
    return is_i8(params.narrow) ? DeviceElement<std::int8_t>::pack(a, b)
                                : DeviceElement<base::e4m3_t>::pack(a, b);
  }
  static __device__ __forceinline__ std::uint32_t halves_of(Narrow known, std::uint32_t bits) {
    return is_i8(known) ? DeviceElement<std::int8_t>::halves(bits)
                        : DeviceElement<base::e4m3_t>::halves(bits);
  }

  // Two groups of 32 columns share a transposition, each in half of a register.
  __device__ __forceinline__ void store_narrow(const Accumulators& acc,
                                               const Entries& entries) const {
    constexpr int kGroups = kN / 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool is_row = entries[half] >= 0;
      std::uint8_t* const row =
          static_cast<std::uint8_t*>(params.output) +
          static_cast<std::int64_t>(entries[half] & kSlotRow) * params.output_pitch;
#pragma unroll
      for (int group = 0; group < kGroups; group += 2) {
        std::uint32_t bits[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const int at = (group * 4 + q) * 4 + half * 2;
          bits[q] = pack_narrow(acc[at], acc[at + 1]);
          if (group + 1 < kGroups) {
            bits[q] |= pack_narrow(acc[at + 16], acc[at + 17]) << 16;
          }
        }
        transpose_quad(bits, lane);
#pragma unroll
        for (int g = 0; g < 2; ++g) {
          if (group + g >= kGroups) continue;
          const int column = packed_column(group + g);
          if (is_row && column < params.columns) {
            const std::uint32_t halves = g == 0 ? 0x5410 : 0x7632;
            *reinterpret_cast<uint2*>(row + column) = make_uint2(
                __byte_perm(bits[0], bits[1], halves), __byte_perm(bits[2], bits[3], halves));
          }
        }
      }
    }
  }

  __device__ __forceinline__ int pair_column(int j) const {
    return first_column + 8 * j + (lane & 3) * 2;
  }
  __device__ __forceinline__ int stored_pair_column(int j) const {
    const int column = pair_column(j);
    return column < params.columns ? column : (lane & 3) * 2;
  }
  __device__ __forceinline__ int packed_column(int group) const {
    return first_column + 32 * group + (lane & 3) * 8;
  }
  __device__ __forceinline__ float* partial_row(int entry, int plane) const {
    return params.partials + plane * params.partial_plane +
           static_cast<std::int64_t>(entry & kSlotRow) * params.partial_pitch + first_column +
           (lane & 3) * 4;
  }

  // Loads without branches, so that they are in flight together; past the last column they repeat
  // the first ones, whose results nobody stores.
  __device__ __forceinline__ void scale_shift(Accumulators& acc,
                                              const DeviceEpilogueNode& node) const {
#pragma unroll
    for (int j = 0; j < kN / 8; ++j) {
      const int column = stored_pair_column(j);
      float2 scale{1.f, 1.f}, shift{0.f, 0.f};
      if (node.scale != nullptr)
        scale = __ldg(reinterpret_cast<const float2*>(node.scale + column));
      if (node.shift != nullptr)
        shift = __ldg(reinterpret_cast<const float2*>(node.shift + column));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = 4 * j + 2 * half;
        acc[at] = fmaf(acc[at], scale.x, shift.x);
        acc[at + 1] = fmaf(acc[at + 1], scale.y, shift.y);
      }
    }
  }

  __device__ __forceinline__ void add_packed(Accumulators& acc, const DeviceEpilogueNode& node,
                                             const Addend& addend) const {
    if constexpr (kMayBeNarrow) {
      if (node.narrow != Narrow::none) {
        add_halves(acc, node.factor, addend, [&](const uint4& packed, std::uint32_t(&bits)[4]) {
          bits[0] = halves_of(node.narrow, packed.x);
          bits[1] = halves_of(node.narrow, packed.x >> 16);
          bits[2] = halves_of(node.narrow, packed.y);
          bits[3] = halves_of(node.narrow, packed.y >> 16);
        });
        return;
      }
    }
    add_halves(acc, node.factor, addend, [](const uint4& packed, std::uint32_t(&bits)[4]) {
      bits[0] = packed.x;
      bits[1] = packed.y;
      bits[2] = packed.z;
      bits[3] = packed.w;
    });
  }
  template <class Widen>
  __device__ __forceinline__ void add_halves(Accumulators& acc, float factor, const Addend& addend,
                                             const Widen& widen) const {
    if constexpr (kIsPacked) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int group = 0; group < kN / 32; ++group) {
          std::uint32_t bits[4];
          widen(addend.packed[half][group], bits);
          transpose_quad(bits, lane);
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            const float2 pair = DeviceElement<Out>::unpack(bits[q]);
            const int at = (group * 4 + q) * 4 + half * 2;
            acc[at] = kMayBeNarrow ? fmaf(pair.x, factor, acc[at]) : acc[at] + pair.x;
            acc[at + 1] = kMayBeNarrow ? fmaf(pair.y, factor, acc[at + 1]) : acc[at + 1] + pair.y;
          }
        }
      }
    }
  }

  __device__ __forceinline__ void add(Accumulators& acc, const DeviceEpilogueNode& node,
                                      const Entries& entries) const {
    if constexpr (kIsPacked) {
      Addend addend;
      read_addend(node, entries, addend);
      add_packed(acc, node, addend);
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool is_row = entries[half] >= 0;
        const Out* const row = static_cast<const Out*>(node.aux) +
                               static_cast<std::int64_t>(entries[half] & kSlotRow) * node.aux_pitch;
#pragma unroll
        for (int j = 0; j < kN / 8; ++j) {
          const int column = pair_column(j);
          float2 pair{0.f, 0.f};
          if (is_row && column < params.columns) {
            pair = *reinterpret_cast<const float2*>(row + column);
          }
          acc[4 * j + half * 2] += pair.x;
          acc[4 * j + half * 2 + 1] += pair.y;
        }
      }
    }
  }
};

}  // namespace gemm_core

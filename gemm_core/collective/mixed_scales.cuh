// Operands of products with narrow weights, and the scales and zero points of a thread's rows.
#pragma once
#include <cuda.h>

#include "gemm_core/collective/cuda_operand_loads.cuh"
#include "gemm_core/collective/narrow_words.cuh"

namespace gemm_core {

// What happens to a converted weight.
enum class ScaleMath : std::uint8_t {
  none,
  scale,  // of the compute type, as are zero points:
  scale_zero,
  wide,  // any types, either may be missing: each step in fp32, then rounded
};

// GroupedRef along weights, in 32 bits: one value for row_group rows by k_group of k.
struct MixedGroups {
  const void* data = nullptr;
  base::DType type = base::DType::f32;
  int k_group = 1, row_group = 1, row_stride = 0;
  std::int64_t k_stride = 0, last_offset = 0;  // from one group of k to the next, to the last one
};

struct MixedOperands {
  CUtensorMap weights;  // [batch][rows][bytes of k]
  int weight_batch_step = 1, weight_rows = 0, k = 0;
  NarrowCode code;
  const void* wide = nullptr;  // rows of k, aligned to 16 bytes
  int wide_rows = 0;
  std::int64_t wide_row_stride = 0, wide_batch_stride = 0;
  ScaleMath math = ScaleMath::none;
  MixedGroups scale, zero;
};

// Rarely called: a function of its own keeps loops small.
inline __device__ __noinline__ std::uint32_t load_wide_group(const MixedGroups& v,
                                                             std::int64_t at) {
  return v.data == nullptr ? 0 : __float_as_uint(load_value(v.data, v.type, at));
}

// The scales or the zero points of a thread's two rows, as pairs of the compute type or (kWide) as
// fp32. Those of the next group are on their way while one group is converted.
template <bool kWide>
struct GroupWalk {
  const MixedGroups& values;
  int row_offset[2];  // elements
  std::int64_t offset = 0;
  int next_k = 0;
  std::uint32_t now[2], next[2];

  // From element k on, of `row` and the eighth row after it.
  __device__ __forceinline__ GroupWalk(const MixedGroups& v, const MixedOperands& o, int row, int k)
      : values(v) {
    const int group = k / v.k_group;
    next_k = group * v.k_group;
    offset = group * v.k_stride;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      row_offset[i] = min(row + 8 * i, o.weight_rows - 1) / v.row_group * v.row_stride;
    fetch();
  }
  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t at = row_offset[i] + offset;
      if constexpr (kWide)
        next[i] = load_wide_group(values, at);
      else
        next[i] = __ldg(static_cast<const std::uint16_t*>(values.data) + at);
    }
  }
  // To the group of k, which rises by at most a group from call to call.
  __device__ __forceinline__ void advance(int k) {
    if (k < next_k) return;
      // Used only now, so that nobody waits when it is asked for.
#pragma unroll
    for (int i = 0; i < 2; ++i) now[i] = kWide ? next[i] : next[i] * 0x00010001u;
    next_k += values.k_group;
    if (offset != values.last_offset) offset += values.k_stride;
    fetch();
  }
};

template <class Config, ScaleMath kMath>
struct MixedScales {
  using Arithmetic = ComputePair<typename Config::Compute>;
  using Pair = typename Arithmetic::Pair;
  using Walk = GroupWalk<kMath == ScaleMath::wide>;
  static constexpr bool kHasZero = kMath == ScaleMath::scale_zero || kMath == ScaleMath::wide;
  Walk scale, zero;

  __device__ __forceinline__ MixedScales(const MixedOperands& o, int row, int k)
      : scale(o.scale, o, row, k), zero(kHasZero ? o.zero : o.scale, o, row, k) {}

  __device__ __forceinline__ void advance(int k) {
    scale.advance(k);
    if constexpr (kHasZero) zero.advance(k);
  }
  __device__ __forceinline__ Pair apply(Pair v, int row) const {
    if constexpr (kMath == ScaleMath::wide) {
      float2 w = Arithmetic::wide(v);
      if (scale.values.data != nullptr) {
        const float s = __uint_as_float(scale.now[row]);
        v = Arithmetic::narrow(__fmul_rn(w.x, s), __fmul_rn(w.y, s));
        w = Arithmetic::wide(v);
      }
      if (zero.values.data != nullptr) {
        const float z = __uint_as_float(zero.now[row]);
        v = Arithmetic::narrow(__fadd_rn(w.x, z), __fadd_rn(w.y, z));
      }
      return v;
    } else {
      const std::uint32_t bits = scale.now[row];
      v = __hmul2_rn(v, *reinterpret_cast<const Pair*>(&bits));
      if constexpr (kHasZero) {
        const std::uint32_t addend = zero.now[row];
        v = __hadd2_rn(v, *reinterpret_cast<const Pair*>(&addend));
      }
      return v;
    }
  }
};
template <class Config>
struct MixedScales<Config, ScaleMath::none> {
  using Pair = typename ComputePair<typename Config::Compute>::Pair;
  __device__ __forceinline__ MixedScales(const MixedOperands&, int, int) {}
  __device__ __forceinline__ void advance(int) {}
  __device__ __forceinline__ Pair apply(Pair v, int) const { return v; }
};

}  // namespace gemm_core

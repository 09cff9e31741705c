// Nodes of device trees (device_tree.cuh). Vectors are read while the tile is multiplied and kept
// in shared memory; a matrix of the result's type can be copied there meanwhile (DevicePrefetched);
// anything else is read where it is needed.
#pragma once
#include "gemm_core/atom/sm90_descriptor.hpp"
#include "gemm_core/epilogue/cuda/device_tree.cuh"

namespace gemm_core {

namespace detail {
__device__ __forceinline__ float2 read_shared_pair(std::uint32_t from) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
  return v;
}
__device__ __forceinline__ float4 read_shared_four(std::uint32_t from) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(from)
               : "memory");
  return v;
}
__device__ __forceinline__ void write_shared_pair(std::uint32_t to, float a, float b) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(a), "f"(b) : "memory");
}
__device__ __forceinline__ void write_shared(std::uint32_t to, float a) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(a) : "memory");
}
}  // namespace detail

struct DeviceAccumulator : DeviceNode {
  static __device__ __forceinline__ void visit(const Params&, State&, const TreePlace&,
                                               const TreeValues& sums, TreeValues& to) {
#pragma unroll
    for (int i = 0; i < kTreeValues; ++i) to[i] = sums[i];
  }
};

// A vector of n; null: `null_default`.
struct DeviceRow : DeviceNode {
  struct Params {
    const float* data = nullptr;
    std::int64_t batch_stride = 0;
    float null_default = 0;
  };
  struct State {
    float value[kTreePanels] = {};
  };
  static constexpr int kSharedFloats = kTreeColumns;
  static __device__ __forceinline__ void begin(const Params& p, State& s, const TreePlace& at) {
#pragma unroll
    for (int panel = 0; panel < kTreePanels; ++panel) {
      const int column = at.tile_column + panel * kTreeColumns + at.thread;
      if (panel < at.panels)
        s.value[panel] = p.data != nullptr && column < at.spot.n
                             ? __ldg(p.data + at.spot.batch * p.batch_stride + column)
                             : p.null_default;
    }
  }
  static __device__ __forceinline__ void share(const Params&, const State& s, const TreePlace& at) {
#pragma unroll
    for (int panel = 0; panel < kTreePanels; ++panel) {
      if (panel < at.panels)
        detail::write_shared(at.shared + (panel * kTreeColumns + at.thread) * 4, s.value[panel]);
    }
  }
  static __device__ __forceinline__ void visit(const Params&, State&, const TreePlace& at,
                                               const TreeValues&, TreeValues& to) {
    const std::uint32_t from = at.shared + (at.column + at.thread % 4 * 2) * 4;
#pragma unroll
    for (int j = 0; j < kTreeValues / 4; ++j) {
      const float2 two = detail::read_shared_pair(from + 32 * j);
      to[4 * j] = to[4 * j + 2] = two.x;
      to[4 * j + 1] = to[4 * j + 3] = two.y;
    }
  }
};

// fma(input, alpha * scale[n], shift[n]); either vector may be null (1 and -0, which add nothing).
struct DeviceScaleShift : DeviceNode {
  struct Params {
    const float* scale = nullptr;
    const float* shift = nullptr;
    std::int64_t scale_batch_stride = 0, shift_batch_stride = 0;
    float alpha = 1;
    const float* alpha_pointer = nullptr;  // instead of alpha
    std::int64_t alpha_batch_stride = 0;
  };
  struct State {
    float scale[kTreePanels] = {}, shift[kTreePanels] = {};
  };
  static constexpr int kSharedFloats = 2 * kTreeColumns;
  static __device__ __forceinline__ void begin(const Params& p, State& s, const TreePlace& at) {
    const float alpha = p.alpha_pointer != nullptr
                            ? __ldg(p.alpha_pointer + at.spot.batch * p.alpha_batch_stride)
                            : p.alpha;
#pragma unroll
    for (int panel = 0; panel < kTreePanels; ++panel) {
      if (panel >= at.panels) continue;
      const int column = at.tile_column + panel * kTreeColumns + at.thread;
      const bool is_there = column < at.spot.n;
      s.scale[panel] = alpha;
      if (p.scale != nullptr)
        s.scale[panel] *=
            is_there ? __ldg(p.scale + at.spot.batch * p.scale_batch_stride + column) : 0.f;
      s.shift[panel] = p.shift != nullptr && is_there
                           ? __ldg(p.shift + at.spot.batch * p.shift_batch_stride + column)
                           : -0.f;
    }
  }
  static __device__ __forceinline__ void share(const Params&, const State& s, const TreePlace& at) {
#pragma unroll
    for (int panel = 0; panel < kTreePanels; ++panel) {
      if (panel < at.panels)
        detail::write_shared_pair(at.shared + (panel * kTreeColumns + at.thread) * 8,
                                  s.scale[panel], s.shift[panel]);
    }
  }
  static __device__ __forceinline__ void visit(const Params&, State&, const TreePlace& at,
                                               const TreeValues& in, TreeValues& to) {
    const std::uint32_t from = at.shared + (at.column + at.thread % 4 * 2) * 8;
#pragma unroll
    for (int j = 0; j < kTreeValues / 4; ++j) {
      const float4 v = detail::read_shared_four(from + 64 * j);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        to[4 * j + 2 * half] = fmaf(in[4 * j + 2 * half], v.x, v.y);
        to[4 * j + 2 * half + 1] = fmaf(in[4 * j + 2 * half + 1], v.z, v.w);
      }
    }
  }
};

// A vector of m; null: `null_default`.
struct DeviceColumn : DeviceNode {
  struct Params {
    const float* data = nullptr;
    std::int64_t batch_stride = 0;
    float null_default = 0;
  };
  static __device__ __forceinline__ void visit(const Params& p, State&, const TreePlace& at,
                                               const TreeValues&, TreeValues& to) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = at.spot.row_of(half);
      const float value = p.data != nullptr && row < at.spot.m
                              ? __ldg(p.data + at.spot.batch * p.batch_stride + row)
                              : p.null_default;
#pragma unroll
      for (int j = 0; j < kTreeValues / 4; ++j)
        to[4 * j + 2 * half] = to[4 * j + 2 * half + 1] = value;
    }
  }
};

struct DeviceScalar : DeviceNode {
  using Params = VisitorFactor;
  static __device__ __forceinline__ void visit(const Params& p, State&, const TreePlace& at,
                                               const TreeValues&, TreeValues& to) {
    const float value =
        p.pointer != nullptr ? __ldg(p.pointer + at.spot.batch * p.batch_stride) : p.value;
#pragma unroll
    for (float& v : to) v = value;
  }
};

// What VisitorNode says of a matrix.
struct DeviceMatrix : DeviceNode {
  using Params = VisitorNode;
  static __device__ __forceinline__ void visit(const Params& p, State&, const TreePlace& at,
                                               const TreeValues&, TreeValues& to) {
    read_matrix(at.spot, p, to);
  }
};

// The kernel's matrix `aux`, of the result's type, which was copied while the tile was multiplied.
template <class Element>
struct DevicePrefetched : DeviceNode {
  static constexpr bool kPrefetches = true;
  static __device__ __forceinline__ void visit(const Params&, State&, const TreePlace& at,
                                               const TreeValues&, TreeValues& to) {
    const int lane = at.thread % 32, matrix = lane / 8;
    const int row = at.thread / 32 * 16 + lane % 8 + 8 * (matrix & 1);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      std::uint32_t words[4];
      ptx::load_matrices(words, at.matrix + swizzled_offset<128>(row, j + matrix / 2));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 two = DeviceElement<Element>::unpack(words[i]);
        to[4 * j + 2 * i] = two.x;
        to[4 * j + 2 * i + 1] = two.y;
      }
    }
  }
};

// A function that is known when the tree is compiled.
template <ElementwiseOp kOp>
struct DeviceCompute : DeviceNode {
  using Params = OpParameters;
  static __device__ __forceinline__ void visit(const Params& p, State&, const TreePlace&,
                                               const TreeValues& a, TreeValues& to) {
    apply_op(kOp, p, a, a, a, to);
  }
  static __device__ __forceinline__ void visit(const Params& p, State&, const TreePlace&,
                                               const TreeValues& a, const TreeValues& b,
                                               TreeValues& to) {
    apply_op(kOp, p, a, b, a, to);
  }
  static __device__ __forceinline__ void visit(const Params& p, State&, const TreePlace&,
                                               const TreeValues& a, const TreeValues& b,
                                               const TreeValues& c, TreeValues& to) {
    apply_op(kOp, p, a, b, c, to);
  }
};

// A function of one input, chosen once for 32 values.
struct DeviceActivation : DeviceNode {
  struct Params {
    ElementwiseOp op = ElementwiseOp::identity;
    OpParameters parameters;
  };
  static __device__ __forceinline__ void visit(const Params& p, State&, const TreePlace&,
                                               const TreeValues& a, TreeValues& to) {
    const float first = p.parameters.first;
    const auto each = [&](const auto& function) {
#pragma unroll
      for (int i = 0; i < kTreeValues; ++i) to[i] = function(a[i]);
    };
    switch (p.op) {
      case ElementwiseOp::relu:
        return each([](float x) { return x < 0 ? 0.f : x; });
      case ElementwiseOp::leaky_relu:
        return each([=](float x) { return x < 0 ? x * first : x; });
      case ElementwiseOp::sigmoid:
        return each([](float x) { return fast_sigmoid(x); });
      case ElementwiseOp::silu:
        return each([](float x) { return __fmul_rn(x, fast_sigmoid(x)); });
      default:
        return each([](float x) { return x; });
    }
  }
  static constexpr bool takes(ElementwiseOp op) {
    return op == ElementwiseOp::identity || op == ElementwiseOp::relu ||
           op == ElementwiseOp::leaky_relu || op == ElementwiseOp::sigmoid ||
           op == ElementwiseOp::silu;
  }
};

// The input to a matrix; it passes on.
struct DeviceStore : DeviceNode {
  using Params = VisitorNode;
  static __device__ __forceinline__ void visit(const Params& p, State&, const TreePlace& at,
                                               const TreeValues& a, TreeValues& to) {
    write_matrix(at.spot, p, a);
#pragma unroll
    for (int i = 0; i < kTreeValues; ++i) to[i] = a[i];
  }
};

// Partial results of a reduction (visitor_finish combines them); the input passes on.
struct DeviceReduce : DeviceNode {
  using Params = VisitorNode;
  static __device__ __forceinline__ void visit(const Params& p, State&, const TreePlace& at,
                                               const TreeValues& a, TreeValues& to) {
    leave_reduction(at.spot, p, a);
#pragma unroll
    for (int i = 0; i < kTreeValues; ++i) to[i] = a[i];
  }
};

// The largest magnitude of all batches together; NaN wins. `scratch`: the largest so far as bits
// and the number of warpgroups that are done, both 0 between launches. Null `out`: nothing.
struct DeviceAmax : DeviceNode {
  struct Params {
    float* out = nullptr;
    std::uint32_t* scratch = nullptr;
    std::uint32_t groups = 0;  // warpgroups of the whole launch
  };
  struct State {
    float value = 0;
  };
  static constexpr int kSharedFloats = 4;
  static __device__ __forceinline__ void visit(const Params& p, State& s, const TreePlace& at,
                                               const TreeValues& a, TreeValues& to) {
    const int block_row = at.spot.row - at.thread % 32 / 4,
              block_column = at.spot.column - at.thread % 4 * 2;
    if (p.out == nullptr) {
    } else if (block_row + 16 <= at.spot.m && block_column + 64 <= at.spot.n) {
      float largest[4] = {};  // four chains
#pragma unroll
      for (int i = 0; i < kTreeValues; ++i)
        largest[i % 4] = maximum_of(largest[i % 4], fabsf(a[i]));
      s.value = maximum_of(maximum_of(s.value, maximum_of(largest[0], largest[1])),
                           maximum_of(largest[2], largest[3]));
    } else {
#pragma unroll
      for (int i = 0; i < kTreeValues; ++i) {
        if (at.spot.row_of(i / 2 % 2) < at.spot.m && at.spot.column_of(i / 4) + i % 2 < at.spot.n)
          s.value = maximum_of(s.value, fabsf(a[i]));
      }
    }
#pragma unroll
    for (int i = 0; i < kTreeValues; ++i) to[i] = a[i];
  }
  static __device__ __forceinline__ void finish(const Params& p, State& s, const TreePlace& at) {
    if (p.out == nullptr) return;
    float value = s.value;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      value = maximum_of(value, __shfl_xor_sync(~0u, value, step));
    if (at.thread % 32 == 0) detail::write_shared(at.shared + at.thread / 32 * 4, value);
    ptx::named_barrier(at.barrier, 128);
    if (at.thread != 0) return;
    const float4 of_warps = detail::read_shared_four(at.shared);
    value = maximum_of(maximum_of(of_warps.x, of_warps.y), maximum_of(of_warps.z, of_warps.w));
    atomicMax(p.scratch, __float_as_uint(value));
    __threadfence();
    if (atomicAdd(p.scratch + 1, 1u) + 1 != p.groups) return;
    __threadfence();
    *p.out = __uint_as_float(atomicExch(p.scratch, 0u));
    atomicExch(p.scratch + 1, 0u);
  }
};

// Any program, interpreted.
struct DeviceProgram : DeviceNode {
  using Params = VisitorProgram;
  static __device__ __forceinline__ void visit(const Params& p, State&, const TreePlace& at,
                                               const TreeValues& sums, TreeValues& to) {
    constexpr int kChunk = VisitorInterpreter::kValues;
#pragma unroll
    for (int i = 0; i < kTreeValues; ++i) to[i] = sums[i];
    VisitorSpot spot = at.spot;
    // The first values move to the end: one copy of the code.
#pragma unroll 1
    for (int chunk = 0; chunk < kTreeValues / kChunk; ++chunk, spot.column += 2 * kChunk) {
      VisitorInterpreter::Values some;
#pragma unroll
      for (int i = 0; i < kChunk; ++i) some[i] = to[i];
      VisitorInterpreter::run(p, spot, some);
#pragma unroll
      for (int i = 0; i + kChunk < kTreeValues; ++i) to[i] = to[i + kChunk];
#pragma unroll
      for (int i = 0; i < kChunk; ++i) to[kTreeValues - kChunk + i] = some[i];
    }
  }
};

}  // namespace gemm_core

// The tensor core instructions as atoms: which thread holds which value of a tile. Layouts only,
// tested on the host; the instructions themselves are in the .cuh files beside this one. In a warp,
// g = thread / 4 and q = thread % 4: strides of (4, 8) are those of (q, g).
#pragma once
#include "gemm_core/atom/tensor_view.hpp"
#include "gemm_core/base/numeric.hpp"

namespace gemm_core {

namespace detail {

template <class ThreadStrides, class Values, class ValueStrides>
using Warp =
    layout::Layout<layout::Tuple<Ints<4, 8>, Values>, layout::Tuple<ThreadStrides, ValueStrides>>;

// C of every 16 x 8 instruction: (g, 2q + v % 2), rows g and g + 8.
using Accumulator16x8 = Warp<Ints<32, 1>, Ints<2, 2>, Ints<16, 8>>;

template <class AType, class BType, class CType, int kDepth>
struct Warp16x8 {
  using A = AType;
  using B = BType;
  using C = CType;
  static constexpr int kM = 16, kN = 8, kK = kDepth, kThreads = 32;
  using CLayout = Accumulator16x8;
};

}  // namespace detail

// mma.sync.m16n8k8 tf32 (sm_80)
struct Sm80Mma16x8x8Tf32 : detail::Warp16x8<base::tf32_t, base::tf32_t, float, 8> {
  using ALayout = detail::Warp<Ints<16, 1>, Ints<2, 2>, Ints<8, 64>>;
  using BLayout = detail::Warp<Ints<8, 1>, Ints<2>, Ints<32>>;
};

// mma.sync.m16n8k16 f16, bf16 (sm_80)
template <class T>
struct Sm80Mma16x8x16 : detail::Warp16x8<T, T, float, 16> {
  using ALayout = detail::Warp<Ints<32, 1>, Ints<2, 2, 2>, Ints<16, 8, 128>>;
  using BLayout = detail::Warp<Ints<16, 1>, Ints<2, 2>, Ints<8, 64>>;
};

// mma.sync.m16n8k32 of 8-bit numbers: int8 (sm_80), fp8 (sm_89)
template <class AType, class BType, class CType>
struct Sm80Mma16x8x32 : detail::Warp16x8<AType, BType, CType, 32> {
  using ALayout = detail::Warp<Ints<64, 1>, Ints<4, 2, 2>, Ints<16, 8, 256>>;
  using BLayout = detail::Warp<Ints<32, 1>, Ints<4, 2>, Ints<8, 128>>;
};

// mma.sync.m8n8k4 f64 (sm_80)
struct Sm80Mma8x8x4F64 {
  using A = double;
  using B = double;
  using C = double;
  static constexpr int kM = 8, kN = 8, kK = 4, kThreads = 32;
  using ALayout = detail::Warp<Ints<8, 1>, Ints<1>, Ints<0>>;
  using BLayout = detail::Warp<Ints<8, 1>, Ints<1>, Ints<0>>;
  using CLayout = detail::Warp<Ints<16, 1>, Ints<2>, Ints<8>>;
};

// wgmma.m64nNkK (sm_90a): A and B in shared memory, which all threads of the warpgroup share. K is
// 32 bytes.
template <class T, int kColumns>
struct Sm90Wgmma64 {
  using A = T;
  using B = T;
  using C = float;
  static constexpr int kM = 64, kN = kColumns, kK = static_cast<int>(32 / sizeof(T)),
                       kThreads = 128;
  using ALayout = layout::Layout<layout::Tuple<layout::Int<128>, Ints<kM, kK>>,
                                 layout::Tuple<layout::Int<0>, Ints<1, kM>>>;
  using BLayout = layout::Layout<layout::Tuple<layout::Int<128>, Ints<kN, kK>>,
                                 layout::Tuple<layout::Int<0>, Ints<1, kN>>>;
  using CLayout = layout::Layout<layout::Tuple<Ints<4, 8, 4>, Ints<2, 2, kN / 8>>,
                                 layout::Tuple<Ints<128, 1, 16>, Ints<64, 8, 512>>>;
};

// ldmatrix.x4 of 16-bit elements (sm_75): thread t gives the address of row t of four 8 x 8
// matrices and gets two elements of each.
template <class T>
struct Sm75LoadMatrix4 {
  using Element = T;
  static constexpr int kThreads = 32, kElements = 8;
  using SourceLayout = layout::Layout<Ints<32, 8>, Ints<8, 1>>;
  using TargetLayout =
      layout::Layout<layout::Tuple<Ints<4, 8>, Ints<2, 4>>, layout::Tuple<Ints<2, 8>, Ints<1, 64>>>;
};

// cp.async of 16 bytes (sm_80)
template <class T>
struct Sm80CopyAsync16 {
  using Element = T;
  static constexpr int kThreads = 1, kElements = static_cast<int>(16 / sizeof(T));
  using SourceLayout = layout::Layout<Ints<1, kElements>, Ints<0, 1>>;
  using TargetLayout = layout::Layout<Ints<1, kElements>, Ints<0, 1>>;
};

}  // namespace gemm_core

// The epilogue's nodes as kernels see them: a short list in the kernel's parameters, interpreted a
// few values at a time. The branches are uniform over the grid, so a node costs its arithmetic and
// its loads.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "gemm_core/base/numeric.hpp"
#include "gemm_core/epilogue/epilogue.hpp"

namespace gemm_core {

// Eight-bit types that may stand beside f16; `either`: which of the two is known at run time.
enum class Narrow : std::uint8_t { none, e4m3, i8, either };

struct DeviceEpilogueNode {
  EpilogueNode::Kind kind = EpilogueNode::Kind::activate;
  Activation activation = Activation::identity;
  float slope = 1;  // of the negative side: 0 for relu, 1 for the identity
  const float* scale = nullptr;
  const float* shift = nullptr;
  const void* aux = nullptr;     // f16, bf16 or f32 as the kernel's wide type is, or `narrow`
  std::int64_t aux_pitch = 0;    // elements between rows
  float factor = 1;              // of aux
  Narrow narrow = Narrow::none;  // what aux is instead of the wide type
};

struct DeviceEpilogue {
  static constexpr int kMaxNodes = 6;
  int count = 0;
  DeviceEpilogueNode node[kMaxNodes];
};

// Piecewise linear: what kernels whose threads hold many accumulators offer; NaN stays NaN.
constexpr bool is_piecewise_linear(Activation a) {
  return a == Activation::identity || a == Activation::relu || a == Activation::leaky_relu;
}
// slope: 1 for the identity, 0 for relu.
__device__ __forceinline__ float piecewise_linear(float v, float slope) {
  return v < 0 ? (slope == 0 ? 0.f : v * slope) : v;
}

__device__ __forceinline__ float activate(float v, Activation activation, float slope) {
  switch (activation) {
    case Activation::sigmoid:
      return 1.f / (1.f + expf(-v));
    case Activation::silu:
      return v / (1.f + expf(-v));
    case Activation::tanh:
      return tanhf(v);
    case Activation::gelu:
      return 0.5f * v * (1.f + erff(v * 0.70710678f));
    default:
      return piecewise_linear(v, slope);
  }
}

// Element types in memory: conversion of pairs, rounding to nearest even.
template <class T>
struct DeviceElement;
template <>
struct DeviceElement<base::half_t> {
  static __device__ __forceinline__ std::uint32_t pack(float a, float b) {
    const __half2 pair = __floats2half2_rn(a, b);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  static __device__ __forceinline__ float2 unpack(std::uint32_t bits) {
    return __half22float2(*reinterpret_cast<const __half2*>(&bits));
  }
  static __device__ __forceinline__ float load(const void* p, std::int64_t i) {
    return __half2float(static_cast<const __half*>(p)[i]);
  }
  static __device__ __forceinline__ void store(void* p, std::int64_t i, float v) {
    static_cast<__half*>(p)[i] = __float2half_rn(v);
  }
};
template <>
struct DeviceElement<base::bf16_t> {
  static __device__ __forceinline__ std::uint32_t pack(float a, float b) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  static __device__ __forceinline__ float2 unpack(std::uint32_t bits) {
    return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
  }
  static __device__ __forceinline__ float load(const void* p, std::int64_t i) {
    return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
  }
  static __device__ __forceinline__ void store(void* p, std::int64_t i, float v) {
    static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16_rn(v);
  }
};
// Saturating: values beyond 448 become 448, NaN stays.
template <>
struct DeviceElement<base::e4m3_t> {
  static __device__ __forceinline__ std::uint32_t pack(float a, float b) {
    return __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
  }
  // Two values of the low 16 bits, as two halves.
  static __device__ __forceinline__ std::uint32_t halves(std::uint32_t bits) {
    const __half2_raw pair =
        __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bits), __NV_E4M3);
    return static_cast<std::uint32_t>(pair.x) | static_cast<std::uint32_t>(pair.y) << 16;
  }
  static __device__ __forceinline__ float load(const void* p, std::int64_t i) {
    return __half2float(
        __half(__nv_cvt_fp8_to_halfraw(static_cast<const __nv_fp8_storage_t*>(p)[i], __NV_E4M3)));
  }
  static __device__ __forceinline__ void store(void* p, std::int64_t i, float v) {
    static_cast<__nv_fp8_storage_t*>(p)[i] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
  }
};
// Saturating: values beyond 127 become 127, those below -128 become -128, NaN becomes 0.
template <>
struct DeviceElement<std::int8_t> {
  static __device__ __forceinline__ std::uint32_t pack(float a, float b) {
    std::uint32_t bits;
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;"
        : "=r"(bits)
        : "r"(__float2int_rn(b)), "r"(__float2int_rn(a)), "r"(0));
    return bits & 0xffffu;
  }
  // Two values of the low 16 bits, as two halves: 1024 + 128 + v has v + 128 in its low byte.
  static __device__ __forceinline__ std::uint32_t halves(std::uint32_t bits) {
    const std::uint32_t biased = __byte_perm(bits ^ 0x8080u, 0x64646464u, 0x4140);
    const __half2 offset = __half2half2(__ushort_as_half(0x6480));  // 1152
    const __half2 pair = __hsub2(*reinterpret_cast<const __half2*>(&biased), offset);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
  static __device__ __forceinline__ float load(const void* p, std::int64_t i) {
    return static_cast<const std::int8_t*>(p)[i];
  }
  static __device__ __forceinline__ void store(void* p, std::int64_t i, float v) {
    static_cast<std::int8_t*>(p)[i] =
        static_cast<std::int8_t>(max(-128, min(127, __float2int_rn(v))));
  }
};
template <>
struct DeviceElement<float> {
  static __device__ __forceinline__ float load(const void* p, std::int64_t i) {
    return static_cast<const float*>(p)[i];
  }
  static __device__ __forceinline__ void store(void* p, std::int64_t i, float v) {
    static_cast<float*>(p)[i] = v;
  }
};
template <>
struct DeviceElement<base::tf32_t> {
  static __device__ __forceinline__ float round(float v) {
    std::uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
    return __uint_as_float(bits);
  }
  static __device__ __forceinline__ float load(const void* p, std::int64_t i) {
    return static_cast<const float*>(p)[i];
  }
  static __device__ __forceinline__ void store(void* p, std::int64_t i, float v) {
    static_cast<float*>(p)[i] = round(v);
  }
};

template <class Wide>
__device__ __forceinline__ float load_element(Narrow narrow, const void* p, std::int64_t i) {
  return narrow == Narrow::none   ? DeviceElement<Wide>::load(p, i)
         : narrow == Narrow::e4m3 ? DeviceElement<base::e4m3_t>::load(p, i)
                                  : DeviceElement<std::int8_t>::load(p, i);
}
template <class Wide>
__device__ __forceinline__ void store_element(Narrow narrow, void* p, std::int64_t i, float v) {
  if (narrow == Narrow::none)
    DeviceElement<Wide>::store(p, i, v);
  else if (narrow == Narrow::e4m3)
    DeviceElement<base::e4m3_t>::store(p, i, v);
  else
    DeviceElement<std::int8_t>::store(p, i, v);
}

// One value at (row, column): for kernels whose threads own single values.
template <class Out>
__device__ __forceinline__ float apply_epilogue(const DeviceEpilogue& epilogue, float v,
                                                std::int64_t row, int column) {
  for (int i = 0; i < epilogue.count; ++i) {
    const DeviceEpilogueNode& node = epilogue.node[i];
    if (node.kind == EpilogueNode::Kind::scale_shift) {
      const float scale = node.scale != nullptr ? __ldg(node.scale + column) : 1.f;
      const float shift = node.shift != nullptr ? __ldg(node.shift + column) : 0.f;
      v = fmaf(v, scale, shift);
    } else if (node.kind == EpilogueNode::Kind::add) {
      const std::int64_t at = row * node.aux_pitch + column;
      v = fmaf(load_element<Out>(node.narrow, node.aux, at), node.factor, v);
    } else {
      v = activate(v, node.activation, node.slope);
    }
  }
  return v;
}

}  // namespace gemm_core

// Vectors of fp32 from and to rows of narrower numbers, for the target being compiled (included
// once per target).
#if defined(GEMM_CORE_CPU_CONVERT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef GEMM_CORE_CPU_CONVERT_INL
#undef GEMM_CORE_CPU_CONVERT_INL
#else
#define GEMM_CORE_CPU_CONVERT_INL
#endif

#include "gemm_core/base/numeric.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// body(tag, column) for whole vectors, then for one lane at a time: the same operations, so the
// same bits.
template <class Body>
HWY_INLINE void for_columns(std::int64_t columns, const Body& body) {
  const hn::ScalableTag<float> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t j = 0;
  for (; j + lanes <= columns; j += lanes) body(d, j);
  for (; j < columns; ++j) body(hn::CappedTag<float, 1>(), j);
}

// Half precision instructions exist from AVX2 (F16C) and on ARMv8; elsewhere the exact scalar
// conversions serve.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
constexpr bool kHasHalf = true;
constexpr bool kHasFma = true;
#else
constexpr bool kHasHalf = false;
constexpr bool kHasFma = false;
#endif

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const base::half_t* from) {
  if constexpr (kHasHalf) {
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
  } else {
    HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) values[i] = from[i];
    return hn::Load(d, values);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const base::bf16_t* from) {
  const hn::Rebind<std::uint16_t, D> narrow;
  const hn::Rebind<std::uint32_t, D> wide;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}

// Nearest even on the low kDropped bits of a float; NaN becomes quiet and stays NaN.
template <int kDropped, class D>
HWY_INLINE hn::Vec<D> round_bits(D d, hn::Vec<D> v) {
  const hn::Rebind<std::uint32_t, D> word;
  const auto bits = hn::BitCast(word, v);
  const auto odd = hn::And(hn::ShiftRight<kDropped>(bits), hn::Set(word, 1u));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(word, (1u << (kDropped - 1)) - 1)));
  const auto rounded = hn::And(up, hn::Set(word, ~((1u << kDropped) - 1)));
  const auto quiet =
      hn::And(hn::Or(bits, hn::Set(word, 1u << 22)), hn::Set(word, ~((1u << kDropped) - 1)));
  return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, quiet), hn::BitCast(d, rounded));
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, float* to) {
  hn::StoreU(v, d, to);
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, base::half_t* to) {
  if constexpr (kHasHalf) {
    const hn::Rebind<hwy::float16_t, D> half;
    hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::float16_t*>(to));
  } else {
    HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(v, d, values);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = base::half_t(values[i]);
  }
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, base::bf16_t* to) {
  const hn::Rebind<std::uint16_t, D> narrow;
  const hn::Rebind<std::int32_t, D> word;
  const auto high =
      hn::ShiftRight<16>(hn::BitCast(hn::Rebind<std::uint32_t, D>(), round_bits<16>(d, v)));
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(word, high)), narrow,
             reinterpret_cast<std::uint16_t*>(to));
}

template <class D>
HWY_INLINE hn::Vec<D> round_to(D d, hn::Vec<D> v, base::DType type) {
  switch (type) {
    case base::DType::tf32:
      return round_bits<13>(d, v);
    case base::DType::bf16:
      return round_bits<16>(d, v);
    case base::DType::f16: {
      base::half_t values[HWY_MAX_BYTES / sizeof(float)];
      store(d, v, values);
      return load(d, values);
    }
    default:
      return v;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core::detail
HWY_AFTER_NAMESPACE();
#endif

// The common epilogue in one pass over a block, from sums to the stored result.
#include "gemm_core/atom/cpu_atoms.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm_core/atom/cpu_finish.cpp"
#include "gemm_core/atom/cpu_targets.hpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
// After foreach_target.
#include "gemm_core/atom/cpu_convert-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core::detail {
namespace HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::Vec<D> scaled(D d, hn::Vec<D> x, const RowFinish& f, std::int64_t j) {
  if (f.scale && f.shift)
    return hn::MulAdd(x, hn::LoadU(d, f.scale + j), hn::LoadU(d, f.shift + j));
  if (f.scale) return hn::Mul(x, hn::LoadU(d, f.scale + j));
  if (f.shift) return hn::Add(x, hn::LoadU(d, f.shift + j));
  return x;
}

// Comparisons, so that NaN passes through.
template <class D>
HWY_INLINE hn::Vec<D> activated(D d, hn::Vec<D> x, const RowFinish& f) {
  if (f.activation == Activation::relu)
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
  if (f.activation == Activation::leaky_relu)
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, f.slope)), x);
  return x;
}

template <class Aux, class To>
HWY_NOINLINE void finish_of(const Block& b, const RowFinish& f) {
  for (std::int64_t i = 0; i < b.rows; ++i) {
    const float* v = b.values + i * b.ld;
    const Aux* aux = static_cast<const Aux*>(f.aux) + (f.aux ? i * f.aux_pitch : 0);
    To* to = static_cast<To*>(f.to) + i * f.pitch;
    for_columns(b.columns, [&](auto d, std::int64_t j) HWY_ATTR {
      auto x = scaled(d, hn::LoadU(d, v + j), f, j);
      if (f.aux) x = hn::Add(x, load(d, aux + j));
      store(d, activated(d, x, f), to + j);
    });
  }
}

template <class To>
HWY_INLINE void finish_to(const Block& b, const RowFinish& f) {
  switch (f.aux_dtype) {
    case base::DType::f16:
      return finish_of<base::half_t, To>(b, f);
    case base::DType::bf16:
      return finish_of<base::bf16_t, To>(b, f);
    default:
      return finish_of<float, To>(b, f);
  }
}

inline void finish(const Block& b, const RowFinish& f) {
  switch (f.dtype) {
    case base::DType::f16:
      return finish_to<base::half_t>(b, f);
    case base::DType::bf16:
      return finish_to<base::bf16_t>(b, f);
    default:
      return finish_to<float>(b, f);
  }
}

void fill_finish_of_target(CpuAtoms& atoms) { atoms.finish = finish; }

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gemm_core::detail {
HWY_EXPORT(fill_finish_of_target);
void fill_finish(CpuAtoms& atoms) { HWY_DYNAMIC_DISPATCH(fill_finish_of_target)(atoms); }
}  // namespace gemm_core::detail
#endif

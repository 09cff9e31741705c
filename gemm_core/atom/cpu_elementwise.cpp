// Conversions, epilogue steps and stores.
#include <algorithm>
#include <cmath>

#include "gemm_core/atom/cpu_atoms.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm_core/atom/cpu_elementwise.cpp"
#include "gemm_core/atom/cpu_targets.hpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
// After foreach_target.
#include "gemm_core/atom/cpu_convert-inl.hpp"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gemm_core::detail {
namespace HWY_NAMESPACE {
template <class T>
HWY_NOINLINE void convert_rows_of(const RowConversion& c) {
  const bool exact = c.compute == base::DType::f32 || c.compute == base::dtype_v<T>;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const T* from = static_cast<const T*>(c.base) + (c.source ? c.source[i] : i) * c.pitch;
    float* to = c.to + i * c.ldto;
    if (exact) {
      for_columns(c.columns, [&](auto d, std::int64_t j)
                                 HWY_ATTR { hn::StoreU(load(d, from + j), d, to + j); });
    } else {
      for_columns(c.columns, [&](auto d, std::int64_t j) HWY_ATTR {
        hn::StoreU(round_to(d, load(d, from + j), c.compute), d, to + j);
      });
    }
  }
}

inline void convert_rows(const RowConversion& c) {
  switch (c.dtype) {
    case base::DType::f16:
      return convert_rows_of<base::half_t>(c);
    case base::DType::bf16:
      return convert_rows_of<base::bf16_t>(c);
    default:
      return convert_rows_of<float>(c);
  }
}

// Four rows by a line of 16 columns at a time, so that a line of either side is touched in one go
// however the rows alias each other in the caches.
inline void transpose(const Transposition& t) {
  std::int64_t first = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::int64_t kLine = 16;
  const hn::FixedTag<float, 4> d;
  for (std::int64_t j0 = 0; j0 + 4 <= t.columns; j0 += kLine) {
    const std::int64_t j1 = std::min(j0 + kLine, t.columns / 4 * 4);
    for (std::int64_t i = 0; i + 4 <= t.rows; i += 4) {
      for (std::int64_t j = j0; j < j1; j += 4) {
        const float* from = t.from + i * t.pitch + j;
        const auto v0 = hn::LoadU(d, from), v1 = hn::LoadU(d, from + t.pitch),
                   v2 = hn::LoadU(d, from + 2 * t.pitch), v3 = hn::LoadU(d, from + 3 * t.pitch);
        const auto low02 = hn::InterleaveLower(d, v0, v2), low13 = hn::InterleaveLower(d, v1, v3),
                   high02 = hn::InterleaveUpper(d, v0, v2), high13 = hn::InterleaveUpper(d, v1, v3);
        float* to = t.to + j * t.ldto + i;
        hn::StoreU(hn::InterleaveLower(d, low02, low13), d, to);
        hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, to + t.ldto);
        hn::StoreU(hn::InterleaveLower(d, high02, high13), d, to + 2 * t.ldto);
        hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, to + 3 * t.ldto);
      }
    }
  }
  first = t.columns / 4 * 4;
  for (std::int64_t i = t.rows / 4 * 4; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < first; ++j) t.to[j * t.ldto + i] = t.from[i * t.pitch + j];
  }
#endif
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = first; j < t.columns; ++j) t.to[j * t.ldto + i] = t.from[i * t.pitch + j];
  }
}

template <class T>
HWY_NOINLINE void combine_with(const Block& b, const LinearCombination& l, const T* c) {
  for (std::int64_t i = 0; i < b.rows; ++i) {
    float* v = b.values + i * b.ld;
    const T* from = c + i * l.pitch;
    for_columns(b.columns, [&](auto d, std::int64_t j) HWY_ATTR {
      const auto product = hn::Mul(hn::Set(d, l.alpha), hn::LoadU(d, v + j));
      hn::StoreU(hn::MulAdd(hn::Set(d, l.beta), load(d, from + j), product), d, v + j);
    });
  }
}

inline void combine(const Block& b, const LinearCombination& l) {
  if (l.c == nullptr) {
    for (std::int64_t i = 0; i < b.rows; ++i) {
      float* v = b.values + i * b.ld;
      for_columns(b.columns, [&](auto d, std::int64_t j) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::Set(d, l.alpha), hn::LoadU(d, v + j)), d, v + j);
      });
    }
    return;
  }
  switch (l.dtype) {
    case base::DType::f16:
      return combine_with(b, l, static_cast<const base::half_t*>(l.c));
    case base::DType::bf16:
      return combine_with(b, l, static_cast<const base::bf16_t*>(l.c));
    default:
      return combine_with(b, l, static_cast<const float*>(l.c));
  }
}

inline void scale_shift(const Block& b, const float* scale, const float* shift) {
  for (std::int64_t i = 0; i < b.rows; ++i) {
    float* v = b.values + i * b.ld;
    for_columns(b.columns, [&](auto d, std::int64_t j) HWY_ATTR {
      auto x = hn::LoadU(d, v + j);
      if (scale && shift)
        x = hn::MulAdd(x, hn::LoadU(d, scale + j), hn::LoadU(d, shift + j));
      else if (scale)
        x = hn::Mul(x, hn::LoadU(d, scale + j));
      else if (shift)
        x = hn::Add(x, hn::LoadU(d, shift + j));
      hn::StoreU(x, d, v + j);
    });
  }
}

template <class T>
HWY_NOINLINE void add_of(const Block& b, const T* aux, std::int64_t pitch) {
  for (std::int64_t i = 0; i < b.rows; ++i) {
    float* v = b.values + i * b.ld;
    const T* a = aux + i * pitch;
    for_columns(b.columns, [&](auto d, std::int64_t j) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, v + j), load(d, a + j)), d, v + j);
    });
  }
}

inline void add(const Block& b, const void* aux, base::DType dtype, std::int64_t pitch) {
  switch (dtype) {
    case base::DType::f16:
      return add_of(b, static_cast<const base::half_t*>(aux), pitch);
    case base::DType::bf16:
      return add_of(b, static_cast<const base::bf16_t*>(aux), pitch);
    default:
      return add_of(b, static_cast<const float*>(aux), pitch);
  }
}

template <class Function>
HWY_INLINE void apply(const Block& b, const Function& function) {
  for (std::int64_t i = 0; i < b.rows; ++i) {
    float* v = b.values + i * b.ld;
    for_columns(b.columns, [&](auto d, std::int64_t j) HWY_ATTR {
      hn::StoreU(function(d, hn::LoadU(d, v + j)), d, v + j);
    });
  }
}

// 1 / (1 + exp(-x)); the exponent is held where exp stays finite, beyond which the result is 0 or 1
// in fp32 anyway.
template <class D>
HWY_INLINE hn::Vec<D> sigmoid(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f);
  const auto held = hn::Min(hn::Neg(x), hn::Set(d, 88.0f));
  const auto y = hn::Div(one, hn::Add(one, hn::Exp(d, held)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

inline void activate(const Block& b, Activation activation, float slope) {
  switch (activation) {
    case Activation::identity:
      return;
    case Activation::relu:  // a comparison, so that NaN passes through
      return apply(b, [](auto d, auto x) HWY_ATTR {
        return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
      });
    case Activation::leaky_relu:
      return apply(b, [slope](auto d, auto x) HWY_ATTR {
        return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, slope)), x);
      });
    case Activation::sigmoid:
      return apply(b, [](auto d, auto x) HWY_ATTR { return sigmoid(d, x); });
    case Activation::silu:
      return apply(b, [](auto d, auto x) HWY_ATTR { return hn::Mul(x, sigmoid(d, x)); });
    case Activation::tanh:
      return apply(b, [](auto d, auto x)
                          HWY_ATTR { return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x)); });
    case Activation::gelu:  // rare in these networks: the exact scalar form is fast enough
      for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t j = 0; j < b.columns; ++j) {
          float& x = b.values[i * b.ld + j];
          x = 0.5f * x * std::erfc(-x * 0.70710678118654752f);
        }
      }
      return;
  }
}

template <class Function>
HWY_NOINLINE void apply_two(const float* const* inputs, std::int64_t count, float* to,
                            const Function& function) {
  for_columns(count, [&](auto d, std::int64_t j) HWY_ATTR {
    hn::StoreU(function(d, hn::LoadU(d, inputs[0] + j), hn::LoadU(d, inputs[1] + j)), d, to + j);
  });
}

// The comparison fails for NaN in either; a + b is then NaN.
template <class D, class V>
HWY_INLINE V or_nan(D /*d*/, V a, V b, V chosen) {
  return hn::IfThenElse(hn::And(hn::Eq(a, a), hn::Eq(b, b)), chosen, hn::Add(a, b));
}

inline void elementwise_two(ElementwiseOp op, const float* const* inputs, std::int64_t count,
                            float* to) {
  switch (op) {
    case ElementwiseOp::plus:
      return apply_two(inputs, count, to,
                       [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    case ElementwiseOp::minus:
      return apply_two(inputs, count, to,
                       [](auto, auto a, auto b) HWY_ATTR { return hn::Sub(a, b); });
    case ElementwiseOp::multiplies:
      return apply_two(inputs, count, to,
                       [](auto, auto a, auto b) HWY_ATTR { return hn::Mul(a, b); });
    case ElementwiseOp::divides:
      return apply_two(inputs, count, to,
                       [](auto, auto a, auto b) HWY_ATTR { return hn::Div(a, b); });
    case ElementwiseOp::maximum:
      return apply_two(inputs, count, to, [](auto d, auto a, auto b) HWY_ATTR {
        return or_nan(d, a, b, hn::Max(a, b));
      });
    case ElementwiseOp::minimum:
      return apply_two(inputs, count, to, [](auto d, auto a, auto b) HWY_ATTR {
        return or_nan(d, a, b, hn::Min(a, b));
      });
    case ElementwiseOp::d_relu:
      return apply_two(inputs, count, to, [](auto d, auto a, auto b) HWY_ATTR {
        return hn::IfThenElse(hn::Gt(b, hn::Zero(d)), a, hn::Zero(d));
      });
    default:
      return;
  }
}

inline void elementwise(ElementwiseOp op, const OpParameters& parameters,
                        const float* const* inputs, std::int64_t count, float* to) {
  const auto one = [&](Activation activation) {
    if (to != inputs[0]) std::copy(inputs[0], inputs[0] + count, to);
    activate({to, count, 1, count}, activation, parameters.first);
  };
  switch (op) {
    case ElementwiseOp::identity:
      return one(Activation::identity);
    case ElementwiseOp::relu:
      return one(Activation::relu);
    case ElementwiseOp::leaky_relu:
      return one(Activation::leaky_relu);
    case ElementwiseOp::sigmoid:
      return one(Activation::sigmoid);
    case ElementwiseOp::silu:
      return one(Activation::silu);
    case ElementwiseOp::tanh:
      return one(Activation::tanh);
    case ElementwiseOp::gelu:
      return one(Activation::gelu);
    case ElementwiseOp::clamp:  // comparisons, so that NaN passes through
      return for_columns(count, [&](auto d, std::int64_t j) HWY_ATTR {
        const auto x = hn::LoadU(d, inputs[0] + j);
        const auto low = hn::Set(d, parameters.first), high = hn::Set(d, parameters.second);
        const auto raised = hn::IfThenElse(hn::Lt(x, low), low, x);
        hn::StoreU(hn::IfThenElse(hn::Gt(raised, high), high, raised), d, to + j);
      });
    case ElementwiseOp::absolute:
      return for_columns(count, [&](auto d, std::int64_t j) HWY_ATTR {
        hn::StoreU(hn::Abs(hn::LoadU(d, inputs[0] + j)), d, to + j);
      });
    case ElementwiseOp::multiply_add:
      // Scalar std::fma where the target has no such instruction: the single rounding is part of
      // the definition.
      return for_columns(count, [&](auto d, std::int64_t j) HWY_ATTR {
        if constexpr (kHasFma) {
          hn::StoreU(hn::MulAdd(hn::LoadU(d, inputs[0] + j), hn::LoadU(d, inputs[1] + j),
                                hn::LoadU(d, inputs[2] + j)),
                     d, to + j);
        } else {
          for (std::size_t i = static_cast<std::size_t>(j);
               i < static_cast<std::size_t>(j) + hn::Lanes(d); ++i) {
            to[i] = std::fma(inputs[0][i], inputs[1][i], inputs[2][i]);
          }
        }
      });
    default:
      return elementwise_two(op, inputs, count, to);
  }
}

template <class T>
HWY_NOINLINE void store_of(const Block& b, T* to, std::int64_t pitch) {
  for (std::int64_t i = 0; i < b.rows; ++i) {
    const float* v = b.values + i * b.ld;
    for_columns(b.columns, [&](auto d, std::int64_t j)
                               HWY_ATTR { store(d, hn::LoadU(d, v + j), to + i * pitch + j); });
  }
}

inline void store(const Block& b, void* to, base::DType dtype, std::int64_t pitch) {
  switch (dtype) {
    case base::DType::f16:
      return store_of(b, static_cast<base::half_t*>(to), pitch);
    case base::DType::bf16:
      return store_of(b, static_cast<base::bf16_t*>(to), pitch);
    default:
      return store_of(b, static_cast<float*>(to), pitch);
  }
}

void fill_elementwise_of_target(CpuAtoms& atoms) {
  atoms.convert_rows = convert_rows;
  atoms.transpose = transpose;
  atoms.combine = combine;
  atoms.scale_shift = scale_shift;
  atoms.add = add;
  atoms.activate = activate;
  atoms.elementwise = elementwise;
  atoms.store = store;
}

}  // namespace HWY_NAMESPACE
}  // namespace gemm_core::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gemm_core::detail {
HWY_EXPORT(fill_elementwise_of_target);
void fill_elementwise(CpuAtoms& atoms) { HWY_DYNAMIC_DISPATCH(fill_elementwise_of_target)(atoms); }
}  // namespace gemm_core::detail
#endif

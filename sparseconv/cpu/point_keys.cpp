#include "sparseconv/cpu/point_keys.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sparseconv/cpu/point_keys.cpp"
#include "gemm_core/atom/cpu_targets.hpp"
#include "hwy/foreach_target.h"  // compiles this file once per target
// After foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sparseconv::detail {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::ScalableTag<double>;
using Bits = hn::ScalableTag<std::uint64_t>;
using Good = hn::Mask<Doubles>;

HWY_INLINE hn::Vec<Doubles> load(Doubles d, const double* from) { return hn::LoadU(d, from); }
HWY_INLINE hn::Vec<Doubles> load(Doubles d, const float* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, Doubles>(), from));
}

template <int kShift>
HWY_INLINE hn::Vec<Bits> spread_step(hn::Vec<Bits> v, std::uint64_t mask) {
  return hn::And(hn::Or(v, hn::ShiftLeft<kShift>(v)), hn::Set(Bits(), mask));
}

// As spread_bits() of coord.hpp.
HWY_INLINE hn::Vec<Bits> spread(hn::Vec<Bits> v) {
  v = spread_step<32>(v, 0x001f00000000ffffull);
  v = spread_step<16>(v, 0x001f0000ff0000ffull);
  v = spread_step<8>(v, 0x100f00f00f00f00full);
  v = spread_step<4>(v, 0x10c30c30c30c30c3ull);
  return spread_step<2>(v, 0x1249249249249249ull);
}

// The bits of one axis before they move to its place; `good` keeps what lies within the bounds.
template <class T>
HWY_INLINE hn::Vec<Bits> axis_bits(const AxisBounds& b, const T* from, Good& good) {
  const Doubles d;
  const auto p = load(d, from);
  const auto cell = hn::Div(hn::Sub(p, hn::Set(d, b.origin)), hn::Set(d, b.size));
  const auto within = [&](auto v, double low, double high) HWY_ATTR {
    return hn::And(hn::Ge(v, hn::Set(d, low)), hn::Lt(v, hn::Set(d, high)));
  };
  good = hn::And(good, hn::And(within(p, b.from, b.to), within(cell, b.low, b.high)));
  // A whole number below 2^18 added to 2^52 stands in the low bits of the sum.
  constexpr double kWhole = 4503599627370496.0;
  const auto sum = hn::Add(hn::Floor(cell), hn::Set(d, kWhole + kAxisBias));
  const Bits bits;
  return spread(hn::And(hn::BitCast(bits, sum), hn::Set(bits, (1u << kAxisBits) - 1)));
}

template <class T>
HWY_INLINE hn::Vec<Bits> keys_of(const PointKeys& to, const T* x, const T* y, const T* z,
                                 Good& all_good) {
  const Doubles d;
  const Bits bits;
  Good good = hn::Eq(hn::Zero(d), hn::Zero(d));
  const auto kx = axis_bits(to.bounds[0], x, good), ky = axis_bits(to.bounds[1], y, good),
             kz = axis_bits(to.bounds[2], z, good);
  const auto key = hn::Or(hn::Or(hn::Set(bits, to.batch), kx),
                          hn::Or(hn::ShiftLeft<1>(ky), hn::ShiftLeft<2>(kz)));
  all_good = hn::And(all_good, good);
  return hn::IfThenElse(hn::RebindMask(bits, good), key, hn::Set(bits, kNoKey));
}

template <class T>
HWY_INLINE bool pack_columns(const PointKeys& to, const std::array<const T*, 3>& from) {
  const Doubles d;
  const Bits bits;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T *x = from[0], *y = from[1], *z = from[2];
  Good all_good = hn::Eq(hn::Zero(d), hn::Zero(d));
  std::int64_t i = 0;
  for (; i + lanes <= to.count; i += lanes) {
    hn::StoreU(keys_of(to, x + i, y + i, z + i, all_good), bits, to.keys + i);
  }
  if (i < to.count) {  // the last points, with copies of the last of all
    constexpr std::size_t kMost = hn::MaxLanes(Doubles());
    std::array<std::array<T, kMost>, 3> rest;
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t j = 0; j < kMost; ++j) {
        rest[a][j] = from[a][std::min(i + static_cast<std::int64_t>(j), to.count - 1)];
      }
    }
    std::array<Key, kMost> keys;
    hn::StoreU(keys_of(to, rest[0].data(), rest[1].data(), rest[2].data(), all_good), bits,
               keys.data());
    std::copy_n(keys.data(), to.count - i, to.keys + i);
  }
  return hn::AllTrue(d, all_good);
}

bool pack_floats(const PointKeys& to, const std::array<const float*, 3>& from) {
  return pack_columns(to, from);
}
bool pack_doubles(const PointKeys& to, const std::array<const double*, 3>& from) {
  return pack_columns(to, from);
}

}  // namespace HWY_NAMESPACE
}  // namespace sparseconv::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparseconv::detail {
HWY_EXPORT(pack_floats);
HWY_EXPORT(pack_doubles);
bool pack_points(const PointKeys& to, const std::array<const float*, 3>& from) {
  return HWY_DYNAMIC_DISPATCH(pack_floats)(to, from);
}
bool pack_points(const PointKeys& to, const std::array<const double*, 3>& from) {
  return HWY_DYNAMIC_DISPATCH(pack_doubles)(to, from);
}
}  // namespace sparseconv::detail
#endif

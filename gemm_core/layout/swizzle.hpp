// Swizzle(B, M, S): x ^ ((x & Y) >> S), which xors B bits of x into B lower ones (S > 0) or higher
// ones (S < 0). It is its own inverse, and linear over xor, not over addition.
//   Swizzle{3, 3, 3}: rows of 64 halves: column 0 of rows 0..7 lands in eight different 16-byte
//   groups.
#pragma once
#include <optional>

#include "gemm_core/base/error.hpp"
#include "gemm_core/base/host_device.hpp"
#include "gemm_core/layout/number.hpp"

namespace layout {

struct Swizzle {
  int bits = 0, base = 0, shift = 0;

  // |S| >= B keeps the two fields apart; all of them fit a 63-bit index.
  BASE_HD constexpr bool is_valid() const {
    const int distance = shift < 0 ? -shift : shift;
    return bits >= 0 && base >= 0 && distance >= bits && distance < 63 &&
           base + distance + bits <= 62;
  }
  BASE_HD constexpr Index source_mask() const {
    return ((Index(1) << bits) - 1) << (base + (shift > 0 ? shift : 0));
  }
  BASE_HD constexpr Index target_mask() const {
    return ((Index(1) << bits) - 1) << (base + (shift > 0 ? 0 : -shift));
  }
  BASE_HD constexpr Index operator()(Index x) const {
    const Index source = x & source_mask();
    return x ^ (shift < 0 ? source << -shift : source >> shift);
  }
  friend constexpr bool operator==(const Swizzle&, const Swizzle&) = default;
};

constexpr Swizzle make_swizzle(int bits, int base, int shift) {
  const Swizzle swizzle{bits, base, shift};
  ENSURE(swizzle.is_valid(), "swizzle: (", bits, ",", base, ",", shift,
         "), expected B >= 0, M >= 0, |S| >= B");
  return swizzle;
}

// One swizzle that does what both do in turn; the same distance only, and none where the xor of
// their fields has a gap.
constexpr std::optional<Swizzle> merge(const Swizzle& a, const Swizzle& b) {
  if (a.bits == 0) return b;
  if (b.bits == 0) return a;
  const int distance = a.shift < 0 ? -a.shift : a.shift;
  if (a.shift != b.shift) return std::nullopt;
  Index fields = (((Index(1) << a.bits) - 1) << a.base) ^ (((Index(1) << b.bits) - 1) << b.base);
  if (fields == 0) return Swizzle{0, a.base, a.shift};
  Swizzle merged{0, 0, a.shift};
  for (; (fields & 1) == 0; fields >>= 1) ++merged.base;
  for (; (fields & 1) != 0; fields >>= 1) ++merged.bits;
  // Fields that meet (the target of one is the source of the other) act in turn, which one swizzle
  // cannot.
  if (fields != 0 || merged.bits > distance) return std::nullopt;
  return merged;
}

}  // namespace layout

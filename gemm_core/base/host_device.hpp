// BASE_HD marks functions that device code calls too; empty outside nvcc, so no CUDA header is
// needed. The bit functions here stand in for those of <bit>, which device code may not call.
#pragma once
#include <cstdint>

#if defined(__CUDACC__)
#define BASE_HD __host__ __device__
#else
#define BASE_HD
#endif

// A constant of class type that device code refers to as well.
#if defined(__CUDA_ARCH__)
#define BASE_CONSTANT static const __device__
#else
#define BASE_CONSTANT inline constexpr
#endif

namespace base {

template <class To, class From>
BASE_HD constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

// Bits needed for x: 0 for 0, 1 for 1, 3 for 5.
BASE_HD constexpr int bit_width(std::uint64_t x) {
  int width = 0;
  for (int step = 32; step > 0; step /= 2)
    if (x >> step != 0) {
      x >>= step;
      width += step;
    }
  return width + (x != 0);
}

}  // namespace base

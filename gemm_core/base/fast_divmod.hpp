// Division by a divisor that is fixed at run time, as a multiplication and a shift; exact for every
// 32-bit numerator. Granlund and Montgomery, "Division by invariant integers using multiplication"
// (1994), figure 4.1.
//   const FastDivMod by_columns(columns);
//   const auto [row, column] = by_columns(index);
#pragma once
#include "gemm_core/base/error.hpp"
#include "gemm_core/base/host_device.hpp"

namespace base {

class FastDivMod {
 public:
  struct Result {
    std::uint32_t quotient, remainder;
  };

  constexpr FastDivMod() = default;  // divides by 1
  constexpr explicit FastDivMod(std::uint32_t divisor) : divisor_(divisor) {
    ENSURE(divisor >= 1, "fast division: divisor 0");
    shift_ = static_cast<std::uint32_t>(bit_width(divisor - 1));  // 2^shift >= divisor
    const std::uint64_t excess = (std::uint64_t(1) << shift_) - divisor;
    multiplier_ = static_cast<std::uint32_t>((excess << 32) / divisor + 1);
  }

  BASE_HD constexpr std::uint32_t divide(std::uint32_t n) const {
    const std::uint64_t high = (static_cast<std::uint64_t>(n) * multiplier_) >> 32;
    return static_cast<std::uint32_t>((high + n) >> shift_);
  }
  BASE_HD constexpr Result operator()(std::uint32_t n) const {
    const std::uint32_t quotient = divide(n);
    return {quotient, n - quotient * divisor_};
  }
  BASE_HD constexpr std::uint32_t divisor() const { return divisor_; }

 private:
  std::uint32_t divisor_ = 1, multiplier_ = 1, shift_ = 0;
};

}  // namespace base

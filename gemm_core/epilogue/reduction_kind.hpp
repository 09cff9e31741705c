// What epilogues reduce, and along which axis: words that host and device share.
#pragma once
#include <cstdint>

namespace gemm_core::visitor {

enum class Reduction : std::uint8_t {
  sum,
  maximum,
  minimum,
  amax
};  // amax: of magnitudes; NaN passes on
enum class ReductionAxis : std::uint8_t {
  rows,     // out[n], over m
  columns,  // out[m], over n
  all,      // one value
};

}  // namespace gemm_core::visitor

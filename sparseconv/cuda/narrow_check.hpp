// Whether a network survives 8 bits: its results for a frame beside those in f16.
#pragma once
#include <string_view>

#include "sparseconv/executor.hpp"

namespace sparseconv::cuda {

// Error that names the output and the distance where `narrow` is not close to `wide`: the root of
// the squares of the differences beyond half of that of the values, a value that is not finite, or
// fewer than three quarters of the classes the same. What is not finite or all zero in `wide` says
// nothing and is passed over. O(values).
void check_narrow(const FrameOutput& wide, const FrameOutput& narrow, std::string_view dtype);

}  // namespace sparseconv::cuda

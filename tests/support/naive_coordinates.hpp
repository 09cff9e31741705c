// Which rows a convolution has and which rows meet, by std::map and the relation alone: the
// coordinates' half of the naive network.
#pragma once
#include <cstddef>
#include <vector>

#include "sparseconv/conv_geometry.hpp"
#include "tests/support/naive_network.hpp"

namespace test_support {

// An empty tensor on all `out` for which some tap hits an input.
NaiveTensor strided_outputs(const NaiveTensor& in, const sparseconv::ConvGeometry& geometry);
// An empty tensor on all that some tap of an input reaches.
NaiveTensor transposed_outputs(const NaiveTensor& in, const sparseconv::ConvGeometry& geometry);

struct NaivePair {
  std::size_t in, out;
  int tap;
};

// All (fine row, coarse row, tap) with fine = coarse * stride - padding + r * dilation.
std::vector<NaivePair> pairs_of(const NaiveTensor& fine, const NaiveTensor& coarse,
                                const sparseconv::ConvGeometry& geometry);

}  // namespace test_support

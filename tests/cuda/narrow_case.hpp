// Networks with random weights, scans and distances of the tests of 8-bit inference.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "sparseconv/model.hpp"
#include "sparseconv/sparse_tensor.hpp"

namespace cuda_tests {

sparseconv::Model network(const std::string& name);  // of build_architecture, with 4 channels in

// About `rows` cells, inside of `shape` where there is one. Features of the values -1, 0 and 1, or
// normal ones.
sparseconv::SparseTensor scan(int rows, unsigned seed, bool has_integers,
                              std::optional<sparseconv::SpatialShape> shape = std::nullopt);

// As scan() with normal features over 64: the values of spunet with random weights grow 10^5-fold,
// beyond halves.
sparseconv::SparseTensor small_scan(int rows, unsigned seed);

// Root mean square of the differences over that of the values.
double relative_error(std::span<const float> got, std::span<const float> wanted);
double relative_error(const base::Tensor& got, const base::Tensor& wanted);

}  // namespace cuda_tests

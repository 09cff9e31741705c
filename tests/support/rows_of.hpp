// Coordinates and features of a sparse tensor as plain rows, to compare.
#pragma once
#include "sparseconv/sparse_tensor.hpp"
#include "tests/support/compare_values.hpp"

namespace test_support {

inline Rows rows_of(const sparseconv::SparseTensor& tensor) {
  Rows rows;
  const auto coords = tensor.coordinates->coords();
  rows.coords.assign(coords.begin(), coords.end());
  if (tensor.features.numel() > 0) {
    const float* values = tensor.features.data<float>();
    rows.features.assign(values, values + tensor.features.numel());
  }
  return rows;
}

}  // namespace test_support

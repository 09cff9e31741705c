// Features on coordinates: row i of `features` belongs to row i of `coordinates`.
#pragma once
#include "gemm_core/base/tensor.hpp"
#include "sparseconv/coordinates.hpp"

namespace sparseconv {

struct SparseTensor {
  CoordinatesPtr coordinates;
  base::Tensor features;  // [rows, channels]
  std::int64_t rows() const { return coordinates ? coordinates->size() : 0; }
  std::int64_t channels() const { return features.size(1); }
  void check(const char* operation) const;  // Error when row counts differ
};

// The tensor with the spatial shape that holds for it: its own, else `wanted`. Error where both are
// given and differ, or a row lies outside.
SparseTensor within_shape(const SparseTensor& tensor, const std::optional<SpatialShape>& wanted);

}  // namespace sparseconv

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

}  // namespace sparseconv

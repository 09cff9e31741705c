#include "sparseconv/sparse_tensor.hpp"

namespace sparseconv {

void SparseTensor::check(const char* operation) const {
  ENSURE(coordinates, operation, ": the tensor has no coordinates");
  ENSURE(features.defined() && features.shape().rank() == 2, operation, ": features of shape ",
         base::to_string(features.shape()), ", expected [rows, channels]");
  ENSURE(features.size(0) == coordinates->size(), operation, ": ", coordinates->size(),
         " coordinates, but ", features.size(0), " rows of features");
}

}  // namespace sparseconv

#include "sparseconv/sparse_tensor.hpp"

namespace sparseconv {

void SparseTensor::check(const char* operation) const {
  ENSURE(coordinates, operation, ": the tensor has no coordinates");
  ENSURE(features.defined() && features.shape().rank() == 2, operation, ": features of shape ",
         base::to_string(features.shape()), ", expected [rows, channels]");
  ENSURE(features.size(0) == coordinates->size(), operation, ": ", coordinates->size(),
         " coordinates, but ", features.size(0), " rows of features");
}

namespace {

std::string to_string(const SpatialShape& v) {
  return base::concat("[", v[0], ", ", v[1], ", ", v[2], "]");
}

}  // namespace

SparseTensor within_shape(const SparseTensor& tensor, const std::optional<SpatialShape>& wanted) {
  const auto& own = tensor.coordinates->spatial_shape();
  if (!wanted || wanted == own) return tensor;
  ENSURE(!own, "the input has spatial shape ", to_string(*own), ", the model ", to_string(*wanted));
  const auto coords = tensor.coordinates->coords();
  auto bounded = Coordinates::create(
      {coords.begin(), coords.end()},
      {.batch_size = tensor.coordinates->batch_size(), .spatial_shape = wanted});
  return {std::move(bounded), tensor.features};
}

}  // namespace sparseconv
